"""Settling: after durable commits, the log forgets what lies in the Delta tables. May wait, may be repeated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from lakewarden.catalog.model import TableSchema
from lakewarden.clock import NewId
from lakewarden.errors import Conflict
from lakewarden.faults import Reach, no_faults
from lakewarden.log0 import layout
from lakewarden.log0.cut import Cut, newest_cut, newest_version
from lakewarden.log0.position import end_of
from lakewarden.log0.record import SEQ, carry_schema, log_schema
from lakewarden.log0.segment import Piece, decode_rows, encode
from lakewarden.log0.position import seq_of
from lakewarden.log0.view import HeaderCache, LogView, PendingRows, RowRange, last_position, read_view
from lakewarden.settings import LogSettings
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore

_ATTEMPTS = 50
"""Cuts that others may make before ours; each lost one is somebody's progress."""

_KEPT_CUTS = 8
"""Old cuts that stay: a listing that runs while cuts come and go still shows one that counts."""

_SEAL_POSITION = (1 << 34) - 1
"""`upto` of a sealed log: above every position that a writer could take."""


@dataclass(frozen=True)
class Settler:
    """Settles one log partition of a table with these schema versions."""

    store: ObjectStore
    log_id: str
    schemas: tuple[TableSchema, ...]
    settings: LogSettings
    new_id: NewId
    cache: HeaderCache
    reach: Reach = no_faults

    def settle(self, settled: Mapping[str, int]) -> None:
        """Notes that each user's rows up to that `_seq` are in the Delta table, durably; then cleans up.

        Raises:
            Conflict: others kept settling; nothing is lost, and the next settling does this one's work too.
        """
        for _ in range(_ATTEMPTS):
            try:
                view = read_view(self.store, self.log_id, self.cache)
                if view.cut.sealed or self._cut(view, settled):
                    self.reach("after-cut")
                    self.clean()
                    return
            except Missing:
                continue  # another settling came first and cleaned up what we were reading
        raise Conflict(f"the log {self.log_id} was settled by others {_ATTEMPTS} times in a row; try again")

    def seal(self) -> None:
        """Ends the log for good: whoever appends from now on gets NOT_FOUND, and what was pending is gone. May be repeated."""
        for _ in range(_ATTEMPTS):
            cut = newest_cut(self.store, self.log_id)
            if cut.sealed or self._publish(Cut(cut.version + 1, upto=_SEAL_POSITION, sealed=True)):
                self.clean()
                return
        raise Conflict(f"the log {self.log_id} was settled by others {_ATTEMPTS} times in a row; try again")

    def _cut(self, view: LogView, settled: Mapping[str, int]) -> bool:
        marks = dict(view.cut.settled)
        for user, seq in settled.items():
            marks[user] = max(seq, marks.get(user, -1))
        live = [one for rows in view.pending.values() for one in rows.ranges if one.last_seq > marks.get(one.chunk.user, -1)]
        if not self._pays(view, live):
            return self._publish(replace(view.cut, version=view.cut.version + 1, settled=marks))
        version = view.cut.version + 1
        carry = self._carry(version, live)
        cut = Cut(version, view.position, carry, {user: seq for user, seq in marks.items() if seq > view.end})
        self.reach("after-carry")
        if self._publish(cut):
            return True
        self.store.delete(carry)
        return False

    def _pays(self, view: LogView, live: list[RowRange]) -> bool:
        """Whether moving the live rows is worth it: they are few beside what lies in the log."""
        total = sum(view.sizes.values())
        return sum(one.chunk.length for one in live) <= self.settings.carry_below * total

    def _carry(self, version: int, live: list[RowRange]) -> tuple[str, ...]:
        if not live:
            return ()
        key = layout.carry(self.log_id, version, self.new_id())
        self.store.create(key, encode([self._piece(one) for one in live], self.new_id()))
        return (key,)

    def _piece(self, one: RowRange) -> Piece:
        chunk = one.chunk
        schema = self.schemas[chunk.schema_version - 1]
        data = self.store.get_range(one.key, chunk.offset, chunk.length)
        if one.position is None:
            rows = decode_rows(data, carry_schema(schema), one.key)
        else:
            first = seq_of(one.position, chunk.ordinal)
            plain = decode_rows(data, log_schema(schema), one.key)
            rows = plain.append_column(SEQ, pa.array(range(first, first + chunk.rows), pa.int64()))
        return Piece(chunk.user, rows, chunk.ordinal, chunk.schema_version, chunk.stored_at, one.last_seq)

    def _publish(self, cut: Cut) -> bool:
        """Whether the cut counts: it was absent, and no newer one is there. A pruned number can be made again."""
        try:
            self.store.create(layout.cut(self.log_id, cut.version), cut.encode())
        except AlreadyThere:
            return False
        return newest_version(self.store, self.log_id) == cut.version

    def clean(self) -> None:
        """Deletes what the newest cut has settled. May be repeated, and may stop anywhere."""
        listed = [entry.key for entry in self.store.list(layout.segments(self.log_id))]
        carries = [entry.key for entry in self.store.list(layout.carries(self.log_id))]
        cuts = [entry.key for entry in self.store.list(layout.cuts(self.log_id))]
        cut = newest_cut(self.store, self.log_id)
        self.store.delete([key for key in listed if layout.number(key) <= cut.upto])
        self.reach("after-segments")
        self.store.delete([key for key in carries if layout.carry_version(key) <= cut.version and key not in cut.carry])
        self.store.delete([key for key in cuts if layout.number(key) <= cut.version - _KEPT_CUTS])
