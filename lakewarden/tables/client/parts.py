"""Writes more rows than fit into memory to a table's log: they become visible together, or none is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from lakewarden.errors import Conflict
from lakewarden.log.plain import PlainRow
from lakewarden.log.position import position_of
from lakewarden.log.receipt import Receipt
from lakewarden.log.record import LogBatch
from lakewarden.log.table_log import Behind
from lakewarden.log.view import LogView
from lakewarden.tables.client.decision import key_taken, later_rows
from lakewarden.tables.client.reader import TableReader
from lakewarden.tables.files.referring import check_batch
from lakewarden.tables.intake import TableIntake
from lakewarden.tables.reading.seen_keys import SeenKeys
from lakewarden.tables.rows.intake import RowParts

PartsMode = Literal["upsert", "insert", "replace"]

_ATTEMPTS = 20
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
            later = None if former is None else later_rows(self.reader, former, view, users)
            if later is None or seen.first_of([later]) is not None:
                taken = self.reader.first_of(seen, self.user)
                if taken is not None:
                    raise key_taken(self.intake.table, taken)
            former = view
            return position_of(view.end)

        return behind

    def _replaced(self) -> Receipt:
        schema, log = self.intake.table.schema, self.reader.log
        for _ in range(_ATTEMPTS):
            view = log.view()
            with self.reader.live_keys(self.user) as live, SeenKeys(schema.primary_key) as seen, suppress(Conflict):
                receipt = self.reader.appending.append_whole(
                    chain(self._gone(live), self._batches(None if self._repeats else seen)), position_of(view.end)
                )
                return Receipt(receipt.rows - live.rows, receipt.last_seq)
        raise Conflict(f"{self.intake.table.name} was written to {_ATTEMPTS} times in between; try again")

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
