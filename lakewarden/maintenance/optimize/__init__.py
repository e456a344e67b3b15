"""Optimize: packs each scope's files to the target size, or clusters them by columns. Its options."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.maintenance.options import OfFiles, option


@dataclass(frozen=True)
class OptimizeOptions(OfFiles):
    """`zorder` clusters by these columns; without it, files are packed."""

    zorder: tuple[str, ...] = option((), "Columns to cluster by; repeat, or separate by commas.")
    where: str | None = option(None, "Only the partitions for which this is true, as \"day = '2024-05-01'\".")
    target_file_size: int | None = option(None, "Bytes of the files that it writes, instead of the table's.")
    min_gain: float | None = None
    """The least share of files to save; None for the table's."""


OPTIONS = OptimizeOptions
