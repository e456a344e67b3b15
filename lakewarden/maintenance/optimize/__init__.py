"""Optimize: packs each scope's files to the target size, or clusters them by columns. Its options."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.maintenance.options import OfScopes, option


@dataclass(frozen=True)
class OptimizeOptions(OfScopes):
    """`zorder` clusters by these columns; without it, files are packed."""

    zorder: tuple[str, ...] = option((), "Columns to cluster by; repeat, or separate by commas.")
    where: str | None = option(None, "Only the partitions for which this is true, as \"day = '2024-05-01'\".")
    target_file_size: int | None = option(None, "Bytes of the files that it writes, instead of the table's.")
    ratio: float | None = option(
        None,
        "Leave a file that is this many times larger than those to merge with it; 0: none. A schedule takes the table's.",
    )
    scheduled: bool = option(
        False, "As a schedule does it: by the ratio of the table or the warehouse, and a part at a time.", form=False
    )
    min_gain: float | None = None
    """The least share of files to save; None for the table's."""

    @property
    def tail_ratio(self) -> float | None:
        """The ratio; None is the table's own, for what runs by itself. Others take all that fits."""
        return self.ratio if self.ratio is not None else None if self.scheduled else 0.0


OPTIONS = OptimizeOptions
