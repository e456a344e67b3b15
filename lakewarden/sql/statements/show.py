"""SHOW and DESCRIBE. What they show of rows concerns the session's own scope only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, cast

from sqlglot.tokenizer_core import TokenType

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.access import can, may
from lakewarden.catalog.changes.engines import namespace_of
from lakewarden.catalog.model import Table
from lakewarden.catalog.report import ScopeState
from lakewarden.catalog.state.floor_entries import NO_TABLE
from lakewarden.delta.scope import open_scope
from lakewarden.errors import StorageRefused, StorageUnavailable
from lakewarden.maintenance.export.procedure import own_place
from lakewarden.maintenance.open_table import open_table
from lakewarden.sql.context import Context
from lakewarden.sql.queries.scan import relation_named
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.relations import SYSTEM
from lakewarden.sql.results import ResultRows, Row, listing
from lakewarden.sql.rights import Ask, Made, Right, ask_on, cold, in_warehouse, table_right
from lakewarden.sql.statement import Grammar, ListStatement, OnTable, Statement, StatementSpec, registered
from lakewarden.sql.statements.clauses import in_namespace, partition_spec
from lakewarden.sql.statements.dynamic_tables import DescribeExtended
from lakewarden.sql.statements.namespaces import ShowEngines
from lakewarden.sql.statements.pipelines import ShowPipelines, ShowRules
from lakewarden.sql.statements.storages import ShowSettings
from lakewarden.sql.system_listings import (
    COLUMN_COLUMNS,
    FLAG,
    LISTINGS,
    MOMENT,
    PARTITION_COLUMNS,
    TEXT,
    WHOLE,
    SystemListing,
    column_rows,
    name_row,
    texts,
)
from lakewarden.tables.warehouse import cold_tables

Shown = Literal["namespaces", "storages", "manifest", "export"]


@dataclass(frozen=True)
class Show(ListStatement):
    what: Shown


@dataclass(frozen=True)
class ShowTables(ListStatement):
    namespace: str | None = None


@dataclass(frozen=True)
class ShowStats(ListStatement, OnTable):
    """The rows and files of the session's own scope."""


@dataclass(frozen=True)
class Describe(ListStatement, OnTable):
    """`versions`: every version of the columns instead of the newest."""

    versions: bool = False

    def takes_temporary(self, name: TableName) -> bool:
        return not self.versions or super().takes_temporary(name)


@dataclass(frozen=True)
class DescribeHistory(ListStatement, OnTable):
    limit: int | None = None


_IN_NAMESPACE = {"TABLES": ShowTables, "RULES": ShowRules, "PIPELINES": ShowPipelines}


def read_show(read: StatementReader) -> Statement:
    match read.one_of(
        "NAMESPACES", "STORAGES", "MANIFEST", "EXPORT", "TABLES", "STATS FOR TABLE", "ENGINES", "RULES", "PIPELINES", "SETTINGS"
    ):
        case "TABLES" | "RULES" | "PIPELINES" as what:
            return _IN_NAMESPACE[what](in_namespace(read))
        case "STATS FOR TABLE":
            return ShowStats(read.ref())
        case "ENGINES":
            return ShowEngines()
        case "SETTINGS":
            return ShowSettings()
        case what:
            return Show(cast("Shown", what.lower()))


def read_describe(read: StatementReader) -> Statement:
    if read.word("HISTORY") and not read.over and not read._match(TokenType.DOT, advance=False):
        table = read.ref()
        return DescribeHistory(table, read.whole("a limit") if read.word("LIMIT") else None)
    if read._prev.text.upper() == "HISTORY":  # a table of that name
        read._retreat(read._index - 1)
    if read.word("TABLE", "EXTENDED"):
        table = read.ref()
        return DescribeExtended(table, partition_spec(read) if read.word("PARTITION") else None)
    read.word("TABLE")
    table = read.ref()
    return Describe(table, read.word("HISTORY"))


_EXPORTS = 20
_OVER = ("completed", "skipped")
_PRIVATE = ("credentials", "config_json")
"""The columns of a storage that only some roles see."""


def show(context: Context, statement: Show) -> ResultRows:
    match statement.what:
        case "namespaces":
            return _listed(context, LISTINGS["namespaces"], ())
        case "storages":
            return _listed(context, LISTINGS["storages"], _PRIVATE)
        case "manifest":
            return _manifest(context)
        case "export":
            return _exports(context)


def _listed(context: Context, found: SystemListing, without: Sequence[str]) -> ResultRows:
    return listing({name: kind for name, kind in found.columns.items() if name not in without}, list(found.rows(context)))


def _exports(context: Context) -> ResultRows:
    """The last exports that the session's user requested in SQL; the operator chose the paths of the others."""
    columns = texts("job_id", "status") | {"created_at": MOMENT} | texts("message", "download_url")
    mine = [
        asdict(job) | {"download_url": own_place(context.warehouse, job.job_id) if job.status in _OVER else None}
        for job in context.services.operator().jobs.newest(None)
        if job.job_type == "export" and job.parameters.get("user") == context.principal.user and job.idempotency_key
    ]
    return listing(columns, mine[:_EXPORTS])


def _manifest(context: Context) -> ResultRows:
    """The cold rows and files of every table that the session may read; of one whose storage is away, as the state knows them."""
    columns = dict.fromkeys(("namespace_id", "table_name", "scope"), TEXT)
    numbers = dict.fromkeys(("delta_version", "row_count", "file_count", "size_bytes", "last_sequence_number"), WHOLE)
    rows: list[Row] = []
    for table in cold_tables(context.catalog):
        state = _shown_state(context, table) if may(context.principal, "read", table) else None
        if state is not None:
            rows.append(
                name_row(table.name)
                | {
                    "scope": context.owner(table) or "shared",
                    "delta_version": state.version,
                    "row_count": state.rows,
                    "file_count": state.files,
                    "size_bytes": state.bytes,
                    "last_sequence_number": state.last_seq,
                }
            )
    return listing(columns | numbers, rows)


def _shown_state(context: Context, table: Table) -> ScopeState | None:
    try:
        return _state(context, table)
    except (StorageUnavailable, StorageRefused):
        known = context.warehouse.target(context.catalog, Scope(table.name, context.owner(table))).known
    if known is None or known.forgotten or known.version == NO_TABLE:
        return None
    files, size = (0, 0) if known.upkeep is None else (known.upkeep.files, known.upkeep.bytes)
    return ScopeState(known.version, known.rows, files, size, known.watermark)


def _state(context: Context, table: Table) -> ScopeState | None:
    target = context.warehouse.target(context.catalog, Scope(table.name, context.owner(table)))
    found = open_scope(target)
    return None if found is None else found.state(target.app_id)


def show_tables(context: Context, statement: ShowTables) -> ResultRows:
    wanted = statement.namespace or context.namespace
    if wanted is not None:
        namespace_of(context.catalog, wanted)
    found = LISTINGS["tables"]
    return listing(found.columns, [row for row in found.rows(context) if wanted in (None, row["namespace_id"])])


def show_stats(context: Context, statement: ShowStats) -> ResultRows:
    """The scope's figures, one a row; a STREAM table has no pending rows."""
    table = context.table(statement.table)
    if not can(table.type, "cold tier"):
        return _figures({"rows": open_table(context.warehouse, table).read(user=context.owner(table)).num_rows})
    state = _state(context, table)
    owner = context.owner(table) or ""
    hot = context.warehouse.log(table).view((owner,)).pending.get(owner)
    return _figures(
        {
            "pending_rows": hot.rows if hot else 0,
            "pending_bytes": hot.bytes if hot else 0,
            "rows": state.rows if state else 0,
            "files": state.files if state else 0,
            "bytes": state.bytes if state else 0,
            "delta_version": state.version if state else None,
        }
    )


def _figures(figures: Mapping[str, int | None]) -> ResultRows:
    columns = texts("metric_name") | {"metric_value": WHOLE}
    return listing(columns, [{"metric_name": name, "metric_value": value} for name, value in figures.items()])


def describe(context: Context, statement: Describe) -> ResultRows:
    name = context.named(statement.table)
    if name.namespace == SYSTEM:
        return _describe_system(relation_named(name.name))
    if name in context.catalog.blanks:
        return listing(COLUMN_COLUMNS, [])
    table = context.table(statement.table)
    columns = COLUMN_COLUMNS | (PARTITION_COLUMNS if table.schema.partition_by else {})
    if not statement.versions:
        return listing(columns, list(column_rows(table.schema)))
    rows = [{"schema_version": schema.version} | row for schema in table.schemas for row in column_rows(schema)]
    return listing({"schema_version": WHOLE, **columns}, rows)


def _describe_system(found: SystemListing) -> ResultRows:
    rows: list[Row] = [
        {
            "column_id": number,
            "ordinal": number,
            "column_name": name,
            "data_type": _TYPES[kind],
            "is_nullable": True,
            "is_primary_key": False,
        }
        for number, (name, kind) in enumerate(found.columns.items(), 1)
    ]
    return listing(COLUMN_COLUMNS, rows)


_TYPES = {TEXT: "TEXT", WHOLE: "BIGINT", FLAG: "BOOLEAN", MOMENT: "TIMESTAMP"}


def history(context: Context, statement: DescribeHistory) -> ResultRows:
    """The commits of the session's scope, newest first."""
    table = context.table(statement.table)
    entries = open_table(context.warehouse, table).history(user=context.owner(table), limit=statement.limit)
    columns = {"version": WHOLE, "timestamp": MOMENT, "operation": TEXT, "operation_parameters": TEXT}
    columns |= {"operation_metrics": TEXT, "user_metadata": TEXT, "engine_info": TEXT, "read_version": WHOLE}
    return listing(
        columns,
        [
            asdict(one)
            | {
                "operation_parameters": json.dumps(one.parameters),
                "operation_metrics": json.dumps(one.operation_metrics),
                "user_metadata": json.dumps(one.user_metadata),
            }
            for one in entries
        ],
    )


def _asks(context: Context, statement: Describe, made: Made) -> Iterator[Ask]:
    yield Ask("look at what exists")
    if context.named(statement.table).namespace == SYSTEM:  # a table's columns are no rows
        yield ask_on(context, statement.table, "read", made)


_DESCRIBES = Right(_asks, "`look at what exists`")

ROWS = registered(
    StatementSpec(
        "SHOW NAMESPACES, STORAGES, MANIFEST or EXPORT",
        "lists what exists",
        in_warehouse("look at what exists"),
        show,
    ),
    StatementSpec("SHOW TABLES [IN n]", "lists tables and views", in_warehouse("look at what exists"), show_tables),
    StatementSpec(
        "SHOW STATS FOR TABLE t",
        "counts the rows and files of the session's scope",
        table_right("read"),
        show_stats,
    ),
    StatementSpec(
        "DESCRIBE t [HISTORY]",
        "lists a table's columns; with HISTORY their versions",
        _DESCRIBES,
        describe,
    ),
    StatementSpec(
        "DESCRIBE HISTORY t [LIMIT n]",
        "lists the commits of the session's scope, newest first",
        table_right("read"),
        history,
        requires=cold("DESCRIBE HISTORY"),
    ),
)

GRAMMARS: Mapping[str, Grammar] = {"SHOW": read_show, "DESCRIBE": read_describe, "DESC": read_describe}
