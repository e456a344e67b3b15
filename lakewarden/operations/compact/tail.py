"""Which files a compaction takes: the trailing run of small files of one schema (Storage Tiers; kalamdb.md 4.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile

from lakewarden.delta.parquet.files import DataFile


@dataclass(frozen=True)
class TailRule:
    """A scope is compacted from `min_files` small files at the end on; one compaction takes at most `max_files` of them and
    `max_rows` rows. A file with fewer than `max_rows` rows is small."""

    min_files: int
    max_files: int
    max_rows: int


def small_run(newest_first: Sequence[DataFile], rule: TailRule) -> tuple[DataFile, ...]:
    """The newest files, up to the first that is not small or has no row count."""
    return tuple(takewhile(lambda file: file.rows is not None and file.rows < rule.max_rows, newest_first))


def fitting(run: Sequence[DataFile], rule: TailRule) -> tuple[DataFile, ...]:
    """The files of a run that one compaction takes: from the newest on while the rows fit; at least two, or none."""
    if len(run) < rule.min_files:
        return ()
    sums = accumulate(file.rows or 0 for file in run[: rule.max_files])
    taken = tuple(file for file, rows in zip(run, sums, strict=False) if rows <= rule.max_rows)
    return taken if len(taken) > 1 else ()
