"""Executes SELECT: reads the tables of a query as Arrow, as far as it needs them; DuckDB does the rest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from lakewarden.base.scope import TableName
from lakewarden.catalog.access import TableOf
from lakewarden.catalog.model import OBJECT, Table, TableSchema
from lakewarden.errors import LakewardenError, PermissionDenied
from lakewarden.sql.context import Context
from lakewarden.sql.dialect import whole_text_of
from lakewarden.sql.plain_values import check_literals
from lakewarden.sql.queries.answer import AnswerPlan, answer_of, several_tables
from lakewarden.sql.queries.foreign import ForeignRelation, foreign_rows, taken_apart
from lakewarden.sql.queries.literals import ColumnTypes, keep_digits, keep_numbers, take_kept_forms
from lakewarden.sql.queries.pushdown import Pushdown, hide, pushdown_of
from lakewarden.sql.queries.session_functions import with_session_values
from lakewarden.sql.query_engine.engine import Limits, for_duck
from lakewarden.sql.relations import SEQ, SYSTEM, Relation, ResolvedQuery, resolved
from lakewarden.sql.results import ResultRows, names_apart
from lakewarden.tables.rows.intake import RowParts

if TYPE_CHECKING:
    from lakewarden.tables.strong_read import PastScope


_NO_SCHEMAS: Mapping[str, TableSchema] = {}
_NO_ROWS: Mapping[TableName, pa.Table] = {}


@dataclass(frozen=True)
class PreparedQuery:
    """A query as DuckDB receives it, and what it needs of each table."""

    sql: str
    pushdowns: dict[Relation, Pushdown]
    past: dict[Relation, PastScope]
    """The versions that it reads of tables' pasts."""
    tree: exp.Query
    """What `sql` says."""
    foreign: Mapping[str, ForeignRelation] = field(default_factory=dict)
    """The Delta tables that it reads by their URIs, by their names in `sql`."""


def prepare(
    context: Context, query: exp.Query, extra: Collection[str] = (), shaped: Mapping[str, TableSchema] = _NO_SCHEMAS
) -> PreparedQuery:
    """Args:
        extra, shaped: as of `run`.

    Raises:
        PermissionDenied, NotFound, InvalidArgument, Unsupported: a relation or function is forbidden, or does not exist.
    """
    query, foreign = taken_apart(context, query)
    made = resolved(query, context.relation, context.namespace, (*extra, *foreign) if foreign else extra)
    check_literals(made.query)
    readable = {relation: _readable(context, relation.table) for relation in made.tables}
    past = {relation: _past(context, relation) for relation in made.tables if relation.as_of is not None}
    schemas = {relation: table.schema for relation, table in readable.items() if isinstance(table, Table)}
    schemas |= {relation: scope.schema for relation, scope in past.items()}
    places = {id(place): schema for relation, schema in schemas.items() for place in made.tables[relation]}
    places |= {id(node): shaped[node.name] for node in made.query.find_all(exp.Table) if not node.db and node.name in shaped}
    columns = ColumnTypes(places)
    take_kept_forms(made.query, columns)
    keep_digits(made.query, columns)
    keep_numbers(made.query, columns)
    pushdowns = {relation: _pushdown(made, relation, schemas.get(relation)) for relation in made.tables}
    tree = with_session_values(context, made.query)
    return PreparedQuery(whole_text_of(tree), pushdowns, past, tree, foreign)


def pushdown_on(context: Context, query: exp.Query, table: Table) -> Pushdown:
    """What a query needs of one of its tables. Raises as `prepare`."""
    return prepare(context, query).pushdowns[Relation(table.name)]


def _readable(context: Context, name: TableName) -> Table | TableOf:
    if (held := context.temporary_table(name)) is not None:
        return held.table
    table = context.readable.get(name)
    if table is None:
        raise PermissionDenied(f"{name} did not exist when the statement was checked; try again")
    return table


def _past(context: Context, relation: Relation) -> PastScope:
    from lakewarden.sql.queries.scan import past  # imports Delta, which a query without tables does not need

    return past(context, relation)


def _pushdown(made: ResolvedQuery, relation: Relation, schema: TableSchema | None) -> Pushdown:
    if schema is None:
        return Pushdown(())
    found = pushdown_of(made.query, made.tables[relation], schema)
    for name in (SEQ, OBJECT):
        if name in found.columns:
            hide(name, made.tables[relation])
    return found


@contextmanager
def checked(context: Context) -> Iterator[None]:
    """Around a query that the engine checks as it runs it. Where it fails, what is wrong with its text itself counts first, as if
    that had been looked at before anything was read.
    """
    try:
        yield
    except LakewardenError:
        if context.check is not None:
            context.check()
        raise


def run(
    context: Context,
    query: exp.Query,
    read: Mapping[TableName, pa.Table] | None = None,
    extra: Mapping[str, pa.Table] | None = None,
    shaped: Mapping[str, TableSchema] = _NO_SCHEMAS,
) -> ResultRows:
    """Runs a query.

    Args:
        read: the rows of tables that were read before.
        extra: relations that are not tables, by their name in the query.
        shaped: the schemas of those among them that have the columns of a table.
    """
    extra = extra or {}
    with checked(context):
        prepared = prepare(context, query, extra, shaped)
        answer, found = (answer_of(context, prepared.pushdowns), None) if read or extra else _apart_or_not(context, prepared)
        if found is None:
            found = context.engine.run(prepared.sql, relations(context, prepared, read or {}) | dict(extra), context.limits)
    named = {relation.table: context.readable.get(relation.table) for relation in prepared.pushdowns}
    one_users = [name for name, table in named.items() if isinstance(table, Table) and context.owner(table) is not None]
    rows = ResultRows(found.table.rename_columns(names_apart(found.columns)), found.types, tuple(sorted(map(str, one_users))))
    return rows if answer is None else answer.shown(rows)


@dataclass(frozen=True)
class SpooledRows:
    """A query's rows, of which there may be more than fit into memory. `types` as of `ResultRows`."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: pa.Table | RowParts

    def each(self, make: Callable[[pa.Table], pa.Table]) -> pa.Table | RowParts:
        """What `make` makes of the rows, or of each part of them."""
        rows = self.rows
        return RowParts(lambda: map(make, rows.tables())) if isinstance(rows, RowParts) else make(rows)


def spooled(context: Context, query: exp.Query, limits: Limits | None = None) -> SpooledRows:
    """As `run`, for rows that go elsewhere: beyond `limits.result_bytes`, or `sql.result_bytes`, they are in a temporary file."""
    with checked(context):
        prepared = prepare(context, query)
        _, found = _apart_or_not(context, prepared)
        if found is not None:
            names = names_apart(found.columns)
            return SpooledRows(tuple(names), found.types, found.table.rename_columns(names))
        spool, types = context.engine.spool(prepared.sql, relations(context, prepared), limits or context.limits)
    names = names_apart(spool.schema.names)
    parts = RowParts(lambda: (part.rename_columns(names) for part in spool.tables()))
    return SpooledRows(tuple(names), types, pa.concat_tables(parts.tables()) if spool.in_memory else parts)


def _apart_or_not(context: Context, prepared: PreparedQuery) -> tuple[AnswerPlan | None, ResultRows | None]:
    """How the query is answered, and the answer if it was fanned out over the partitions of its table."""
    usual = answer_of(context, prepared.pushdowns)
    if usual is None or context.freshness != "eventual" or prepared.past:
        return usual, None
    tables = [context.readable.get(relation.table) for relation in prepared.pushdowns]
    parted = [table for table in tables if isinstance(table, Table) and table.type == "SHARED"]
    if len(tables) > 1 and any(table.schema.partition_by for table in parted):
        return several_tables(len(tables)), None
    if len(tables) != 1 or not parted or context.block.keeps(parted[0].name, None):
        return usual, None
    from lakewarden.sql.queries.federation import FederatedQuery  # imports Delta, which a query without tables does not need

    if context.check is not None:
        context.check()  # its parts run apart, and no run sees the whole text
    ((relation, pushdown),) = prepared.pushdowns.items()
    return FederatedQuery(context, parted[0], str(relation), prepared.tree, prepared.sql, pushdown).attempt()


def explain(context: Context, query: exp.Query) -> ResultRows:
    """DuckDB's plan, a row a line."""
    with checked(context):
        prepared = prepare(context, query)
        plan = context.engine.explain(prepared.sql, relations(context, prepared), context.limits)
    return ResultRows(pa.table({"plan": plan.rstrip().splitlines()}), ("VARCHAR",))


def relations(context: Context, prepared: PreparedQuery, read: Mapping[TableName, pa.Table] = _NO_ROWS) -> dict[str, pa.Table]:
    """The rows of each relation that a query reads; `read` as of `run`."""
    found = foreign_rows(prepared.foreign)
    if not prepared.pushdowns:
        return found
    from lakewarden.sql.queries.scan import past_relation, relation  # imports Delta, which a query without tables does not need

    for each, pushdown in prepared.pushdowns.items():
        scope = prepared.past.get(each)
        rows = relation(context, each.table, pushdown, read.get(each.table)) if scope is None else past_relation(scope, pushdown)
        found[str(each)] = rows
    return found


# The columns of a query's answer, without its rows: DuckDB is given relations that are empty.
def described_query(context: Context, query: exp.Query) -> ResultRows:
    """Raises as `select.run`."""
    with checked(context):
        prepared = prepare(context, query)
        relations = {str(each): _empty(context, prepared, each, pushdown) for each, pushdown in prepared.pushdowns.items()}
        found = context.engine.run(f"FROM ({prepared.sql}) LIMIT 0", relations, context.limits)
    return ResultRows(found.table.rename_columns(names_apart(found.columns)), found.types)


def _empty(context: Context, prepared: PreparedQuery, relation: Relation, pushdown: Pushdown) -> pa.Table:
    from lakewarden.sql.queries.scan import relation_named  # as above

    if relation.table.namespace == SYSTEM:
        return pa.schema(list(relation_named(relation.table.name).columns.items())).empty_table()
    held, past = context.temporary_table(relation.table), prepared.past.get(relation)
    if past is not None:
        schema = past.schema
    else:
        schema = (held.table if held is not None else context.catalog.tables[relation.table]).schema
    known = {column.name: column.type.arrow for column in schema.columns}
    fields = [pa.field(name, known.get(name, pa.int64())) for name in pushdown.columns]
    return for_duck(pa.schema(fields).empty_table(), schema)
