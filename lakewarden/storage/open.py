"""The door to every store: a URI in, an object store out."""

from __future__ import annotations

from lakewarden.storage.local import LocalObjects
from lakewarden.storage.location import canonical
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.remote import RemoteObjects


def open_store(uri: str) -> ObjectStore:
    """Opens the place without touching it: whether it can be reached shows at the first call.

    Raises:
        InvalidArgument: the URI names no place, or holds a credential.
    """
    place = canonical(uri)
    return RemoteObjects(place) if "://" in place else LocalObjects(place)
