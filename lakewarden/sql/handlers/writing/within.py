"""Which partitions a statement can concern: by the parts of its condition that compare partition columns alone.

DuckDB decides, as it does in the statement's own query.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from sqlglot import exp

from lakewarden.base.arrays import numbers
from lakewarden.delta.partitions import Partition
from lakewarden.errors import InvalidArgument
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.writing.target import WriteTarget
from lakewarden.sql.queries import select
from lakewarden.tables.direct.value import Within
from lakewarden.tables.predicate import STEADY, as_rows

_PARTITIONS = "partitions of the table"
_PLACE = "place among the partitions"
"""The relation of the partitions, and the column of a partition's number in it; no table and no column can have these names."""


def within_of(context: Context, target: WriteTarget, query: exp.Select) -> Within | None:
    """Returns what chooses the partitions; None where the condition says nothing of them alone.

    Args:
        query: a query of the table alone, with the statement's condition.
    """
    alias, schema = query.args["from_"].this.alias_or_name, target.schema
    condition = query.args["where"].this
    parts = condition.flatten() if isinstance(condition, exp.And) else [condition]
    deciding = [part.copy() for part in parts if _decides(part, alias, schema.partition_by)]
    if not deciding:
        return None
    table = exp.table_(_PARTITIONS, quoted=True, alias=exp.to_identifier(alias, quoted=True))
    asked = exp.select(exp.column(_PLACE, quoted=True)).from_(table).where(*deciding)

    def within(partitions: Collection[Partition]) -> Collection[Partition]:
        every = list(partitions)
        rows = as_rows(schema, every).append_column(_PLACE, numbers(np.arange(len(every))))
        try:
            found = select.run(context, asked, {}, {_PARTITIONS: rows}, {_PARTITIONS: schema})
        except InvalidArgument:  # a value that cannot be compared, of a partition whose rows may not even be looked at
            return every
        return {every[int(place)] for place in found.table.columns[0].to_numpy()}

    return within


def _decides(part: exp.Expr, alias: str, names: Collection[str]) -> bool:
    """Whether this part of a condition is known of a partition as a whole, and always the same."""
    columns = list(part.find_all(exp.Column))
    own = all(not column.db and column.table.lower() in ("", alias.lower()) for column in columns)
    known = {name.lower() for name in names}
    among = all(isinstance(column.this, exp.Identifier) and column.name.lower() in known for column in columns)
    return bool(columns) and own and among and all(type(node).__name__ in STEADY for node in part.walk())
