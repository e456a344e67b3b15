"""`spark.read.format("lakewarden")`: which tasks a read has, and what each of them returns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from lakewarden.base.scope import Scope
from lakewarden.catalog.access import can
from lakewarden.catalog.changes.engines import require_active
from lakewarden.catalog.model import Table, TableSchema
from lakewarden.catalog.target import check_scope
from lakewarden.delta.past import AsOf
from lakewarden.delta.reading.bounds import Bound, Value
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.log.record import SEQ, USER
from lakewarden.spark.columns import Owned, batches, chosen, read_columns, source_schema
from lakewarden.spark.connection import SparkConnection, called_by_spark
from lakewarden.spark.options import ReadOptions
from lakewarden.spark.packs import scope_packs
from lakewarden.spark.rows import ScopeRead, SharedTasks, shared_tasks
from lakewarden.tables.strong_read import PastScope, ReadSelection, past_of
from lakewarden.tables.warehouse import Warehouse, find_table

# What Spark's filters say of users and columns. Each filter is applied again by Spark: in doubt, one says nothing here.
_LOW = (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual)
_HIGH = (EqualTo, EqualNullSafe, LessThan, LessThanOrEqual)
_EQUAL = (EqualTo, EqualNullSafe)


@dataclass(frozen=True)
class RowFilter:
    """What rows have to satisfy. `users` is None where they may be anyone's; `nothing` where no row can be wanted."""

    users: frozenset[str] | None = None
    bounds: tuple[Bound, ...] = ()
    nothing: bool = False

    @classmethod
    def by(cls, filters: Iterable[Filter], columns: pa.Schema, never_null: frozenset[str]) -> RowFilter:
        """
        Args:
            columns: those of the source.
            never_null: names of columns without a NULL.
        """
        return reduce(lambda found, each: found._and(_said(each, columns, never_null)), filters, cls())

    def _and(self, other: RowFilter) -> RowFilter:
        named = [users for users in (self.users, other.users) if users is not None]
        users = frozenset.intersection(*named) if named else None
        return RowFilter(users, (*self.bounds, *other.bounds), self.nothing or other.nothing)


def _said(given: Filter, columns: pa.Schema, never_null: frozenset[str]) -> RowFilter:
    (name, *inner) = getattr(given, "attribute", ("",))
    if inner or name not in columns.names:
        return RowFilter()
    if isinstance(given, IsNull):
        return RowFilter(nothing=name in never_null)
    if isinstance(given, In):
        values = tuple(given.value)
    else:
        values = (getattr(given, "value", None),) if isinstance(given, (*_LOW, *_HIGH)) else ()
    known = [_value(each, columns.field(name).type) for each in values]
    if not known or None in known:
        return RowFilter()
    if name == USER:
        equal = isinstance(given, (In, *_EQUAL))
        return RowFilter(users=frozenset(map(str, known))) if equal else RowFilter()
    return RowFilter(bounds=(_bound(given, name, [each for each in known if each is not None]),))


def _bound(given: Filter, name: str, values: list[Value]) -> Bound:
    ordered = sorted(values, key=_order)
    if isinstance(given, In):
        return Bound(name, ordered[0], ordered[-1], tuple(ordered))
    return Bound(name, ordered[0] if isinstance(given, _LOW) else None, ordered[-1] if isinstance(given, _HIGH) else None)


def _order(value: Value) -> Any:
    """Text is compared by its UTF-8 bytes, as Spark does."""
    return value.encode() if isinstance(value, str) else value


def _value(given: object, kind: pa.DataType) -> Value | None:
    """A value in the form of a bound on a column of that type; None for another one."""
    if isinstance(given, bool):
        return None
    if isinstance(given, datetime):
        return given.astimezone(UTC) if given.tzinfo is not None and pa.types.is_timestamp(kind) else None
    wanted = _PYTHON.get(kind.id, Decimal if pa.types.is_decimal(kind) else None)
    return given if wanted is not None and isinstance(given, wanted) else None


_PYTHON: dict[int, type[int] | type[str] | type[date]] = {
    pa.int16().id: int,
    pa.int32().id: int,
    pa.int64().id: int,
    pa.string().id: str,
    pa.date32().id: date,
}

NEVER_NULL = frozenset({SEQ})
"""Of the columns that every table has here; `_user` is NULL in a SHARED table."""


@dataclass(frozen=True)
class ScopePack(InputPartition):
    """Scopes that a task reads whole: as they are, or as of the version of the past that the options name."""

    users: tuple[str | None, ...]


@dataclass(frozen=True)
class SharedPart(InputPartition):
    """A part of a SHARED table."""

    number: int


class BatchReader(DataSourceReader):
    """Made where Spark plans the read. `partitions` is called there too, then `read` in the tasks."""

    def __init__(self, connection: SparkConnection, options: ReadOptions, columns: StructType | None = None) -> None:
        """
        Args:
            columns: those that the query has, where it names them; all by default.
        """
        self._connection = connection
        self._options = options
        with called_by_spark():
            warehouse = connection.open()
            self._table = readable(warehouse, options)
            self._schema = schema_of(warehouse, self._table, options)
            self._columns = chosen(source_schema(self._schema), columns)
        self._filtered = RowFilter()
        self._divided = False
        self._shared: SharedTasks | None = None
        """What tasks read of a SHARED table; None where one of them reads it whole."""

    def __getstate__(self) -> dict[str, object]:
        """Spark pickles a reader for its tasks before it asks for the partitions: what they read is decided by then."""
        with called_by_spark():
            self._divide()
        return self.__dict__

    def partitions(self) -> Sequence[InputPartition]:
        with called_by_spark():
            warehouse = self._connection.open()
            users = self._users()
            if self._filtered.nothing or users == ():
                return [ScopePack(())]
            if self._options.as_of is not None:
                return [ScopePack((user,)) for user in self._owners(users)]
            if self._table.type == "SHARED":
                return self._of_shared()
            packs = scope_packs(warehouse, self._table, users, self._options.freshness, self._connection.cores)
            return [ScopePack(pack) for pack in packs] or [ScopePack(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with called_by_spark():
            yield from batches(self._rows(partition), self._columns)

    def _users(self) -> tuple[str, ...] | None:
        """Those that are wanted; None for all of them. Of a SHARED table, an empty tuple where no row can be wanted."""
        chosen, only = self._options.users, self._filtered.users
        if only is None:
            return chosen
        if self._table.type == "SHARED":
            return ()
        return tuple(sorted(only if chosen is None else only.intersection(chosen)))

    def _owners(self, users: tuple[str, ...] | None) -> Sequence[str | None]:
        if self._table.type == "SHARED":
            return (None,)
        assert users is not None, "a past is read of named users"
        return users

    def _divide(self) -> None:
        """Divides a SHARED table among tasks, once."""
        parted = self._table.type == "SHARED" and self._options.as_of is None and self._options.freshness != "oltp_only"
        if parted and not self._divided and not self._filtered.nothing:
            warehouse = self._connection.open()
            self._shared = shared_tasks(self._scopes, warehouse, warehouse.settings.spark.task_bytes)
        self._divided = True

    def _of_shared(self) -> Sequence[InputPartition]:
        self._divide()
        if self._shared is None:
            return [ScopePack((None,))]
        return [SharedPart(number) for number in range(self._shared.count)] or [ScopePack(())]

    @property
    def _scopes(self) -> ScopeRead:
        wanted = ReadSelection(read_columns(self._columns), self._filtered.bounds)
        return ScopeRead(self._connection, self._table, wanted, self._options.freshness)

    def _rows(self, partition: InputPartition) -> Iterator[Owned]:
        read = self._scopes
        match partition:
            case ScopePack() if self._options.as_of is None:
                yield from read.rows(partition.users)
            case SharedPart():
                assert self._shared is not None, "it was divided"
                yield from ((None, rows) for rows in self._shared.rows(partition.number, read))
            case ScopePack():
                for user in partition.users:
                    past = _past(self._connection.open(), self._table, self._options.as_of, user)
                    check_alike(past, self._schema)
                    yield user, past.rows(read.wanted)


class FilteredReader(BatchReader):
    """The same, with filters that decide what is read.

    Spark 4.1 keeps what it planned with filters for the whole DataFrame, and uses it where the same DataFrame is read again
    without any, or joined with itself: rows would be missing. So a read has to ask for this.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Returns all of them: Spark applies each again."""
        required = frozenset(column.name for column in self._schema.columns if not (column.nullable or column.null_before))
        owners = NEVER_NULL if self._table.type == "SHARED" else NEVER_NULL | {USER}
        self._filtered = RowFilter.by(filters, source_schema(self._schema), required | owners)
        return filters


def readable(warehouse: Warehouse, options: ReadOptions) -> Table:
    """The table, if it can be read with these options.

    Raises:
        NotFound, FailedPrecondition: the table does not exist; or it has no schema yet, or its engine is disabled.
        InvalidArgument: users of a SHARED table, or a past of scopes that are not named.
        Unsupported: a past of a STREAM table.
    """
    catalog = warehouse.catalog.read()
    table = find_table(catalog, options.table)
    require_active(catalog, table.name.namespace)
    for user in options.users or ():
        check_scope(table, Scope(table.name, user))
    if options.as_of is None:
        return table
    if not can(table.type, "cold tier"):
        raise Unsupported(f"{table.name} is a {table.type} table, which has no versions: read it as it is")
    if table.type != "SHARED" and not options.users:
        raise InvalidArgument(f"each scope of {table.name} has versions of its own: name the user, or users, to read one")
    return table


def schema_of(warehouse: Warehouse, table: Table, options: ReadOptions) -> TableSchema:
    """The columns of the rows: those of the version that is read."""
    if options.as_of is None:
        return table.schema
    return _past(warehouse, table, options.as_of, options.users[0] if options.users else None).schema


def check_alike(past: PastScope, schema: TableSchema) -> None:
    """Raises Unsupported: the scope had other columns then than the first one that is read."""
    if source_schema(past.schema) != source_schema(schema):
        raise Unsupported(f"the columns of {past.table.uri} were others then than those of the first scope: read each by itself")


def _past(warehouse: Warehouse, table: Table, as_of: AsOf | None, user: str | None) -> PastScope:
    assert as_of is not None, "a version is read"
    place = warehouse.place(warehouse.catalog.read(), table, user)
    return past_of(place, as_of, warehouse.clock())
