"""What a statement writes to: the table, the session's scope of it, and the plan of the write; and new versions of its rows, for
UPDATE, DO UPDATE and MERGE: the query that computes them, and the values in the table's types.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from lakewarden.base.json_values import NOT_FINITE
from lakewarden.catalog.model import SchemaColumn, Table, TableSchema
from lakewarden.delta.reading.rows import matches
from lakewarden.errors import DuplicateKey, InvalidArgument, Unsupported
from lakewarden.maintenance.open_table import open_table
from lakewarden.sql.context import Context
from lakewarden.sql.plain_values import check_literals, is_default
from lakewarden.sql.queries.literals import changed_number
from lakewarden.sql.query_engine.engine import Limits
from lakewarden.sql.ref import Ref
from lakewarden.sql.relations import SEQ, Relation, resolved
from lakewarden.sql.results import AffectedRows
from lakewarden.sql.results import ResultRows as Found
from lakewarden.sql.session_table import client_to_write
from lakewarden.sql.temporary import TemporaryTable
from lakewarden.sql.writing.shapes import RowWrite, WritePlan, plan_of
from lakewarden.tables.client import TableClient
from lakewarden.tables.intake import TableIntake
from lakewarden.tables.rows.columns import single
from lakewarden.tables.rows.defaults import Defaults
from lakewarden.tables.rows.intake import RowParts, Rows


@dataclass(frozen=True)
class WriteTarget:
    client: TableClient
    user: str | None
    """Whose scope it is; None of a SHARED table."""
    plan: WritePlan

    @property
    def table(self) -> Table:
        return self.client.table

    @property
    def schema(self) -> TableSchema:
        return self.client.table.schema

    def affected(self, rows: int, version: int | None = None) -> AffectedRows:
        """Args:
        version: of Delta, if the statement committed one.
        """
        plan = self.plan
        pending = plan.in_log and rows > 0 and not self.schema.append_only
        return AffectedRows(rows, plan.strategy, pending, version, plan.warnings, plan.why)


def target_of(context: Context, statement: RowWrite) -> WriteTarget:
    """Raises:
    NotFound, Unsupported: the table does not exist, or takes no such statement.
    InvalidArgument: it sets a column of another table.
    """
    table = context.table(statement.table)
    _check_set(statement, table)
    plan = plan_of(statement, table, context.rules, partial(_columns_of, context))
    client, owner = open_table(context.warehouse, table, context.principal.user), context.owner(table)
    return WriteTarget(client_to_write(context.block, client, owner, past_log=not plan.in_log), owner, plan)


def _check_set(statement: RowWrite, table: Table) -> None:
    """Raises InvalidArgument: an assignment is to a column that is said to be of another table."""
    for ref in statement.sets():
        if ref is None:
            continue
        alias = statement.alias
        own, full = (alias or table.name.name).lower(), None if alias else str(table.name).lower()
        if str(ref).lower() != (full if ref.namespace else own):
            raise InvalidArgument(f"a column of {ref} is set; the statement is on {alias or table.name}")


def _columns_of(context: Context, node: exp.Table) -> frozenset[str] | None:
    found = context.guarded(context.named(Ref(node.name, node.db or None)))
    return frozenset(name.lower() for name in found.schema.names) if isinstance(found, Table) else None


def reads_itself(context: Context, query: exp.Query, table: Table, extra: Container[str]) -> bool:
    """Whether a subquery reads the table that the query is about: then all its rows count, not only those with some keys."""
    return len(resolved(query, context.relation, context.namespace, extra).tables[Relation(table.name)]) > 1


def node_of(table: Table, alias: str) -> exp.Table:
    return exp.table_(table.name.name, table.name.namespace, quoted=True, alias=exp.to_identifier(alias, quoted=True))


def columns_named(schema: TableSchema, names: Sequence[str]) -> list[SchemaColumn]:
    """All columns where none are named.

    Raises:
        InvalidArgument: a column does not exist, or is named twice.
    """
    if not names:
        return list(schema.shown)
    found: dict[str, SchemaColumn] = {}
    for name in names:
        column = column_of(schema, name)
        if column.name in found:
            raise InvalidArgument(f"column {column.name!r} is named twice")
        found[column.name] = column
    return list(found.values())


def column_of(schema: TableSchema, name: str) -> SchemaColumn:
    """Raises InvalidArgument: the column does not exist, whatever its case."""
    if name.lower() == SEQ:
        raise InvalidArgument("column _seq is assigned by the log and cannot be written")
    wanted = name.lower()
    for column in schema.columns:
        if column.name.lower() == wanted:
            return column
    raise InvalidArgument(f"there is no column {name!r}; the columns are {', '.join(schema.names)}")


def other_number(values: int, columns: Iterable[str]) -> InvalidArgument:
    """Of a row that has more or fewer values than there are columns."""
    names = list(columns)
    return InvalidArgument(f"{values} values are given for {len(names)} columns, which are {', '.join(names)}")


def of_shares(context: Context) -> Limits:
    """Of the query of a statement that compares its rows with the live ones. Beyond `result_bytes` of it, a share of so many
    bytes at a time is compared with its live rows, of as many: what is made of both is within `sql.result_bytes`.
    """
    return replace(context.limits, result_bytes=context.limits.result_bytes // 4)


def check_divides(context: Context, query: exp.Select, source: str) -> None:
    """Checks that a query over `source` and the live rows gives the same rows where it runs on a share of them at a time.

    Raises:
        Unsupported: it does not.
    """
    if any(window.find_ancestor(exp.Select) is query for window in query.find_all(exp.Window)):
        why = "a window function compares them with each other"
    elif sum(not table.db and table.name == source for table in query.find_all(exp.Table)) > 1:
        why = "a subquery reads all of them"
    else:
        return
    raise Unsupported(
        f"the rows have more than {of_shares(context).result_bytes:,} bytes (a fourth of sql.result_bytes), and {why}; nothing"
        " was written: compute it in the query that gives the rows, or raise the bound"
    )


def insert_temporary(context: Context, held: TemporaryTable, given: Rows | RowParts) -> AffectedRows:
    """Adds rows. A row of a key that exists replaces it if the table's ON_DUPLICATE is `replace`, as that of dynamic tables is.

    Raises:
        ConstraintViolation: a key exists; or a value does not fit. The rows stay as they were.
        Unsupported: the session's tables would take more memory than they may.
    """
    table, before = held.table, held.rows
    whole = context.temporary.joined(table.name, given) if isinstance(given, RowParts) else given
    rows = open_table(context.warehouse, table, context.principal.user).completed(whole, user=None)
    if table.schema.primary_key and before.num_rows and rows.num_rows:
        again = matches(before, rows, table.schema.primary_key)
        if pc.any(again).as_py() and table.options.on_duplicate == "error":
            raise DuplicateKey(f"{table.name}: a row with such a primary key exists already")
        before = before.filter(pc.invert(again))
    last = pc.max(held.rows.column(SEQ)).as_py() or 0
    numbered = rows.append_column(SEQ, pa.array(range(last + 1, last + 1 + rows.num_rows), pa.int64()))
    added = numbered.select(before.column_names).cast(before.schema)
    context.temporary.replace_rows(table.name, pa.concat_tables([before, added]))
    return AffectedRows(rows.num_rows)


FLOATING = ("FLOAT", "DOUBLE")


@dataclass(frozen=True)
class Assignment:
    column: str
    value: exp.Expr
    of: Ref | None = None
    """The table that the column is said to be of, where the text names one."""


_WHOLE_NUMBERS = ("SMALLINT", "INT", "BIGINT")


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
    """The value for a query. A number that the query would change is a DOUBLE for a column of FLOAT or DOUBLE, and its text for
    one of DECIMAL, which takes or refuses each digit. One is `-0.0`, a DECIMAL there, which has no such zero. Raises as
    `check_literals`.
    """
    check_literals(value, column.name)
    text = changed_number(value.unnest()) if column.type.name in ("DECIMAL", *FLOATING) else None
    if text is None:
        return value.copy()
    return exp.Literal.string(text) if column.type.name == "DECIMAL" else exp.cast(exp.Literal.string(text), "DOUBLE")


def floating_kept(columns: Sequence[SchemaColumn], query: exp.Query) -> exp.Query:
    """The query of an INSERT, with the numbers that it lists for columns of FLOAT and DOUBLE as `assigned_to` has them."""
    if not isinstance(query, exp.Select) or query.is_star or len(query.expressions) != len(columns):
        return query
    made = query.copy()
    for column, value in zip(columns, made.expressions, strict=True):
        kept = assigned_to(column, value.unalias())
        if column.type.name in FLOATING:
            value.unalias().replace(kept)
    return made


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

    def _with_default(self, column: SchemaColumn, values: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
        """Rows older than a NOT NULL column whose default differs per row have NULL there until they change."""
        if column.nullable or column.default is None or not values.null_count:
            return values
        defaults = Defaults(self.intake.clock, self.intake.new_id, self.session_user)
        whole = single(column.name, values)
        made = defaults.values(column, whole.null_count, self.intake.clock())
        return pa.chunked_array([pc.replace_with_mask(whole, whole.is_null(), made)])


def changed(
    context: Context, target: WriteTarget, found: Found, assignments: Sequence[Assignment], note: Callable[[pa.Table], None]
) -> pa.Table:
    """The new rows that differ from the old ones.

    Args:
        note: takes all new rows.
    """
    made, differs = Reviser.of(context, target, assignments).revised(found)
    note(made)
    return made.filter(differs) if made.num_rows else made


def fitted(column: SchemaColumn, values: pa.ChunkedArray[Any], type: str) -> pa.ChunkedArray[Any]:
    """Converts values for a column: a whole number of another type takes the column's type where nothing is lost.

    `tables.rows.validate` refuses everything else that does not fit.
    """
    if column.type.name in FLOATING and pa.types.is_string(values.type):
        return _not_finite(values)
    numeric = pa.types.is_decimal(values.type) or pa.types.is_floating(values.type)
    if (column.type.name in _WHOLE_NUMBERS and numeric) or type in ("HUGEINT", "UHUGEINT"):
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
