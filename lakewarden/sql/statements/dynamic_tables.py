"""What is for dynamic tables alone (FLIP-188)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot.tokenizer_core import TokenType

from lakewarden.base.clock import from_millis
from lakewarden.base.quantities import text_of
from lakewarden.catalog.dynamic_declaration import PREFIX, check_session_option
from lakewarden.catalog.dynamic_options import DynamicOptions
from lakewarden.catalog.model import Table
from lakewarden.catalog.operations import Operation
from lakewarden.delta.commit_log.actions import CHANGE_DATA_FEED
from lakewarden.delta.partitions import Partition, directory
from lakewarden.delta.scope import open_scope
from lakewarden.errors import Conflict, NotFound, Unsupported
from lakewarden.maintenance.open_table import open_table
from lakewarden.maintenance.request import new_request
from lakewarden.sql.context import Context
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.ref import PartitionSpec
from lakewarden.sql.results import AffectedRows, ResultRows, StatementDone, listing
from lakewarden.sql.rights import READS, operation_right, table_right
from lakewarden.sql.statement import (
    AuditEntrySpec,
    C,
    Forbidden,
    Grammar,
    ListStatement,
    OnTable,
    SessionStatement,
    Statement,
    StatementSpec,
    registered,
)
from lakewarden.sql.statements.clauses import named_of, partition_of
from lakewarden.sql.system_listings import FLAG, MOMENT, TEXT, WHOLE
from lakewarden.tables.predicate import condition_of
from lakewarden.tables.strong_read import ReadSelection


@dataclass(frozen=True)
class DescribeExtended(ListStatement, OnTable):
    partition: PartitionSpec | None = None


@dataclass(frozen=True)
class CompactTable(OnTable):
    """ALTER TABLE t COMPACT."""


@dataclass(frozen=True)
class DropPartition(OnTable):
    """ALTER TABLE t DROP PARTITION (…)."""

    partition: PartitionSpec
    if_exists: bool = False


@dataclass(frozen=True)
class SetTableStorage(SessionStatement):
    """`key` is without the prefix `table-storage.`."""

    key: str
    value: str

    def choose(self, before: C) -> C:
        return replace(before, table_storage={**before.table_storage, self.key: self.value})


def read_set_table_storage(read: StatementReader) -> Statement:
    """Reads what follows SET, where it is `'table-storage.key' = 'value'`, quoted or not; any other SET is forbidden.

    Raises:
        InvalidArgument: the option does not exist, or cannot have this value.
    """
    start = read.here
    if read.at_text:
        key = read.text("an option")
    else:
        while not (read.over or read._match(TokenType.EQ, advance=False)):
            read._advance()
        key = "".join(read.since(start).split())
    if not key.lower().startswith(PREFIX):
        read.rest()
        return Forbidden("SET")
    if not read.symbol(TokenType.EQ):
        raise read.failure(f"expected = after {key}")
    name = key[len(PREFIX) :]
    value = read.text("a value") if read.at_text else read.rest()
    check_session_option(name, value)
    return SetTableStorage(name, value)


def set_table_storage(_: Context, statement: SetTableStorage) -> StatementDone:
    """The session itself notes it."""
    return StatementDone(f"table-storage.{statement.key} is {statement.value}")


def describe_extended(context: Context, statement: DescribeExtended) -> ResultRows:
    """One row: the options of the table and its files, or a partition and its files."""
    table = context.table(statement.table)
    options = _options_of(table, "DESCRIBE TABLE EXTENDED")
    target = context.warehouse.target_of(context.catalog, table, None)
    found = open_scope(target)
    files = () if found is None else found.files()
    place = target.uri
    if statement.partition is None:
        columns, row = _described(context, table, options)
    else:
        partition = partition_of(table, statement.partition)
        files = tuple(file for file in files if file.partition == partition)
        if not files:
            raise NotFound(f"{table.name} has no partition ({_text_of(partition)})")
        place = f"{place}/{directory(partition)}".rstrip("/")
        columns, row = {"partition": TEXT, "file.path": TEXT}, {"partition": _text_of(partition)}
    modified = from_millis(max(file.modified_ms for file in files)) if files else None
    row |= {"file.path": place, "last-modified": modified, "num-files": len(files)}
    return listing(columns | {"last-modified": MOMENT, "num-files": WHOLE}, [row])


def compact(context: Context, statement: CompactTable) -> StatementDone:
    """Flushes the table, then packs its files.

    Raises:
        Unsupported: not a dynamic table.
        Conflict: another commit took a file that was to be packed; nothing was changed.
    """
    table = context.table(statement.table)
    if table.dynamic is None:
        raise Unsupported(f"{table.name}: Only managed table supports compaction; use OPTIMIZE, or STORAGE COMPACT TABLE")
    operator = context.services.operator()
    operations: tuple[Operation, ...] = ("flush", "optimize")
    for operation in operations:
        reports = operator.run(new_request(operation, (str(table.name),)))
        lost = next((report for report in reports if report.fault is not None or report.outcome == "failed"), None)
        if lost is not None:
            raise Conflict(f"the {operation} of {table.name} lost against another commit, retry: {lost.reason}")
    return StatementDone(f"table {table.name} compacted")


def drop_partition(context: Context, statement: DropPartition) -> AffectedRows:
    """Removes the rows of the partitions that have the named values, pending rows too, by one commit that makes no changes."""
    table = context.table(statement.table)
    _options_of(table, "ALTER TABLE … DROP PARTITION")
    named = named_of(table, statement.partition)
    direct = open_table(context.warehouse, table).direct
    result = direct.overwrite([], within=condition_of([named]), operation="DELETE")
    if not result.committed and not statement.if_exists:
        raise NotFound(f"{table.name} has no partition ({_text_of(named)})")
    return AffectedRows(result.rows_deleted, version=result.version if result.committed else None)


def _options_of(table: Table, what: str) -> DynamicOptions:
    if table.dynamic is None:
        raise Unsupported(f"{what} is for dynamic tables, and {table.name} is a {table.type} one")
    return table.dynamic


def _described(context: Context, table: Table, options: DynamicOptions) -> tuple[dict[str, pa.DataType], dict[str, object]]:
    """The columns before those of the files, and their values."""
    columns = {"name": TEXT, "log.system": TEXT, "log.retention": TEXT, "file.path": TEXT}
    row: dict[str, object] = {
        "name": f"lakewarden.{table.name}",
        "log.system": options.log_system,
        "log.retention": None if options.log_retention is None else text_of(options.log_retention),
        "file.format": options.file_format,
        "bucket": options.bucket,
        "change-tracking": options.change_tracking,
    }
    for key in ("bootstrap.servers", "topic"):
        columns[f"log.kafka.{key}"] = TEXT
        row[f"log.kafka.{key}"] = options.kafka.get(key)
    if options.watermark is not None and table.schema.column(options.watermark) is not None:
        columns["watermark"] = MOMENT
        rows = open_table(context.warehouse, table).reader.scan(ReadSelection((options.watermark,)), None)
        row["watermark"] = pc.max(rows.column(options.watermark)).as_py()
    if table.options.change_data_feed is not None:
        columns[CHANGE_DATA_FEED] = FLAG
        row[CHANGE_DATA_FEED] = table.options.change_data_feed
    return columns | {"file.format": TEXT, "bucket": WHOLE, "change-tracking": FLAG}, row


def _text_of(partition: Partition) -> str:
    return ", ".join(f"{name}={text}" for name, text in partition)


ROWS = registered(
    StatementSpec(
        "DESCRIBE TABLE EXTENDED t [PARTITION (c = value, …)]",
        "shows the options and files of a dynamic table, or of one of its partitions",
        table_right("read"),
        describe_extended,
    ),
    StatementSpec(
        "ALTER TABLE t COMPACT",
        "flushes a dynamic table and packs its files; returns when that is done",
        operation_right("optimize"),
        compact,
    ),
    StatementSpec(
        "ALTER TABLE t DROP [IF EXISTS] PARTITION (c = value, …)",
        "removes the rows of a dynamic table's partitions with these values",
        table_right("write"),
        drop_partition,
        audited=AuditEntrySpec("DROP_PARTITION", "table", "table"),
    ),
    StatementSpec(
        "SET 'table-storage.key' = 'value'",
        "chooses an option of the dynamic tables that the session creates",
        READS,
        set_table_storage,
    ),
)

GRAMMARS: Mapping[str, Grammar] = {"SET": read_set_table_storage}
