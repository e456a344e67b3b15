"""What an ingest of a topic did, and what a relay did."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.base.scope import TableName


@dataclass(frozen=True)
class PartitionReport:
    """One partition of the topic."""

    partition: int
    messages: int
    written: int
    removed: int
    rejected: int
    next_offset: int
    """From where the next ingest goes on."""
    lag: int
    """Offsets from there to the end of the partition, as it was then."""


@dataclass(frozen=True)
class ConsumeReport:
    table: TableName
    topic: str
    partitions: tuple[PartitionReport, ...]

    @property
    def messages(self) -> int:
        return sum(each.messages for each in self.partitions)

    @property
    def written(self) -> int:
        return sum(each.written for each in self.partitions)

    @property
    def removed(self) -> int:
        return sum(each.removed for each in self.partitions)

    @property
    def rejected(self) -> int:
        """Messages that are in the table's rejects."""
        return sum(each.rejected for each in self.partitions)

    @property
    def lag(self) -> int:
        return sum(each.lag for each in self.partitions)


# What a relay did, and how far behind it is.
@dataclass(frozen=True)
class RelayReport:
    """One look of a relay at its table."""

    table: TableName
    topic: str
    messages: int
    """Published by this look."""
    seq: int | None
    """Up to which the topic follows the table; None until it has all rows of a full start."""
    lag: int
    """Writes to the table that are not in the topic yet."""
    at: str
    """When the topic moved last: ISO 8601 in UTC."""
