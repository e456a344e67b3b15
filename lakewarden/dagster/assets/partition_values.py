"""The partitions of a large table as Dagster's: each combination of values of its partition columns is one, up to a bound.

A key is the partition's directory, such as `day=2024-05-01/kind=a%2Fb`: people know it from the paths of the files.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.base.scope import Scope
from lakewarden.catalog.model import Catalog, Table
from lakewarden.delta.parquet.files import DataFile, by_partition
from lakewarden.delta.partitions import Partition, directory
from lakewarden.delta.scope import open_scope
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import LakewardenError
from lakewarden.tables.warehouse import Warehouse

MAX_VALUES = 10_000
"""Partitions above which a table's asset has none: a commit that touches all of them logs an event for each."""


@dataclass(frozen=True)
class PartitionState:
    """What one version holds of a partition."""

    rows: int | None
    """None where another program left it out of the log."""
    files: int
    bytes: int


def is_key(text: str) -> bool:
    """Whether Dagster's storage takes it as a partition: Postgres holds no text with U+0000."""
    return "\0" not in text


def has_values(table: Table) -> bool:
    return table.type == "SHARED" and bool(table.schema.partition_by)


def key_of(partition: Partition) -> str:
    return directory(partition).removesuffix("/")


def states_of(table: ScopeTable | None) -> dict[str, PartitionState]:
    """The partitions by their keys; the rows of others' deletion vectors are still counted."""
    found = by_partition(table.files()) if table else {}
    return {key_of(partition): _state(files) for partition, files in found.items()}


def _state(files: tuple[DataFile, ...]) -> PartitionState:
    counts = [file.rows for file in files if file.rows is not None]
    return PartitionState(sum(counts) if len(counts) == len(files) else None, len(files), sum(file.size for file in files))


def count_of(warehouse: Warehouse, catalog: Catalog, table: Table) -> int:
    """The number of the table's partitions by its newest commit; 0 where it cannot be opened: the pages load all the same."""
    try:
        found = open_scope(warehouse.target(catalog, Scope(table.name)))
    except LakewardenError:
        return 0
    return len(by_partition(found.files())) if found else 0
