"""Says in the log that the table was altered: no rows of older columns are appended any more.

A cut names the oldest schema version whose rows are taken. Each append looks at the newest cut behind its put, so its next one
knows. A writer who has not looked yet could still put rows at one of the few positions beyond the last one: these are filled, as
where a user is closed (closing.py). What was put before that counts as written before the ALTER.
"""

from __future__ import annotations

from dataclasses import replace

from lakewarden.base.clock import NewId
from lakewarden.log.objects.cut import LogCut
from lakewarden.log.objects.cuts.advance import advance
from lakewarden.log.objects.cuts.fill import fill
from lakewarden.storage.objects import ObjectStore


def require_columns(store: ObjectStore, log_id: str, version: int, new_id: NewId, segment_format: int) -> None:
    """From now on appends of rows of an older schema version raise `SchemaChanged`. May be repeated.

    Raises:
        Conflict, StorageUnavailable: try again.
    """

    def required(cut: LogCut) -> LogCut | None:
        return None if cut.sealed or cut.columns >= version else replace(cut, columns=version)

    if not advance(store, log_id, required).sealed:
        fill(store, log_id, new_id, segment_format)
