"""Executes the statements about dynamic tables (FLIP-188) and temporary ones; and what CREATE TABLE declares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.clock import from_millis
from lakewarden.base.quantities import text_of
from lakewarden.base.scope import TableName
from lakewarden.catalog.dynamic_declaration import FILE_PATH, KAFKA, KIND
from lakewarden.catalog.dynamic_options import DynamicOptions
from lakewarden.catalog.model import Table
from lakewarden.catalog.names import check_table
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.options import check_type
from lakewarden.delta.commit_log.actions import CHANGE_DATA_FEED
from lakewarden.delta.parquet.files import DataFile
from lakewarden.delta.partitions import Partition, directory, spelled
from lakewarden.delta.reading.rows import empty_rows, matches
from lakewarden.delta.scope import open_scope
from lakewarden.errors import AlreadyExists, Conflict, ConstraintViolation, InvalidArgument, NotFound, Unsupported
from lakewarden.log.record import SEQ
from lakewarden.maintenance.admin.create_table import new_table
from lakewarden.maintenance.admin.dynamic_tables import DynamicDeclaration, make_dynamic_table, new_dynamic_table
from lakewarden.maintenance.open_table import open_table
from lakewarden.maintenance.request import new_request
from lakewarden.sql.context import Context
from lakewarden.sql.results import AffectedRows, ResultRows, StatementDone, listing
from lakewarden.sql.statements.base import Pairs
from lakewarden.sql.statements.definitions import (
    CompactTable,
    CreateTable,
    CreateTemporaryTable,
    DescribeExtended,
    DropPartition,
    DropTemporaryTable,
    PartitionSpec,
)
from lakewarden.sql.statements.session import SetTableStorage
from lakewarden.sql.system_listings import FLAG, MOMENT, TEXT, WHOLE
from lakewarden.sql.temporary import TemporaryTable
from lakewarden.tables.predicate import condition_of
from lakewarden.tables.rows.intake import RowParts, Rows
from lakewarden.tables.strong_read import ReadSelection


# Partitions as statements name them, by the values of partition columns.
def partition_of(table: Table, given: PartitionSpec) -> Partition:
    """The partition that the values name, spelled as in Delta's log.

    Raises:
        InvalidArgument: as `named_of`, or a partition column has no value.
    """
    found = named_of(table, given)
    if len(found) < len(table.schema.partition_by):
        raise InvalidArgument(f"PARTITION of {table.name} needs a value for each of {', '.join(table.schema.partition_by)}")
    return found


def named_of(table: Table, given: PartitionSpec) -> Partition:
    """The values of some partition columns, in the table's order: they name each partition that has these.

    Raises:
        InvalidArgument: the table has no partitions, a column is none of its partition columns or is named twice, or a value
            does not fit.
    """
    names = table.schema.partition_by
    if not names:
        raise InvalidArgument(f"{table.name} is not partitioned, so it takes no PARTITION")
    values = {name.lower(): text for name, text in given}
    if len(values) < len(given) or not values.keys() <= {name.lower() for name in names}:
        raise InvalidArgument(f"PARTITION of {table.name} takes each of these columns at most once: {', '.join(names)}")
    return tuple((name, spelled_as(table, name, values[name.lower()])) for name in names if name.lower() in values)


def spelled_as(table: Table, name: str, text: str | None) -> str | None:
    """The value of a partition column as Delta's log spells it.

    Raises:
        InvalidArgument: it is no value of the column's type.
    """
    column = table.schema.column(name)
    assert column is not None, "a partition column is one of the table's"
    try:
        value = pa.chunked_array([pa.array([text], pa.string()).cast(column.type.arrow)])
    except pa.ArrowInvalid as error:
        raise InvalidArgument(f"{name} = {text!r}: it is no {column.type}") from error
    found: str | None = spelled(value)[0].as_py()
    return found


# What CREATE TABLE declares, as names and options.
def declared(statement: CreateTable, names: Sequence[str]) -> list[str]:
    """The columns as declared: names in SQL ignore case."""
    columns = {column.name.lower(): column.name for column in statement.columns}
    return [columns.get(name.lower(), name) for name in names]


def options_of(pairs: Pairs) -> dict[str, str]:
    """Raises:
    InvalidArgument: an option is given twice.
    """
    twice = [key for key, count in Counter(key.upper() for key, _ in pairs).items() if count > 1]
    if twice:
        raise InvalidArgument(f"option {twice[0]} is given twice")
    return dict(pairs)


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


# Executes the statements about temporary tables, which belong to one session and live in its memory.
def create_temporary_table(context: Context, statement: CreateTemporaryTable) -> StatementDone:
    """Raises:
    AlreadyExists: the session has a temporary table of this name.
    NotFound: there is no such namespace.
    InvalidArgument, Unsupported: the declaration is not valid, or is not for a table in memory.
    """
    name = context.named(statement.table)
    if context.temporary.find(name) is not None:
        if statement.declared.if_not_exists:
            return StatementDone(f"temporary table {name} already exists")
        raise AlreadyExists(f"temporary table {name} already exists")
    if name.namespace not in context.catalog.namespaces:
        raise NotFound(f"there is no namespace {name.namespace!r}: a temporary table has its name in one of the warehouse")
    check_table(name.name)
    table = _declared(context, statement.declared, name)
    context.temporary.add(TemporaryTable(table, empty_rows(table.schema)))
    return StatementDone(f"temporary table {name} created")


def drop_temporary_table(context: Context, statement: DropTemporaryTable) -> StatementDone:
    """Raises:
    InvalidArgument: the name means a table of the warehouse.
    NotFound: nothing has this name.
    """
    name = context.named(statement.table)
    if context.temporary.drop(name):
        return StatementDone(f"temporary table {name} dropped")
    if statement.if_exists:
        return StatementDone(f"skipped: there is no temporary table {name}")
    if name in context.catalog.tables:
        raise InvalidArgument(f"{name} is a table of the warehouse, not a temporary one; DROP TABLE {name} would remove it")
    raise NotFound(f"there is no temporary table {name}")


def insert_temporary(context: Context, held: TemporaryTable, given: Rows | RowParts) -> AffectedRows:
    """Adds rows. A row of a key that exists replaces it if the table's ON_DUPLICATE is `replace`, as that of dynamic tables is.

    Raises:
        ConstraintViolation: a key exists; or a value does not fit. The rows stay as they were.
        Unsupported: the session's tables would take more memory than they may.
    """
    table, before = held.table, held.rows
    whole = context.temporary.joined(table.name, given) if isinstance(given, RowParts) else given
    rows = open_table(context.warehouse, table).by(context.principal.user).completed(whole, user=None)
    if table.schema.primary_key and before.num_rows and rows.num_rows:
        again = matches(before, rows, table.schema.primary_key)
        if pc.any(again).as_py() and table.options.on_duplicate == "error":
            raise ConstraintViolation(f"{table.name}: a row with such a primary key exists already")
        before = before.filter(pc.invert(again))
    last = pc.max(held.rows.column(SEQ)).as_py() or 0
    numbered = rows.append_column(SEQ, pa.array(range(last + 1, last + 1 + rows.num_rows), pa.int64()))
    added = numbered.select(before.column_names).cast(before.schema)
    context.temporary.replace_rows(table.name, pa.concat_tables([before, added]))
    return AffectedRows(rows.num_rows)


def _declared(context: Context, statement: CreateTable, name: TableName) -> Table:
    """The table as CREATE TABLE would make it, without a place."""
    key, partition_by = declared(statement, statement.primary_key), declared(statement, statement.partition_by)
    options = options_of(statement.options)
    if any(option.strip().lower() == FILE_PATH or option.strip().lower().startswith(KAFKA) for option in options):
        raise InvalidArgument(f"{name} is temporary: it is in memory, and takes no option {FILE_PATH} and none of {KAFKA}…")
    if is_dynamic(context, statement):
        session = {option: value for option, value in context.table_storage.items() if option != FILE_PATH}
        given = DynamicDeclaration(name, statement.columns, key, partition_by, options, session)
        return new_dynamic_table(context.warehouse, context.catalog, given)
    if check_type(statement.type) != "SHARED":
        raise Unsupported(f"{name}: a temporary table belongs to its session, and is not of the type {statement.type}")
    return new_table(context.warehouse, name, "SHARED", statement.columns, key, options, partition_by)
