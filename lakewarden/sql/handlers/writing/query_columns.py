"""The columns of a table that is made from a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from lakewarden.catalog.model import Column, Table
from lakewarden.errors import InvalidArgument
from lakewarden.sql.context import Context
from lakewarden.sql.statements.base import Ref

_TYPES = {
    "TINYINT": "SMALLINT",
    "UTINYINT": "SMALLINT",
    "USMALLINT": "INT",
    "INTEGER": "INT",
    "UINTEGER": "BIGINT",
    "UBIGINT": "DECIMAL(20,0)",
    "HUGEINT": "DECIMAL(38,0)",
    "UHUGEINT": "DECIMAL(38,0)",
    "VARCHAR": "TEXT",
    "BLOB": "BYTES",
    "TIMESTAMP_S": "TIMESTAMP",
    "TIMESTAMP_MS": "TIMESTAMP",
    "TIMESTAMP_NS": "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP",
    **{name: name for name in ("BOOLEAN", "SMALLINT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIMESTAMP", "TIME", "UUID", "JSON")},
}
"""Of DuckDB's types those that a column can have, with the smallest type that takes all values."""

_DECIMALS = ("UBIGINT", "HUGEINT", "UHUGEINT")
_IN_K3 = _TYPES | dict.fromkeys(_DECIMALS, "BIGINT")
"""K3 has no DECIMAL: a sum of whole numbers is one, within the range of BIGINT."""

_KEPT_OTHERWISE = {"UUID": "VARCHAR", "TIME": "BIGINT"}
"""Column types that a query reads as another type of DuckDB's."""


def inferred_columns(context: Context, query: exp.Query, names: Sequence[str], types: Sequence[str]) -> list[Column]:
    """All may be NULL; a column that is taken from a table as it is keeps its type. By K3's rules no other becomes a DECIMAL.

    Raises:
        InvalidArgument: no column can have a type of the query.
    """
    declared, k3 = dict(_declared(context, query)), context.rules == "k3"
    return [Column(name, _type(name, kind, declared.get(name.lower(), ""), k3)) for name, kind in zip(names, types, strict=True)]


def _type(name: str, kind: str, taken: str, k3: bool) -> str:
    """`taken` is the type of the column that the query takes as it is, if it does."""
    if _KEPT_OTHERWISE.get(taken) == kind:
        return taken
    if kind.startswith("DECIMAL("):
        return "DOUBLE" if k3 and taken != "DECIMAL" else kind
    if kind.startswith("ENUM("):
        return "TEXT"
    found = (_IN_K3 if k3 else _TYPES).get(kind)
    if found is None:
        raise InvalidArgument(f"column {name!r} of the query is {kind}, which no column can be: cast it, as in {name}::TEXT")
    return found


def _declared(context: Context, query: exp.Query) -> Iterator[tuple[str, str]]:
    """The types of columns that a SELECT takes from its only table as they are, by the name of the result, in lower case."""
    from_ = query.args.get("from_") if isinstance(query, exp.Select) else None
    node = None if from_ is None or query.args.get("joins") else from_.this
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        return
    table = context.guarded(context.named(Ref(node.name, node.db or None)))
    if not isinstance(table, Table):
        return
    types = {column.name.lower(): column.type.name for column in table.schema.columns}
    for each in query.selects:
        column = each.unalias()
        if isinstance(column, exp.Star):
            yield from types.items()
        elif isinstance(column, exp.Column) and column.name.lower() in types:
            yield each.alias_or_name.lower(), types[column.name.lower()]
