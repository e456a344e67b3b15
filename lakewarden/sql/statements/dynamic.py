"""Statements about dynamic tables."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.sql.statements.base import OnTable

PartitionSpec = tuple[tuple[str, str | None], ...]
"""`dt = 'x', hr = 3` as written: columns and values, None for NULL."""


@dataclass(frozen=True)
class DescribeExtended(OnTable):
    partition: PartitionSpec | None = None


@dataclass(frozen=True)
class CompactTable(OnTable):
    """ALTER TABLE t COMPACT."""


@dataclass(frozen=True)
class DropPartition(OnTable):
    """ALTER TABLE t DROP PARTITION (…)."""

    partition: PartitionSpec
    if_exists: bool = False
