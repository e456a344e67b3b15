"""One scope's part of a table's log, in Arrow: what flushes drain and strong reads read."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.model import TableSchema
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.view import LogView, PendingRows, make_durable, read_view, rows_of
from lakewarden.log.record import SEQ, decode
from lakewarden.storage.objects import ObjectStore


@dataclass(frozen=True)
class LogScope:
    """A `HotScope` (log.drain). Picklable where its store is."""

    store: ObjectStore
    log_id: str
    user: str
    schemas: tuple[TableSchema, ...]
    end: int
    pending: PendingRows | None

    @classmethod
    def of(cls, store: ObjectStore, view: LogView, user: str, schemas: tuple[TableSchema, ...]) -> LogScope:
        return cls(store, view.log_id, user, schemas, view.end, view.pending.get(user))

    def rows(self) -> pa.Table:
        return rows_of(self.store, self.pending, self.schemas) if self.pending else decode([], [], self.schemas)

    def later(self, rows: pa.Table, after: int) -> pa.Table | None:
        if not len(rows) or rows.column(SEQ)[-1].as_py() <= after:
            return None
        return rows if rows.column(SEQ)[0].as_py() > after else rows.filter(pc.field(SEQ) > after)

    def again(self) -> LogScope:
        view = read_view(self.store, self.log_id, HeaderCache())
        make_durable(self.store, view)
        return replace(self, end=view.end, pending=view.pending.get(self.user))
