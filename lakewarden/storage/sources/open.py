"""Opens a source in every kind of store."""

from __future__ import annotations

from dataclasses import replace

from lakewarden.base.connection import Location
from lakewarden.storage.location import canonical, local_path
from lakewarden.storage.sources.local import LocalSource
from lakewarden.storage.sources.remote import RemoteSource
from lakewarden.storage.sources.source import ObjectSource


def open_source(location: Location) -> ObjectSource:
    """Opens the place without touching it.

    Raises:
        InvalidArgument: the URI does not name a place, or contains a credential.
    """
    path = local_path(location.uri)
    return RemoteSource(replace(location, uri=canonical(location.uri))) if path is None else LocalSource(str(path))
