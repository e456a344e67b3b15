"""The write planner: which of K3's sixteen strategies carries out a statement, and why. The table of shapes decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from lakewarden.base.strategies import WriteStrategy
from lakewarden.catalog.model import Table
from lakewarden.errors import Unsupported
from lakewarden.sql.plain_values import values_of
from lakewarden.sql.shapes.columns import ColumnsOf
from lakewarden.sql.shapes.condition import Condition, ConditionTarget, condition_of
from lakewarden.sql.shapes.table import BYPASS, NO_BYPASS, SHAPES, Form, Rules, Shape, TableKind, Verb
from lakewarden.sql.statements.rows import Delete, Insert, Merge, Overwrite, Truncate, Update

Write = Insert | Overwrite | Update | Delete | Truncate | Merge

_VERBS: Mapping[type[Write], Verb] = {
    Insert: "INSERT",
    Overwrite: "INSERT OVERWRITE",
    Update: "UPDATE",
    Delete: "DELETE",
    Truncate: "TRUNCATE",
    Merge: "MERGE",
}


@dataclass(frozen=True)
class WritePlan:
    """How a statement is carried out."""

    strategy: WriteStrategy
    why: str
    warnings: tuple[str, ...] = ()

    @property
    def in_log(self) -> bool:
        """Whether the rows go through the write log; else straight into Delta."""
        return not self.strategy.name.startswith("NON_KEYED")


def plan_of(statement: Write, table: Table, rules: Rules, columns_of: ColumnsOf) -> WritePlan:
    """Args:
        rules: those of the session. K3's are for SHARED tables.
        columns_of: what subqueries of the condition read.

    Raises:
        Unsupported: tables of this kind take no such statement.
    """
    kind = kind_of(table)
    condition = None if kind in ("keyless", "stream") else _condition(statement, table, columns_of)
    shape = _shape(_VERBS[type(statement)], kind, _form(statement, condition), rules if kind == "keyed" else "native")
    if shape is None:
        raise Unsupported(f"{table.name} has no primary key, by which {_VERBS[type(statement)]} would find its rows")
    why = shape.why if condition is None else f"{condition.why}: {shape.why}"
    return WritePlan(shape.strategy, why, _warnings(shape, condition, why))


def kind_of(table: Table) -> TableKind:
    """What tells a table's rows apart, and whose they are."""
    if table.schema.append_only:
        return "stream"
    if not table.schema.primary_key:
        return "keyless"
    return "user's" if table.type == "USER" else "keyed"


def _shape(verb: Verb, kind: TableKind, form: Form, rules: Rules) -> Shape | None:
    kinds = ("user's", "keyed") if kind == "user's" else (kind,)
    fitting = (
        shape
        for shape in SHAPES
        if shape.verb == verb and shape.kind in (*kinds, "any") and shape.form in (form, "any") and shape.rules in (rules, "any")
    )
    return next(fitting, None)


def _warnings(shape: Shape, condition: Condition | None, why: str) -> tuple[str, ...]:
    if shape.warns:
        return (NO_BYPASS if shape.kind == "keyless" else BYPASS,)
    return (why,) if condition is not None and condition.partly else ()


def _form(statement: Write, condition: Condition | None) -> Form:
    match statement:
        case Insert() | Overwrite():
            return _source_form(statement.rows)
        case Merge():
            named = isinstance(statement.source, exp.Table) and isinstance(statement.source.this, exp.Identifier)
            return "rows" if isinstance(statement.source, exp.Values) else "table" if named else "query"
        case _:
            return "any" if condition is None else condition.on_key


def _source_form(rows: exp.Query | None) -> Form:
    """None stands for DEFAULT VALUES; of VALUES, the grammar makes `SELECT * FROM VALUES …`."""
    if rows is None:
        return "one row"
    values = values_of(rows)
    if values is None:
        return "query"
    return "one row" if len(values.expressions) == 1 else "rows"


def _condition(statement: Write, table: Table, columns_of: ColumnsOf) -> Condition | None:
    if not isinstance(statement, (Update, Delete)):
        return None
    schema = table.schema
    names = frozenset({(statement.alias or statement.table.name).lower()})
    columns = frozenset(name.lower() for name in schema.names)
    return condition_of(
        statement.where, ConditionTarget(tuple(name.lower() for name in schema.primary_key), columns, names), columns_of
    )
