"""Opening a Delta table, and telling the ways apart in which it can fail to be there."""

from __future__ import annotations

import os
import re

from deltalake import DeltaTable

from lakewarden.connection import Location
from lakewarden.delta.border import delta_errors
from lakewarden.delta.uri import delta_uri
from lakewarden.errors import Corrupt, NotFound
from lakewarden.storage.location import local_path
from lakewarden.storage.options import delta_options

_NO_FILES = re.compile(r"No files in log segment|does not exist")


def opened(location: Location, version: int | None) -> DeltaTable:
    """Raises:
    NotFound: there may be no table (`check_absent` says); an unknown version may look the same.
    Corrupt: what lies there cannot be read.
    """
    with delta_errors(f"cannot open the Delta table at {location}"):
        options = delta_options(location, os.environ)
        return DeltaTable(delta_uri(location.uri), version=version, storage_options=options or None)


def check_absent(uri: str, error: NotFound) -> None:
    """Raises unless there is no table at all.

    deltalake says the same of that, of a directory that may not be read, and of an unknown scheme.
    """
    if not _NO_FILES.search(error.message):
        raise Corrupt(error.message) from error
    path = local_path(uri)
    if path is not None:
        with delta_errors(f"cannot open the Delta table at {uri}"):
            if path.exists():
                os.listdir(path)
