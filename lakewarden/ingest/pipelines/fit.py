"""How the objects of a batch fit the table: the first one gives it its schema, later ones may add columns, others are rejects."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from lakewarden.base.clock import Clock, NewId
from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.evolution import AddColumn, altered
from lakewarden.catalog.model import OBJECT, Column, Pipeline, SchemaColumn, Table, TableSchema
from lakewarden.catalog.schema import declare
from lakewarden.catalog.state.ledger import ObjectFate
from lakewarden.errors import ConstraintViolation, InvalidArgument, Unsupported
from lakewarden.ingest.pipelines.reading import ObjectGone, Outcome, Reading
from lakewarden.ingest.templates.template import Columns
from lakewarden.ingest.templates.worker import ObjectRows
from lakewarden.tables.rows.defaults import Defaults
from lakewarden.tables.rows.validate import validated


@dataclass(frozen=True)
class ObjectTable:
    """The rows of one object that go into the table."""

    key: str
    path: Path


@dataclass
class FitResult:
    """What becomes of each object of a batch, in order, and the table that all of their rows fit."""

    table: Table
    """Its `schemas` are empty if no object gave it one."""
    taken: list[ObjectFate] = field(default_factory=list)
    rows: list[ObjectTable] = field(default_factory=list)


@dataclass(frozen=True)
class PipelineFitting:
    """The rules of one pipeline."""

    pipeline: Pipeline
    clock: Clock
    new_id: NewId

    def fit(self, table: Table, reading: Reading) -> FitResult:
        """Reads all objects with the table's columns, then fits them one after the other: what one adds, the next ones have.

        Of a table without a schema, the objects are read one by one until one gives it a schema.
        """
        made = self._shaped(table, reading)
        number = len(made.taken)
        for found in reading.rest(columns_of(made.table), number):
            self._take(made, reading, number, found)
            number += 1
        return made

    def shaped(self, table: Table, reading: Reading) -> Table:
        """The table with the schema that the first object gives it, if it has none yet."""
        return self._shaped(table, reading).table

    def _shaped(self, table: Table, reading: Reading) -> FitResult:
        made = FitResult(table)
        while not made.table.schemas and len(made.taken) < len(reading.objects):
            number = len(made.taken)
            self._take(made, reading, number, reading.one(number, {}))
        return made

    def _take(self, made: FitResult, reading: Reading, number: int, found: Outcome) -> None:
        columns = columns_of(made.table)
        if isinstance(found, ObjectRows) and not _agrees(found.columns, columns):
            found = reading.one(number, columns)  # another object of the batch added a column of its own type
        made.table, became = self.taken(made.table, found)
        if became.rows and isinstance(found, ObjectRows):
            made.rows.append(ObjectTable(reading.objects[number].object.key, found.path))
        made.taken.append(became)

    def taken(self, table: Table, found: Outcome) -> tuple[Table, ObjectFate]:
        """The table with the columns that the object adds, and whether its rows go in."""
        if not isinstance(found, ObjectRows):
            return table, ObjectFate("left" if isinstance(found, ObjectGone) else "rejected", reason=found.reason)
        if not found.columns:
            return table, ObjectFate("ingested")
        try:
            grown = self.grown(table, found.columns)
            deque(self.checked(grown.schema, ObjectTable("", found.path)), maxlen=0)  # the first row that does not fit raises
        except (InvalidArgument, Unsupported, ConstraintViolation) as error:
            return table, ObjectFate("rejected", reason=error.message)
        return grown, ObjectFate("ingested", found.rows)

    def grown(self, table: Table, columns: Columns) -> Table:
        """The table with the columns of an object.

        Raises:
        InvalidArgument, Unsupported: the object lacks a column of the table, or one of its own cannot be a column.
        """
        if not table.schemas:
            return replace(table, schemas=(self._first(columns),))
        self._check_missing(table, columns)
        known = {column.name for column in table.schema.columns}
        for name, kind in columns.items():
            if name not in known:
                table = altered(table, AddColumn(Column(name, str(kind))), self.clock())
        return table

    def _first(self, columns: Columns) -> TableSchema:
        self._check_key(columns)
        declared = [Column(name, str(kind)) for name, kind in columns.items()]
        made = declare(declared, self.pipeline.primary_key, "SHARED", self.pipeline.partition_by)
        hidden = SchemaColumn(len(columns) + 1, OBJECT, ColumnType("TEXT"), nullable=True, default=None)
        return replace(made, columns=(*made.columns, hidden))

    def _check_key(self, columns: Columns) -> None:
        for name in (*self.pipeline.primary_key, *self.pipeline.partition_by):
            if name not in columns:
                raise InvalidArgument(
                    f"it has no column {name!r}, which is in PRIMARY_KEY or PARTITION_BY; it has {_listed(columns)}"
                )

    def _check_missing(self, table: Table, columns: Columns) -> None:
        """Columns that a later object added may be missing: rows from before have NULL there too."""
        self._check_key(columns)
        first = {column.id for column in table.schemas[0].columns}
        there = [column for column in table.schema.shown if column.id in first and column.default is None]
        missing = [column.name for column in there if column.name not in columns]
        if missing and self.pipeline.missing_columns == "reject":
            raise InvalidArgument(
                f"it lacks {_listed(missing)}, which the table's first object had; MISSING_COLUMNS = 'null' makes them NULL"
            )

    def checked(self, schema: TableSchema, rows: ObjectTable) -> Iterator[pa.Table]:
        """Yields the rows of an object as the table has them, with the object's key.

        Raises:
            ConstraintViolation: a value does not fit its column, or is NULL where it may not be.
        """
        defaults = Defaults(self.clock, self.new_id, None)
        with pa.OSFile(str(rows.path), "rb") as file, pa.ipc.open_stream(file) as stream:
            for batch in stream:
                given = pa.Table.from_batches([batch])
                if schema.column(OBJECT) is not None:
                    given = given.append_column(OBJECT, pa.repeat(rows.key, given.num_rows))
                yield validated(schema, given, defaults, repeats=True)


def columns_of(table: Table) -> dict[str, ColumnType]:
    """The table's columns as templates know them; none of a table without a schema."""
    return {column.name: column.type for column in table.schema.shown} if table.schemas else {}


def _agrees(columns: Columns, table: Columns) -> bool:
    """Whether the columns that both have are of the same types."""
    return all(table.get(name, kind) == kind for name, kind in columns.items())


def _listed(names: Columns | Sequence[str]) -> str:
    return ", ".join(names) or "no columns"
