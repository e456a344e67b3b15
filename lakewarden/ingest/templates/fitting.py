"""Makes what a template yields into rows of the catalog's names and types."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa

from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.column_values import reason
from lakewarden.errors import InvalidArgument
from lakewarden.ingest.templates.column_names import column_names
from lakewarden.ingest.templates.nested_values import documents_of
from lakewarden.ingest.templates.template import Columns
from lakewarden.ingest.templates.types import schema_of, type_of
from lakewarden.tables.rows.columns import Unfit, first_misfit, from_array, shown, unwrapped


class ObjectFitting:
    """Fits batches of one object, in order. Values of a column that the table has take its type, or the object is rejected."""

    def __init__(self, table: Columns) -> None:
        self._table = table
        self._given: pa.Schema | None = None
        self.columns: dict[str, ColumnType] = {}
        """Of the object, known from the first batch on."""
        self.rows = 0

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """
        Raises:
            InvalidArgument: the batch is not valid, has other columns than those before it, or a value does not fit.
            Unsupported: a column's type is none of the catalog's.
        """
        self._check(batch)
        fitted = list(map(self._column, self.columns, self.columns.values(), batch.schema, batch.columns))
        self.rows += batch.num_rows
        return pa.RecordBatch.from_arrays(fitted, schema=schema_of(self.columns))

    def _check(self, batch: pa.RecordBatch) -> None:
        try:
            batch.validate(full=True)
        except pa.ArrowInvalid as error:
            raise InvalidArgument(f"rows from {self.rows + 1} on hold values that are not valid: {error}") from error
        if self._given is None:
            self._given = batch.schema
            names = column_names(batch.schema.names, self._table)
            fields = zip(names, batch.schema, strict=True)
            self.columns = {name: self._table.get(name) or type_of(field) for name, field in fields}
        elif not batch.schema.equals(self._given):
            raise InvalidArgument(f"rows from {self.rows + 1} on have other columns than those before them")

    def _column(self, name: str, type: ColumnType, field: pa.Field[Any], values: pa.Array[Any]) -> pa.Array[Any]:
        plain = unwrapped(values)
        if pa.types.is_nested(plain.type):
            plain = documents_of(name, field, values)
        try:
            return from_array(type, plain)
        except Unfit:
            row = first_misfit(partial(from_array, type), plain)
            value = plain[row : row + 1].cast(pa.string())[0] if pa.types.is_temporal(plain.type) else plain[row]
            raise InvalidArgument(
                f"column {name!r}, row {self.rows + row + 1}: {shown(value.as_py())} does not fit {type},"
                f" which takes {reason(type)}"
            ) from None
