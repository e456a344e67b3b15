"""Says in the log which stream is the last that took the place of the table's streaming writer: earlier ones append nothing more.

As where columns are required (columns.py): a cut has the token. Where a stream may still be at work that was replaced, the
positions are filled that it could take without another look at the cuts. Writes of others carry no token, and pass.
"""

from __future__ import annotations

from dataclasses import replace

from lakewarden.base.clock import NewId
from lakewarden.log.objects.cut import LogCut
from lakewarden.log.objects.cuts.advance import advance
from lakewarden.log.objects.cuts.fill import fill
from lakewarden.storage.objects import ObjectStore


def raise_fence(store: ObjectStore, log_id: str, token: int, new_id: NewId, segment_format: int, *, replaces: bool) -> None:
    """From now on appends that carry a lower token raise `LostPlace`. May be repeated.

    Raises:
        Conflict, StorageUnavailable: try again.
    """

    def raised(cut: LogCut) -> LogCut | None:
        return None if cut.sealed or cut.fence >= token else replace(cut, fence=token)

    if not advance(store, log_id, raised).sealed and replaces:
        fill(store, log_id, new_id, segment_format)
