"""The door to every store: a location in, an object store out."""

from __future__ import annotations

from dataclasses import replace

from lakewarden.connection import Location
from lakewarden.storage.local import LocalObjects
from lakewarden.storage.location import canonical
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.remote import RemoteObjects


def open_store(location: Location) -> ObjectStore:
    """Opens the place without touching it: whether it can be reached shows at the first call.

    Raises:
        InvalidArgument: the URI names no place, or holds a credential.
    """
    place = canonical(location.uri)
    return RemoteObjects(replace(location, uri=place)) if "://" in place else LocalObjects(place)
