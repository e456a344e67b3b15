"""What a statement writes to: the table, the session's scope of it, and the plan of the write."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from lakewarden.catalog.model import SchemaColumn, Table, TableSchema
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.maintenance.open_table import open_table
from lakewarden.sql.context import Context
from lakewarden.sql.queries import select
from lakewarden.sql.query_engine.engine import Limits
from lakewarden.sql.relations import SEQ, Relation, resolved
from lakewarden.sql.results import AffectedRows
from lakewarden.sql.shapes import Write, WritePlan, plan_of
from lakewarden.sql.statements.base import Ref
from lakewarden.sql.statements.rows import Insert, Merge, OnConflict, Overwrite, Truncate, Update
from lakewarden.tables.client import TableClient
from lakewarden.tables.rows.intake import RowParts
from lakewarden.tables.strong_read import ReadSelection


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


def target_of(context: Context, statement: Write) -> WriteTarget:
    """Raises:
    NotFound, Unsupported: the table does not exist, or takes no such statement.
    InvalidArgument: it sets a column of another table.
    """
    table = context.table(statement.table)
    _check_set(statement, table)
    plan = plan_of(statement, table, context.rules, partial(_columns_of, context))
    client, owner = open_table(context.warehouse, table).by(context.principal.user), context.owner(table)
    return WriteTarget(context.block.writing(client, owner, past_log=not plan.in_log), owner, plan)


def _check_set(statement: Write, table: Table) -> None:
    """Raises:
    InvalidArgument: an assignment is to a column that is said to be of another table.
    """
    alias = None if isinstance(statement, (Overwrite, Truncate)) else statement.alias
    own, full = (alias or table.name.name).lower(), None if alias else str(table.name).lower()
    for ref in _said_to_be_of(statement):
        if str(ref).lower() != (full if ref.namespace else own):
            raise InvalidArgument(f"a column of {ref} is set; the statement is on {alias or table.name}")


def _said_to_be_of(statement: Write) -> Iterator[Ref]:
    """The tables that a statement names before the columns that it sets."""
    match statement:
        case Update(assignments=given) | Insert(conflict=OnConflict(assignments=(*given,))):
            found = [each.of for each in given]
        case Merge(whens=whens):
            found = [ref for when in whens for ref in when.of]
        case _:
            return
    yield from (ref for ref in found if ref is not None)


def _columns_of(context: Context, node: exp.Table) -> frozenset[str] | None:
    found = context.guarded(context.named(Ref(node.name, node.db or None)))
    return frozenset(name.lower() for name in found.schema.names) if isinstance(found, Table) else None


def wanted_by(context: Context, query: exp.Query, table: Table) -> ReadSelection:
    """The part of the table that the query needs."""
    pushdown = select.prepare(context, query).pushdowns[Relation(table.name)]
    return ReadSelection(pushdown.columns, pushdown.bounds)


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
    found = [column_of(schema, name) for name in names] or list(schema.shown)
    twice = next((column.name for column in found if found.count(column) > 1), None)
    if twice is not None:
        raise InvalidArgument(f"column {twice!r} is named twice")
    return found


def column_of(schema: TableSchema, name: str) -> SchemaColumn:
    """Raises:
    InvalidArgument: the column does not exist, whatever its case.
    """
    if name.lower() == SEQ:
        raise InvalidArgument("column _seq is assigned by the log and cannot be written")
    found = next((column for column in schema.columns if column.name.lower() == name.lower()), None)
    if found is None:
        raise InvalidArgument(f"there is no column {name!r}; the columns are {', '.join(schema.names)}")
    return found


# Writes the rows of a query that are too many to be in memory together: through the write log, by one position.
def insert_parts(target: WriteTarget, given: RowParts) -> AffectedRows:
    replaces = target.table.options.on_duplicate == "replace"
    receipt = target.client.write_parts(given, user=target.user, mode="upsert" if replaces else "insert")
    return target.affected(receipt.rows)


def replace_by_parts(target: WriteTarget, given: RowParts) -> AffectedRows:
    """Replaces all rows of a user."""
    return target.affected(target.client.write_parts(given, user=target.user, mode="replace").rows)


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
