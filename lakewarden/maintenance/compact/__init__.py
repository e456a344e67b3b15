"""Compact: folds each scope's newest small files into one. Its options."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakewarden.catalog.kept_settings import TailRule
from lakewarden.maintenance.options import OfScopes, option


@dataclass(frozen=True)
class CompactOptions(OfScopes):
    """What a compaction takes."""

    ratio: float | None = option(
        None,
        "Leave a file that is this many times larger than those to merge with it; 0: none. A schedule takes the table's.",
    )
    scheduled: bool = option(
        False, "As a schedule does it: by the ratio of the table or the warehouse, and a part at a time.", form=False
    )
    where: str | None = option(None, "Only the partitions for which this is true, as \"day = '2024-05-01'\".")

    @property
    def tail_ratio(self) -> float | None:
        """The ratio; None is the table's own, for what runs by itself. Others take all that fits."""
        return self.ratio if self.ratio is not None else None if self.scheduled else 0.0

    def rule(self, tail: TailRule) -> TailRule:
        """The rule, where `tail` is the table's."""
        return tail if self.tail_ratio is None else replace(tail, ratio=self.tail_ratio)


OPTIONS = CompactOptions
