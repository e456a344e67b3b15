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
        InvalidArgument: the table has no partitions, a partition column is missing or unknown, or a value does not fit.
    """
    names = table.schema.partition_by
    if not names:
        raise InvalidArgument(f"{table.name} is not partitioned, so it takes no PARTITION")
    values = {name.lower(): text for name, text in given}
    if set(values) != {name.lower() for name in names} or len(values) != len(given):
        raise InvalidArgument(f"PARTITION of {table.name} needs a value for each of {', '.join(names)}, and no other")
    return tuple((name, spelled_as(table, name, values[name.lower()])) for name in names)


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
