"""Opens every kind of store: takes a location, returns an object store."""

from __future__ import annotations

from dataclasses import replace

from lakewarden.base.connection import Location
from lakewarden.storage.local import LocalObjects
from lakewarden.storage.location import canonical, local_path
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.remote import RemoteObjects


def open_store(location: Location) -> ObjectStore:
    """Opens the place without touching it: the first call shows whether it can be reached.

    Raises:
        InvalidArgument: the URI does not name a place, or contains a credential.
    """
    path = local_path(location.uri)
    return RemoteObjects(replace(location, uri=canonical(location.uri))) if path is None else LocalObjects(str(path))
