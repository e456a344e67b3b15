"""The types of parameters that a client left open, from where they stand in the statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.model import Table
from lakewarden.serve.postgres.wire import kinds
from lakewarden.serve.postgres.wire.kinds import Kind, kind_of_column
from lakewarden.sql.statements.base import Ref, Statement
from lakewarden.sql.statements.others import ExecuteAs
from lakewarden.sql.statements.rows import Delete, Explain, Insert, Query, Update

_COMPARED = (
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
)
_CAST: Mapping[exp.DType, Kind] = {
    exp.DType.BOOLEAN: kinds.BOOL,
    exp.DType.SMALLINT: kinds.INT2,
    exp.DType.INT: kinds.INT4,
    exp.DType.BIGINT: kinds.INT8,
    exp.DType.FLOAT: kinds.FLOAT4,
    exp.DType.DOUBLE: kinds.FLOAT8,
    exp.DType.DECIMAL: kinds.NUMERIC,
    exp.DType.DATE: kinds.DATE,
    exp.DType.TIMESTAMP: kinds.TIMESTAMP,
    exp.DType.TIMESTAMPTZ: kinds.TIMESTAMPTZ,
    exp.DType.VARBINARY: kinds.BYTEA,
    exp.DType.UUID: kinds.UUID,
    exp.DType.TEXT: kinds.TEXT,
    exp.DType.VARCHAR: kinds.TEXT,
}

Columns = Mapping[str, Kind]
"""By name in lower case; a name that has several types is not among them."""


def inferred(statement: Statement, tables: Mapping[str, Table]) -> dict[int, Kind]:
    """The types of the parameters of which something is known.

    Args:
        tables: those that the session may read, by `namespace.name` and by the name alone in its own, in lower case.
    """
    found: dict[int, Kind] = {}
    match statement:
        case ExecuteAs(statement=inner):
            return inferred(inner, tables)
        case Query(query) | Explain(query):
            _add(found, query, _columns(query, tables))
        case Insert(table, names, rows) if rows is not None:
            target = tables.get(_name(table))
            _add(found, rows, _columns(rows, tables))
            if target is not None:
                _add_values(found, rows, target, names)
        case Update(table, assignments, where) if (target := tables.get(_name(table))) is not None:
            columns = _of([target])
            for each in assignments:
                _add_at(found, each.value, columns.get(each.column.lower()))
                _add(found, each.value, columns)
            if where is not None:
                _add(found, where, columns)
        case Delete(table, where) if where is not None and (target := tables.get(_name(table))) is not None:
            _add(found, where, _of([target]))
        case _:
            pass  # takes none, or each is text
    return found


def _name(ref: Ref) -> str:
    return str(ref).lower()


def _columns(query: exp.Expr, tables: Mapping[str, Table]) -> Columns:
    names = (f"{node.db}.{node.name}".lower().lstrip(".") for node in query.find_all(exp.Table))
    return _of([tables[name] for name in names if name in tables])


def _of(tables: list[Table]) -> Columns:
    found: dict[str, Kind] = {}
    several: set[str] = set()
    for table in tables:
        for column in table.schema.columns:
            kind, name = _as_parameter(column.type), column.name.lower()
            if found.setdefault(name, kind) != kind:
                several.add(name)
    return {name: kind for name, kind in found.items() if name not in several}


def _as_parameter(type: ColumnType) -> Kind:
    """A client sends a UUID as such and JSON as text; a number has no bound."""
    if type.name == "DECIMAL":
        return kinds.NUMERIC
    return kinds.UUID if type.name == "UUID" else kinds.TEXT if type.name in ("JSON", "FILE") else kind_of_column(type)


def _add(found: dict[int, Kind], tree: exp.Expr, columns: Columns) -> None:
    for node in tree.find_all(exp.Placeholder):
        _add_at(found, node, _kind_at(node, columns))


def _add_at(found: dict[int, Kind], node: exp.Expr, kind: Kind | None) -> None:
    if isinstance(node, exp.Placeholder) and kind is not None and (number := str(node.this)).isdecimal():
        found.setdefault(int(number), kind)


def _kind_at(node: exp.Expr, columns: Columns) -> Kind | None:
    parent = node.parent
    match parent:
        case exp.Cast():
            return _type_of(parent.to)
        case exp.Limit() | exp.Offset():
            return kinds.INT8
        case exp.Between() | exp.In():
            return _of_column(parent.this, columns)
        case exp.Paren() | exp.Neg():
            return _kind_at(parent, columns)
        case exp.Any() | exp.All() if isinstance(parent.parent, _COMPARED):
            kind = _of_column(parent.parent.this, columns)
            return kind.listed if kind is not None and kind.array else None
        case _ if isinstance(parent, _COMPARED):
            return _of_column(parent.expression if parent.this is node else parent.this, columns)
        case _:
            return None


def _type_of(named: exp.DataType) -> Kind | None:
    if named.this == exp.DType.ARRAY and len(named.expressions) == 1:
        element = _type_of(named.expressions[0])
        return element.listed if element is not None else None
    return _CAST.get(named.this)


def _of_column(node: exp.Expr, columns: Columns) -> Kind | None:
    node = node.unnest()
    if isinstance(node, exp.Literal) and not node.is_string:
        return kinds.NUMERIC if "." in node.name else kinds.INT8
    if isinstance(node, exp.Count):
        return kinds.INT8
    return columns.get(node.name.lower()) if isinstance(node, exp.Column) else None


def _add_values(found: dict[int, Kind], rows: exp.Query, target: Table, names: tuple[str, ...]) -> None:
    """Of VALUES, and of a query's own projections."""
    schema = target.schema
    written = [schema.column(name) for name in names] if names else list(schema.shown)
    for row in _rows(rows):
        for value, column in zip(row, written, strict=False):  # a row of another length is an error when it runs
            if column is not None:
                _add_at(found, value, _as_parameter(column.type))


def _rows(rows: exp.Query) -> Iterator[list[exp.Expr]]:
    values = list(rows.find_all(exp.Values))
    for each in values:
        yield from (row.expressions for row in each.expressions if isinstance(row, exp.Tuple))
    if not values and isinstance(rows, exp.Select):
        yield rows.expressions
