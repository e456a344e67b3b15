"""Executes INSERT OVERWRITE of dynamic tables: of the partition that is named, or of those that the rows fall into (FL-43)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

import pyarrow as pa

from lakewarden.delta.partitions import Partition, divided, filled
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.insert import incoming
from lakewarden.sql.handlers.partitions import named_of
from lakewarden.sql.handlers.writing.target import WriteTarget
from lakewarden.sql.results import AffectedRows
from lakewarden.sql.statements.rows import Overwrite
from lakewarden.tables.predicate import condition_of
from lakewarden.tables.rows.intake import RowParts


def overwrite_dynamic(context: Context, statement: Overwrite, target: WriteTarget) -> AffectedRows:
    """Raises:
    ConstraintViolation, InvalidArgument: a row or a named partition does not fit, or a key is given twice. Nothing was changed.
    Conflict: a flush changed the same partitions meanwhile. Nothing was changed.
    """
    table = target.table
    named = dict(named_of(table, statement.partition)) if statement.partition else {}
    if named and not statement.columns:
        rest = tuple(name for name in table.schema.names if name not in named)
        statement = replace(statement, columns=rest)
    rows = _completed(context, statement, target, named)
    if len(named) == len(table.schema.partition_by):
        partitions = [tuple(named.items())] if named else []
    else:
        partitions = list(dict.fromkeys(each for part in rows() for each in _partitions(part, table.schema.partition_by)))
        if not partitions:
            return target.affected(0)  # no row says which partitions would be replaced
    result = target.client.direct.overwrite((part for part in rows() if part.num_rows), within=condition_of(partitions))
    return target.affected(result.rows_inserted, result.version if result.committed else None)


def _partitions(rows: pa.Table, columns: Sequence[str]) -> Iterator[Partition]:
    return (partition for partition, _ in divided(rows, columns)) if rows.num_rows else iter(())


def _completed(
    context: Context, statement: Overwrite, target: WriteTarget, named: dict[str, str | None]
) -> Callable[[], Iterable[pa.Table]]:
    """The rows as they are stored, as often as they are needed."""
    given = incoming(context, statement, target.schema)
    kinds = {column.name: column.type.arrow for column in target.schema.columns}

    def complete(rows: pa.Table) -> pa.Table:
        for name, text in named.items():
            rows = rows.append_column(name, filled(text, rows.num_rows, kinds[name]))
        return target.client.completed(rows, user=None)

    if isinstance(given, RowParts):
        return lambda: map(complete, given.tables())
    if isinstance(given, pa.Table):
        made = complete(given)
    else:
        values = {name: filled(text, 1, kinds[name])[0].as_py() for name, text in named.items()}
        every = cast("Iterable[Mapping[str, object]]", given)  # `incoming` returns a table or dicts
        made = target.client.completed([{**row, **values} for row in every], user=None)
    return lambda: [made]
