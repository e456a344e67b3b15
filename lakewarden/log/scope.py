"""One scope's part of a table's log, in Arrow: the input of flushes and strong reads."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.model import TableSchema
from lakewarden.log.record import SEQ, decode
from lakewarden.log.table_log import LogReader
from lakewarden.log.view import LogView, PendingRows


@dataclass(frozen=True)
class LogScope:
    """A `HotScope` (log.drain)."""

    log: LogReader
    user: str
    schemas: tuple[TableSchema, ...]
    end: int
    pending: PendingRows | None
    with_metadata: bool = False
    """As in `LogReader.rows`."""

    @classmethod
    def of(cls, log: LogReader, view: LogView, user: str, schemas: tuple[TableSchema, ...]) -> LogScope:
        return cls(log, user, schemas, view.end, view.pending.get(user))

    def rows(self) -> pa.Table:
        if self.pending is None:
            return decode([], [], self.schemas)
        return self.log.rows(self.pending, self.schemas, with_metadata=self.with_metadata)

    def later(self, rows: pa.Table, after: int) -> pa.Table | None:
        if not len(rows) or rows.column(SEQ)[-1].as_py() <= after:
            return None
        return rows if rows.column(SEQ)[0].as_py() > after else rows.filter(pc.field(SEQ) > after)

    def again(self) -> LogScope:
        log = self.log.anew()
        view = log.view((self.user,))
        log.make_durable(view)
        return replace(self, end=view.end, pending=view.pending.get(self.user))
