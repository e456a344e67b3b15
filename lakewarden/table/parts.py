"""Writes more rows than fit into memory to a table's log: they become visible together, or none is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import pyarrow as pa

from lakewarden.delta.reading.rows import matches
from lakewarden.errors import Conflict, ConstraintViolation, Unsupported
from lakewarden.log.plain import PlainRow
from lakewarden.log.position import position_of
from lakewarden.log.receipt import Receipt
from lakewarden.log.record import LogBatch
from lakewarden.operations.intake import TableIntake
from lakewarden.operations.reading.scope import Wanted
from lakewarden.rows.files import file_columns
from lakewarden.rows.intake import Parts
from lakewarden.table.reader import TableReader

PartsMode = Literal["upsert", "insert", "replace"]

_ATTEMPTS = 20
"""Attempts to read and append before a write raises CONFLICT."""


@dataclass(frozen=True)
class PartsWrite:
    """A write of many rows of one user, or of a SHARED table. Keeps their keys in memory."""

    reader: TableReader
    intake: TableIntake
    given: Parts
    user: str | None

    def run(self, mode: PartsMode) -> Receipt:
        """Appends the rows, in place of the live ones under `replace`; otherwise raises as `TableClient.write`."""
        schema, log = self.intake.table.schema, self.reader.log
        if columns := file_columns(schema):
            raise Unsupported(f"{self.intake.table.name} has the FILE column {columns[0]!r}: write its rows with their files")
        self.reader.check_active()
        if mode == "upsert" or schema.append_only:
            return log.append_whole(self._batches(None))
        for _ in range(_ATTEMPTS):
            view = log.view()
            live = self.reader.scan(Wanted(schema.primary_key), self.user)
            batches = self._batches(live) if mode == "insert" else chain(self._gone(live), self._batches(None))
            try:
                receipt = log.append_whole(batches, position_of(view.end))
            except Conflict:
                continue
            return receipt if mode == "insert" else Receipt(receipt.rows - live.num_rows, receipt.last_seq)
        raise Conflict(f"{self.intake.table.name} was written to {_ATTEMPTS} times in between; try again")

    def _gone(self, live: pa.Table) -> Iterator[LogBatch]:
        if live.num_rows:
            yield self.intake.deletes(live.select(self.intake.table.schema.primary_key), self.user)

    def _batches(self, live: pa.Table | None) -> Iterator[LogBatch]:
        """
        Args:
            live: rows whose keys must not come.

        Raises:
            ConstraintViolation: such a key comes, or a key comes twice.
        """
        table, seen = self.intake.table, list[pa.Table]()
        key = list(table.schema.primary_key)
        once = not (table.schema.append_only or table.options.on_duplicate == "replace")
        for part in self.given.tables():
            if not part.num_rows:
                continue
            batch = self.intake.upserts(part, self.user)
            assert not isinstance(batch, PlainRow), "rows come as Arrow data"
            if live is not None and live.num_rows:
                _check_absent(table.name, key, batch.rows, live)
            if once:
                seen.append(batch.rows.select(key))
            yield batch
        keys = pa.concat_tables(seen) if seen else None
        if keys is not None and keys.group_by(key).aggregate([]).num_rows < keys.num_rows:
            raise ConstraintViolation(f"a key ({', '.join(key)}) is among the rows twice: each row of the table has its own")


def _check_absent(name: object, key: list[str], rows: pa.Table, live: pa.Table) -> None:
    taken = rows.filter(matches(rows, live, key))
    if taken.num_rows:
        first = {column: taken[column][0].as_py() for column in key}
        raise ConstraintViolation(
            f"{name} has a row with the key {first} already; use mode='upsert', or ON CONFLICT, to replace it"
        )
