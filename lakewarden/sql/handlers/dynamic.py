"""Executes the statements about dynamic tables (FLIP-188)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.clock import from_millis
from lakewarden.base.quantities import text_of
from lakewarden.base.scope import TableName
from lakewarden.catalog.dynamic_declaration import KIND
from lakewarden.catalog.dynamic_options import DynamicOptions
from lakewarden.catalog.model import Table
from lakewarden.catalog.operations import Operation
from lakewarden.delta.commit_log.actions import CHANGE_DATA_FEED
from lakewarden.delta.parquet.files import DataFile
from lakewarden.delta.partitions import Partition, directory
from lakewarden.delta.scope import open_scope
from lakewarden.errors import Conflict, NotFound, Unsupported
from lakewarden.maintenance.admin.dynamic_tables import DynamicDeclaration, make_dynamic_table
from lakewarden.maintenance.open_table import open_table
from lakewarden.maintenance.request import new_request
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.declaring import declared, options_of
from lakewarden.sql.handlers.partitions import named_of, partition_of
from lakewarden.sql.results import AffectedRows, ResultRows, StatementDone, listing
from lakewarden.sql.statements.dynamic import CompactTable, DescribeExtended, DropPartition
from lakewarden.sql.statements.session import SetTableStorage
from lakewarden.sql.statements.tables import CreateTable
from lakewarden.sql.system.listings import FLAG, MOMENT, TEXT, WHOLE
from lakewarden.tables.predicate import condition_of
from lakewarden.tables.reading.scope import ReadSelection


def set_table_storage(_: Context, statement: SetTableStorage) -> StatementDone:
    """The session itself notes it."""
    return StatementDone(f"table-storage.{statement.key} is {statement.value}")


def is_dynamic(context: Context, statement: CreateTable) -> bool:
    """Whether the statement says so; where it names no type, the session does."""
    if statement.dynamic is not None:
        return statement.dynamic
    return context.table_storage.get(KIND, "").lower() == "dynamic"


def create_dynamic(context: Context, statement: CreateTable, name: TableName) -> StatementDone:
    key, partition_by = declared(statement, statement.primary_key), declared(statement, statement.partition_by)
    options = options_of(statement.options)
    given = DynamicDeclaration(name, statement.columns, key, partition_by, options, context.table_storage)
    make_dynamic_table(context.warehouse, given, adopt=statement.if_not_exists)
    return StatementDone(f"table {name} created")


def check_there(context: Context, table: Table) -> None:
    """Raises:
    NotFound: a dynamic table's place is empty, which DROP TABLE does not pass over (FL-8).
    """
    if table.dynamic is None or table.dropping:
        return
    target = context.warehouse.target_of(context.catalog, table, None)
    if open_scope(target) is None:
        raise NotFound(f"{table.name} has no Delta table at {target.location}: write DROP TABLE IF EXISTS to remove it anyway")


def describe_extended(context: Context, statement: DescribeExtended) -> ResultRows:
    """One row: the options of the table and its files, or a partition and its files."""
    table = context.table(statement.table)
    options = _options_of(table, "DESCRIBE TABLE EXTENDED")
    found = open_scope(context.warehouse.target_of(context.catalog, table, None))
    files = () if found is None else found.files()
    place = context.warehouse.target_of(context.catalog, table, None).location.uri
    if statement.partition is None:
        columns, row = _described(context, table, options)
    else:
        partition = partition_of(table, statement.partition)
        files = tuple(file for file in files if file.partition == partition)
        if not files:
            raise NotFound(f"{table.name} has no partition ({_text_of(partition)})")
        place = f"{place}/{directory(partition)}".rstrip("/")
        columns, row = {"partition": TEXT, "file.path": TEXT}, {"partition": _text_of(partition)}
    row |= {"file.path": place, "last-modified": _modified(files), "num-files": len(files)}
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
        row["watermark"] = _watermark(context, table, options.watermark)
    if table.options.change_data_feed is not None:
        columns[CHANGE_DATA_FEED] = FLAG
        row[CHANGE_DATA_FEED] = table.options.change_data_feed
    return columns | {"file.format": TEXT, "bucket": WHOLE, "change-tracking": FLAG}, row


def _watermark(context: Context, table: Table, column: str) -> object:
    rows = open_table(context.warehouse, table).scan(ReadSelection((column,)), user=None)
    return pc.max(rows.column(column)).as_py()


def _modified(files: Sequence[DataFile]) -> object:
    return from_millis(max(file.modified_ms for file in files)) if files else None


def _text_of(partition: Partition) -> str:
    return ", ".join(f"{name}={text}" for name, text in partition)
