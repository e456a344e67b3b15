"""Opens a Delta table by delta-rs, for what that writes: checkpoints, and commits to tables that use more than ours do."""

from __future__ import annotations

import os

from deltalake import DeltaTable

from lakewarden.base.connection import Location
from lakewarden.delta.failures import delta_errors
from lakewarden.delta.uri import delta_uri
from lakewarden.storage.clients import OUTAGES
from lakewarden.storage.location import local_path
from lakewarden.storage.meter import count
from lakewarden.storage.options import delta_options


def opened(location: Location, version: int) -> DeltaTable:
    """Raises:
    NotFound: there is no such version.
    Corrupt: delta-rs cannot read the table.
    """
    what = f"cannot open the Delta table at {location}"
    with OUTAGES.requesting(location, what), delta_errors(what):
        options = delta_options(location, os.environ)
        if local_path(location.uri) is None:
            count("OPEN")
        return DeltaTable(delta_uri(location.uri), version=version, storage_options=options or None)
