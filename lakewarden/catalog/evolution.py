"""Changes of a table's columns and options: they return the next table, with one more schema version.

Columns are identified by id, so a rename keeps the values and a column that is added again starts empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from typing import TypeVar

from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.column_values import initial_of
from lakewarden.catalog.model import Column, SchemaColumn, Table
from lakewarden.catalog.names import check_column
from lakewarden.catalog.options import alter_options
from lakewarden.catalog.schema import check_kind, declare_column, with_default
from lakewarden.errors import AlreadyExists, InvalidArgument, SchemaChanged


@dataclass(frozen=True)
class AddColumn:
    """Older rows have NULL there, whatever the default is; of a NOT NULL column, the default."""

    column: Column
    if_not_exists: bool = False


@dataclass(frozen=True)
class AddColumns:
    """Several at once: all or none, and one schema version."""

    columns: tuple[AddColumn, ...]


@dataclass(frozen=True)
class DropColumn:
    name: str


@dataclass(frozen=True)
class RenameColumn:
    name: str
    to: str


@dataclass(frozen=True)
class ModifyColumn:
    """A wider type, and NULL or NOT NULL where `nullable` says so."""

    name: str
    type: str
    nullable: bool | None = None


@dataclass(frozen=True)
class SetNullable:
    """SET NOT NULL (False) or DROP NOT NULL (True)."""

    name: str
    nullable: bool


@dataclass(frozen=True)
class SetDefault:
    """SET DEFAULT; DROP DEFAULT where it is None."""

    name: str
    default: str | None


@dataclass(frozen=True)
class SetOptions:
    """SET TBLPROPERTIES."""

    options: Mapping[str, object] = field(default_factory=dict)


Alteration = AddColumn | AddColumns | DropColumn | RenameColumn | ModifyColumn | SetNullable | SetDefault | SetOptions


def altered(table: Table, change: Alteration, now: datetime) -> Table:
    """The table after a change that is made now; the same one where nothing changes.

    Raises:
        InvalidArgument: an unknown column, a bad name, type, default or option, a type that is no wider one, NOT NULL without
            a default for an added column, or what would touch the primary key or a partition column.
        AlreadyExists: the name is another column's.
        Unsupported: a FILE column of a STREAM table.
    """
    match change:
        case SetOptions(options):
            return replace(table, options=alter_options(table.type, table.options, options))
        case AddColumn(column, if_not_exists):
            there = column.name.lower() in map(str.lower, table.schema.names)
            return table if if_not_exists and there else _added(table, column, now)
        case AddColumns(columns):
            return _in_one_version(table, reduce(lambda made, each: altered(made, each, now), columns, table))
        case DropColumn(name):
            return _dropped(table, _column(table, name))
        case RenameColumn(name, to):
            return _renamed(table, _column(table, name), to)
        case ModifyColumn(name, type_, nullable):
            before = _column(table, name)
            widened = _widened(table, before, type_)
            return _with(table, widened if nullable is None else _nullability(table, widened, nullable))
        case SetNullable(name, nullable):
            return _with(table, _nullability(table, _column(table, name), nullable))
        case SetDefault(name, default):
            return _with(table, with_default(_column(table, name), default))


def tightens(table: Table, change: Alteration) -> str | None:
    """The column that becomes NOT NULL by the change, so that no row may have a NULL there."""
    if isinstance(change, SetNullable | ModifyColumn) and change.nullable is False and _column(table, change.name).nullable:
        return change.name
    return None


def _added(table: Table, column: Column, now: datetime) -> Table:
    _check_free(table, column.name, None)
    if not column.nullable and column.default is None:
        raise InvalidArgument(f"column {column.name!r}: NOT NULL needs a DEFAULT here, since the table may have rows already")
    # Over all versions: a dropped column's id must not come again, or its old values would fill the new column.
    number = 1 + max(each.id for schema in table.schemas for each in schema.columns)
    made = declare_column(number, column, in_key=False)
    check_kind(made, table.schema.append_only)
    if not made.nullable:
        # Older rows have nothing there. They get the default of this moment, whatever it is changed to later.
        made = replace(made, null_before=True, initial=initial_of(made.default, made.type, now))
    return _evolved(table, (*table.schema.columns, made), table.schema.primary_key)


def _dropped(table: Table, column: SchemaColumn) -> Table:
    if column.name in table.schema.primary_key:
        raise InvalidArgument(f"column {column.name!r} is in the primary key of {table.name} and cannot be dropped")
    _check_no_partition(table, column, "cannot be dropped")
    left = tuple(each for each in table.schema.columns if each.id != column.id)
    if not left:
        raise InvalidArgument(f"column {column.name!r} is the last one of {table.name} and cannot be dropped")
    return _evolved(table, left, table.schema.primary_key)


def _renamed(table: Table, column: SchemaColumn, to: str) -> Table:
    check_column(to)
    _check_no_partition(table, column, "cannot be renamed: its name is in the directories of the data files")
    _check_free(table, to, column)
    key = tuple(to if name == column.name else name for name in table.schema.primary_key)
    columns = tuple(replace(each, name=to) if each.id == column.id else each for each in table.schema.columns)
    return _evolved(table, columns, key)


def _widened(table: Table, column: SchemaColumn, text: str) -> SchemaColumn:
    type_ = ColumnType.parse(text)
    if type_ == column.type:
        return column
    if column.name in table.schema.primary_key:
        raise InvalidArgument(f"column {column.name!r} is in the primary key of {table.name}: its type stays {column.type}")
    _check_no_partition(table, column, f"stays {column.type}")
    if not _is_wider(column.type, type_):
        raise InvalidArgument(f"column {column.name!r} is {column.type} and cannot become {type_}: only wider types of its kind")
    # The default is spelled anew in the wider type.
    return with_default(replace(column, type=type_), column.default)


def _is_wider(before: ColumnType, after: ColumnType) -> bool:
    """Whether each value of one is the same value of the other."""
    if before.name == after.name == "DECIMAL":
        whole = (before.precision or 0) - (before.scale or 0), (after.precision or 0) - (after.scale or 0)
        # Digits before the point and behind it, each by itself: more in all is not enough.
        return whole[0] <= whole[1] and (before.scale or 0) <= (after.scale or 0)
    return after.name in _WIDER.get(before.name, ())


_WIDER = {"SMALLINT": ("INT", "BIGINT"), "INT": ("BIGINT",), "FLOAT": ("DOUBLE",)}


def _nullability(table: Table, column: SchemaColumn, nullable: bool) -> SchemaColumn:
    if nullable and column.name in table.schema.primary_key:
        raise InvalidArgument(f"column {column.name!r} is in the primary key of {table.name} and stays NOT NULL")
    if nullable == column.nullable:
        return column
    # Rows from before may have NULL, so the column of the Delta table stays nullable.
    changed = replace(column, nullable=nullable, null_before=not nullable)
    return with_default(changed, column.default)


def _with(table: Table, column: SchemaColumn) -> Table:
    columns = tuple(column if each.id == column.id else each for each in table.schema.columns)
    return _evolved(table, columns, table.schema.primary_key)


def _evolved(table: Table, columns: tuple[SchemaColumn, ...], key: tuple[str, ...]) -> Table:
    """With one version more; the versions before it stay, for the rows that are of them."""
    last = table.schema
    if (columns, key) == (last.columns, last.primary_key):
        return table
    return replace(table, schemas=(*table.schemas, replace(last, version=last.version + 1, columns=columns, primary_key=key)))


def _in_one_version(before: Table, after: Table) -> Table:
    if after == before:
        return before
    # The versions in between were never in the catalog, and no row has one.
    return replace(after, schemas=(*before.schemas, replace(after.schema, version=before.schema.version + 1)))


def _check_no_partition(table: Table, column: SchemaColumn, refusal: str) -> None:
    if column.name in table.schema.partition_by:
        raise InvalidArgument(f"column {column.name!r} is a partition column of {table.name} and {refusal}")


def _column(table: Table, name: str) -> SchemaColumn:
    found = table.schema.column(name)
    if found is None:
        raise InvalidArgument(f"there is no column {name!r} in {table.name}; the columns are {', '.join(table.schema.names)}")
    return found


def _check_free(table: Table, name: str, itself: SchemaColumn | None) -> None:
    taken = next((each for each in table.schema.columns if each.name.lower() == name.lower() and each != itself), None)
    if taken is not None:
        raise AlreadyExists(f"{table.name} has a column {taken.name!r} already; names that differ only in case count as the same")


# Does again what met an ALTER: nothing was written, and the next try takes the columns as they are then.
T = TypeVar("T")

_ATTEMPTS = 5
"""Each that is lost is an ALTER that came between."""


def anew(work: Callable[[], T]) -> T:
    """
    Args:
        work: reads the catalog each time that it is called.

    Raises:
        SchemaChanged: the columns kept changing; nothing was written.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return work()
        except SchemaChanged:
            continue
    return work()
