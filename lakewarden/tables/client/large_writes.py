"""Writes of more rows than fit into memory: part by part, visible together, or none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import chain
from typing import Literal, Protocol

import pyarrow as pa

from lakewarden.base.attempts import Attempts
from lakewarden.delta.reading.bounds import key_bounds
from lakewarden.delta.reading.keys import Keys
from lakewarden.errors import Conflict
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.position import WHOLE, Behind, Receipt, position_of
from lakewarden.log.record import LogBatch, PlainRow
from lakewarden.tables.client.reader import TableReader
from lakewarden.tables.direct.value import in_parts
from lakewarden.tables.files import check_batch, texts_of
from lakewarden.tables.intake import Revision, TableIntake
from lakewarden.tables.keys.lookup import rows_with
from lakewarden.tables.keys.seen_keys import SeenKeys
from lakewarden.tables.rows.intake import RowParts
from lakewarden.tables.strong_read import EVERYTHING, ReadSelection


@dataclass(frozen=True)
class Share:
    """Some of the rows, and what they make of the live ones."""

    keys: pa.Table
    """Of the live rows that `decide` takes, in the columns of the primary key; others may be among them, and NULL."""
    decide: Callable[[pa.Table], Revision]
    """Called once at most."""


class Decisions(Protocol):
    """What a statement decides for one share of its rows after the other."""

    def share(self, rows: pa.Table) -> Share: ...

    def close(self) -> int:
        """Called when all is decided. Returns how many of the changes are of rows that another share changed in the same way.

        Raises:
            ConstraintViolation: the shares do not go together.
        """
        ...


@dataclass(frozen=True)
class ComparedWrite:
    """Compares rows of one user, or of a SHARED table, with the live ones. Holds a share of them and its live rows."""

    reader: TableReader
    intake: TableIntake
    given: RowParts
    user: str | None
    begin: Callable[[], AbstractContextManager[Decisions]]
    """For each attempt: other rows may be live then."""
    part_bytes: int
    """Of a share, and of the live rows that it takes."""
    every: bool = False
    """Whether each share takes all live rows, which are then in memory."""

    def run(self) -> Receipt:
        """Returns how many rows were written and removed.

        Raises:
            ConstraintViolation, InvalidArgument: a row does not fit; nothing was written.
            Conflict: others kept writing in between; nothing was written.
        """
        log = self.reader.log
        self.reader.check_writable()
        attempts = Attempts(20, f"{self.intake.table.name} was written to", "in between")
        while attempts.next():
            view, again = log.view(), list[int]()
            with suppress(Conflict), self.begin() as decisions:
                receipt = self.reader.appending.append_whole(self._batches(decisions, again), position_of(view.end))
                return Receipt(receipt.rows - sum(again), receipt.last_seq)

    def _batches(self, decisions: Decisions, again: list[int]) -> Iterator[LogBatch]:
        every = self.reader.scan_to_write(EVERYTHING, self.user) if self.every else None
        most = WHOLE
        """Rows of a share; fewer while their live rows take too much."""
        for part in in_parts(self.given.tables(), self.part_bytes):
            start = 0
            while start < part.num_rows:
                rows = part.slice(start, most)
                share = decisions.share(rows)
                live = self._live(share.keys) if every is None else every
                if every is None and live.nbytes > self.part_bytes and rows.num_rows > 1:
                    most = rows.num_rows // 2
                    continue
                yield self._batch(share.decide(live), live)
                start += rows.num_rows
                if 4 * live.nbytes < self.part_bytes:
                    most = min(2 * most, WHOLE)
        again.append(decisions.close())

    def _batch(self, revision: Revision, live: pa.Table) -> LogBatch:
        batch, schema = self.intake.revision(revision, self.user), self.intake.table.schema
        assert not isinstance(batch, PlainRow), "rows come as Arrow data"
        check_batch(schema, batch, self.reader.target, texts_of(live, schema.of_files))
        return batch

    def _live(self, keys: pa.Table) -> pa.Table:
        """The live rows with these keys; or some of them, of more than `part_bytes`."""
        wanted = Keys(keys, self.intake.table.schema.primary_key)
        selection = ReadSelection(bounds=key_bounds(wanted.primary_key, keys))
        return self.reader.use_live(selection, self.user, rows_with(wanted, self.part_bytes))


# Writes more rows than fit into memory to a table's log: they become visible together, or none is written.
PartsMode = Literal["upsert", "insert", "replace"]

"""Attempts to read and append before a write raises CONFLICT."""


@dataclass(frozen=True)
class PartsWrite:
    """A write of many rows of one user, or of a SHARED table, in bounded memory."""

    reader: TableReader
    intake: TableIntake
    given: RowParts
    user: str | None

    def run(self, mode: PartsMode) -> Receipt:
        """Appends the rows, in place of the live ones under `replace`; otherwise raises as `TableClient.write`."""
        schema = self.intake.table.schema
        self.reader.check_writable()
        with SeenKeys(schema.primary_key) as seen:
            if mode == "upsert" or schema.append_only:
                return self.reader.appending.append_whole(self._batches(None if self._repeats else seen))
            if mode == "insert":
                return self.reader.appending.append_whole(self._batches(seen), self._behind(seen))
        return self._replaced()

    def _behind(self, seen: SeenKeys) -> Behind:
        """Where rows with these keys may go, if none of them is live: looks at all live rows, then at those that came since.

        Raises:
            ConstraintViolation: a key is live.
        """
        former: LogView | None = None
        users = (self.user or "",)

        def behind() -> int:
            nonlocal former
            view = self.reader.log.view(users)
            later = None if former is None else self.reader.later_rows(former, view, users)
            if later is None or seen.first_of([later]) is not None:
                taken = self.reader.first_of(seen, self.user)
                if taken is not None:
                    raise self.reader.key_taken(taken)
            former = view
            return position_of(view.end)

        return behind

    def _replaced(self) -> Receipt:
        schema, log = self.intake.table.schema, self.reader.log
        attempts = Attempts(20, f"{self.intake.table.name} was written to", "in between")
        while attempts.next():
            view = log.view()
            with self.reader.live_keys(self.user) as live, SeenKeys(schema.primary_key) as seen, suppress(Conflict):
                receipt = self.reader.appending.append_whole(
                    chain(self._gone(live), self._batches(None if self._repeats else seen)), position_of(view.end)
                )
                return Receipt(receipt.rows - live.rows, receipt.last_seq)

    def _gone(self, live: SeenKeys) -> Iterator[LogBatch]:
        return (self.intake.deletes(keys, self.user) for keys in live.parts() if keys.num_rows)

    @property
    def _repeats(self) -> bool:
        """Whether a key may come again."""
        return self.intake.table.schema.append_only or self.intake.table.options.on_duplicate == "replace"

    def _batches(self, seen: SeenKeys | None) -> Iterator[LogBatch]:
        """
        Args:
            seen: takes the keys.

        Raises:
            ConstraintViolation: a key comes twice, and may not.
        """
        for part in self.given.tables():
            if not part.num_rows:
                continue
            batch = self.intake.upserts(part, self.user)
            assert not isinstance(batch, PlainRow), "rows come as Arrow data"
            check_batch(self.intake.table.schema, batch, self.reader.target)
            if seen is not None:
                seen.add(batch.rows)
            yield batch
        if seen is not None and not self._repeats:
            seen.check_once()
