"""New versions of rows, for UPDATE, DO UPDATE and MERGE: the query that computes them, and the values in the table's types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from lakewarden.base.json_values import NOT_FINITE
from lakewarden.catalog.model import SchemaColumn, TableSchema
from lakewarden.errors import Unsupported
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.target import WriteTarget, column_of, node_of
from lakewarden.sql.handlers.values import FLOATING
from lakewarden.sql.plain_values import is_default
from lakewarden.sql.queries.literals import changed_number
from lakewarden.sql.results import ResultRows as Found
from lakewarden.sql.statements.rows import Assignment
from lakewarden.tables.intake import TableIntake
from lakewarden.tables.rows.columns import single
from lakewarden.tables.rows.defaults import Defaults

_WHOLE = ("SMALLINT", "INT", "BIGINT")


def revision_query(target: WriteTarget, assignments: Sequence[Assignment], alias: str) -> exp.Select:
    """Selects every column with the assignments applied, then the assigned ones' old values; named by position.

    Raises:
        Unsupported: an assignment is to a column of the key.
    """
    schema = target.schema
    values = {}
    for each in assignments:
        column = column_of(schema, each.column)
        if column.name in schema.primary_key:
            raise Unsupported(
                f"column {column.name} is part of the primary key of {target.table.name}, which UPDATE cannot change"
            )
        values[column.name] = exp.null() if is_default(each.value) else assigned_to(column, each.value)
    old = {name: exp.column(name, alias, quoted=True) for name in schema.names}
    projections = [values.get(name, old[name]) for name in schema.names] + [old[name].copy() for name in values]
    named = [exp.alias_(value, f"value {index}", quoted=True) for index, value in enumerate(projections)]
    return exp.select(*named, copy=False).from_(node_of(target.table, alias), copy=False)


def assigned_to(column: SchemaColumn, value: exp.Expr) -> exp.Expr:
    """The value for a query. `-0.0` is a DECIMAL there, which has no such zero: for a column that has one, it is in DOUBLE. A
    number that a query would read in DOUBLE, and change, is its text for a DECIMAL column, which takes or refuses each digit.
    """
    inner = value.unnest()
    negative = isinstance(inner, exp.Neg) and isinstance(inner.this, exp.Literal) and inner.this.is_number
    if column.type.name in FLOATING and negative and not float(inner.this.name):
        return exp.cast(exp.Literal.string("-0.0"), "DOUBLE")
    if column.type.name == "DECIMAL" and (text := changed_number(inner)) is not None:
        return exp.Literal.string(text)
    return value.copy()


@dataclass(frozen=True)
class Reviser:
    """Takes the rows of a `revision_query` to be the table's. Picklable."""

    intake: TableIntake
    session_user: str
    """The value of CURRENT_USER() in defaults of older rows."""
    user: str | None
    """Whose rows they are; None of a SHARED table."""
    assigned: Mapping[str, bool]
    """By the name of each column that is assigned to: whether it gets its default."""

    @classmethod
    def of(cls, context: Context, target: WriteTarget, assignments: Sequence[Assignment]) -> Reviser:
        warehouse, client = context.warehouse, target.client
        intake = TableIntake(target.table, warehouse.clock, warehouse.new_id, client.author)
        assigned = {column_of(target.schema, each.column).name: is_default(each.value) for each in assignments}
        return cls(intake, context.principal.user, target.user, assigned)

    def revised(self, found: Found) -> tuple[pa.Table, Any]:
        """The complete new rows, and which of them differ from the old ones."""
        schema = self.intake.table.schema
        columns = {}
        for column, values, kind in zip(schema.columns, found.table.columns, found.types, strict=False):
            if column.name not in self.assigned:
                columns[column.name] = self._with_default(column, values)
            elif not self.assigned[column.name]:  # a missing value gets its default
                columns[column.name] = fitted(column, values, kind)
        made = self.intake.completed(pa.table(columns), user=self.user)
        old = dict(zip(self.assigned, found.table.columns[len(schema.names) :], strict=False))
        differs = [pc.invert(_same(made.column(name), old[name])) for name in self.assigned]
        return made, reduce(pc.or_, differs)

    def changed(self, found: Found) -> pa.Table:
        """As `revised`, without unchanged rows."""
        made, differs = self.revised(found)
        return made.filter(differs) if made.num_rows else made

    def _with_default(self, column: SchemaColumn, values: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
        """Rows older than a NOT NULL column whose default differs per row have NULL there until they change."""
        if column.nullable or column.default is None or not values.null_count:
            return values
        defaults = Defaults(self.intake.clock, self.intake.new_id, self.session_user)
        whole = single(column.name, values)
        made = defaults.values(column, whole.null_count, self.intake.clock())
        return pa.chunked_array([pc.replace_with_mask(whole, whole.is_null(), made)])


def changed(context: Context, target: WriteTarget, found: Found, assignments: Sequence[Assignment]) -> pa.Table:
    return Reviser.of(context, target, assignments).changed(found)


def fitted(column: SchemaColumn, values: pa.ChunkedArray[Any], type: str) -> pa.ChunkedArray[Any]:
    """Converts values for a column: a whole number of another type takes the column's type where nothing is lost.

    `tables.rows.validate` refuses everything else that does not fit.
    """
    if column.type.name in FLOATING and pa.types.is_string(values.type):
        return _not_finite(values)
    numeric = pa.types.is_decimal(values.type) or pa.types.is_floating(values.type)
    if (column.type.name in _WHOLE and numeric) or type in ("HUGEINT", "UHUGEINT"):
        try:
            return values.cast(pa.int64())
        except pa.ArrowInvalid:
            return values
    return values


def _not_finite(values: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """As DOUBLE, where each is one of the texts that answers in JSON have; else as they are."""
    found = values.to_pylist()
    if any(each is not None and each not in NOT_FINITE for each in found):
        return values
    return pa.chunked_array([pa.array([None if each is None else NOT_FINITE[each] for each in found], pa.float64())])


def fitted_rows(columns: Sequence[SchemaColumn], types: Sequence[str], rows: pa.Table) -> pa.Table:
    """The rows of a query under the columns' names, each column `fitted`."""
    values = zip(columns, rows.columns, types, strict=True)
    return pa.table({column.name: fitted(column, found, kind) for column, found, kind in values})


def of_target(value: exp.Expr, schema: TableSchema, alias: str) -> exp.Expr:
    """Bare columns mean the existing row. Subqueries have their own names."""
    made = value.copy()
    names = {name.lower() for name in schema.names}
    for column in list(made.find_all(exp.Column)):
        if not column.table and column.name.lower() in names and column.find_ancestor(exp.Query) is None:
            column.set("table", exp.to_identifier(alias, quoted=True))
    return made


def _same(one: pa.ChunkedArray[Any], other: pa.ChunkedArray[Any]) -> Any:
    """The same value, or both NULL. Of numbers in floating point, NaN is itself, and the two zeros are two values."""
    other = other.cast(one.type)
    equal = pc.equal(one, other)
    if pa.types.is_floating(one.type):
        equal = pc.and_kleene(equal, pc.equal(pc.divide(1.0, one), pc.divide(1.0, other)))  # 1/-0.0 is -inf
        equal = pc.or_kleene(equal, pc.and_kleene(pc.is_nan(one), pc.is_nan(other)))
    both_null = pc.and_(pc.is_null(one), pc.is_null(other))
    return pc.or_kleene(both_null, pc.if_else(pc.or_(pc.is_null(one), pc.is_null(other)), False, equal))
