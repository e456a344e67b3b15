"""Writes more rows than fit into memory to a table's log: they become visible together, or none is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Literal

from lakewarden.errors import Conflict, ConstraintViolation
from lakewarden.log.plain import PlainRow
from lakewarden.log.position import position_of
from lakewarden.log.receipt import Receipt
from lakewarden.log.record import LogBatch
from lakewarden.operations.intake import TableIntake
from lakewarden.operations.reading.seen_keys import SeenKeys
from lakewarden.rows.intake import Parts
from lakewarden.table.reader import TableReader

PartsMode = Literal["upsert", "insert", "replace"]

_ATTEMPTS = 20
"""Attempts to read and append before a write raises CONFLICT."""


@dataclass(frozen=True)
class PartsWrite:
    """A write of many rows of one user, or of a SHARED table, in bounded memory."""

    reader: TableReader
    intake: TableIntake
    given: Parts
    user: str | None

    def run(self, mode: PartsMode) -> Receipt:
        """Appends the rows, in place of the live ones under `replace`; otherwise raises as `TableClient.write`."""
        schema = self.intake.table.schema
        self.reader.check_active()
        with SeenKeys(schema.primary_key) as seen:
            if mode == "upsert" or schema.append_only:
                return self.reader.appending.append_whole(self._batches(None if self._repeats else seen))
            if mode == "insert":
                return self.reader.appending.append_whole(self._batches(seen), partial(self._behind, seen))
        return self._replaced()

    def _behind(self, seen: SeenKeys) -> int:
        """Returns the last position of the log.

        Raises:
            ConstraintViolation: a key is live.
        """
        view, table = self.reader.log.view(), self.intake.table
        taken = self.reader.first_of(seen, self.user)
        if taken is not None:
            first = dict(zip(table.schema.primary_key, taken, strict=True))
            raise ConstraintViolation(
                f"{table.name} has a row with the key {first} already; use mode='upsert', or ON CONFLICT, to replace it"
            )
        return position_of(view.end)

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
            if seen is not None:
                seen.add(batch.rows)
            yield batch
        if seen is not None and not self._repeats:
            seen.check_once()
