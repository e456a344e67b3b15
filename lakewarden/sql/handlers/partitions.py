"""Partitions as statements name them, by the values of partition columns."""

from __future__ import annotations

import pyarrow as pa

from lakewarden.catalog.model import Table
from lakewarden.delta.partitions import Partition, spelled
from lakewarden.errors import InvalidArgument
from lakewarden.sql.statements.dynamic import PartitionSpec


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
