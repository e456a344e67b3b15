"""Announces the append of an INSERT before its names are resolved, so that the segments of others wait for it (decision 79)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from lakewarden.base.scope import TableName
from lakewarden.catalog.model import Catalog, Table
from lakewarden.sql.plain_values import cells_of, is_plain, values_of
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.rows import Insert
from lakewarden.tables.rows.files import file_columns
from lakewarden.tables.warehouse import Warehouse

_FEW = 100
"""Rows of an INSERT that is a matter of milliseconds."""


def announced(warehouse: Warehouse, namespace: str | None, statements: Sequence[Statement]) -> AbstractContextManager[None]:
    """For the time in which the statements run: it ends with their append, or where they do not get so far. The table is the one
    that the name meant within the last second; if it means another by now, some segment of that one waits for a moment.
    """
    if len(statements) != 1 or not isinstance(insert := statements[0], Insert) or not _is_short(insert):
        return nullcontext()
    table = _known(warehouse.catalog.recent(), insert, namespace)
    return nullcontext() if table is None else warehouse.log(table).announced()


def _is_short(insert: Insert) -> bool:
    """Whether nothing takes long before it appends: DuckDB computes nothing, and few keys are looked up."""
    values = None if insert.rows is None or insert.conflict is not None or insert.files else values_of(insert.rows)
    if values is None or len(values.expressions) > _FEW:
        return False
    return all(is_plain(cell) for row in values.expressions for cell in cells_of(row))


def _known(catalog: Catalog, insert: Insert, namespace: str | None) -> Table | None:
    """A table whose rows go through the log by their keys."""
    place = insert.table.namespace or namespace
    table = None if place is None else catalog.tables.get(TableName(place, insert.table.name))
    return table if table is not None and table.schema.primary_key and not file_columns(table.schema) else None
