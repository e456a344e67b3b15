"""Compact: folds each scope's newest small files into one. Its options."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.maintenance.options import OfFiles, option


@dataclass(frozen=True)
class CompactOptions(OfFiles):
    """What a compaction takes."""

    where: str | None = option(None, "Only the partitions for which this is true, as \"day = '2024-05-01'\".")


OPTIONS = CompactOptions
