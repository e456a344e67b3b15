"""Which files a compaction takes: of the trailing run of small files of one schema (Storage Tiers; kalamdb.md 4.7) those whose
rows are worth to be written again.

Without a ratio each compaction takes the file that the one before made, until that is full: a row is written again by every
one. With a ratio a file waits until the newer ones together are as many times as large as it, so its rows are written again a
number of times that grows with the logarithm of the scope (docs/decisions/0124-a-fold-leaves-what-it-folded.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, takewhile

from lakewarden.catalog.kept_settings import TailRule
from lakewarden.delta.parquet.files import DataFile


def rule_of(parameters: Mapping[str, str]) -> TailRule:
    """The rule that a compaction's report names."""
    fewest, most, rows = (int(parameters[name]) for name in ("min_eligible_segments", "max_segments_per_run", "max_segment_rows"))
    return TailRule(fewest, most, rows, float(parameters.get("ratio", "0")))


def small_run(newest_first: Sequence[DataFile], rule: TailRule) -> tuple[DataFile, ...]:
    """The newest files, up to the first that is not small or has no row count."""
    return tuple(takewhile(lambda file: file.rows is not None and file.rows < rule.max_rows, newest_first))


def fitting(run: Sequence[DataFile], rule: TailRule) -> tuple[DataFile, ...]:
    """The files of a run that one compaction takes, from the newest on; at least two, or none."""
    if len(run) < rule.min_files:
        return ()
    sums = list(accumulate(file.rows or 0 for file in run[: rule.max_files]))
    most = sum(rows <= rule.max_rows for rows in sums)
    count = _longest(sums[:most], rule) if rule.ratio else most
    return tuple(run[:count]) if count > 1 else ()


def _longest(sums: Sequence[int], rule: TailRule) -> int:
    """The length of the longest run whose oldest file is small beside the others together; 0 where none is long enough.

    Of all lengths, and not up to the first file that is too large: a tiny newest file ends nothing, nor does a large one among
    many small ones.
    """
    shortest = min(rule.min_files, rule.max_files)
    lengths = range(len(sums), shortest - 1, -1)
    return next((n for n in lengths if sums[n - 1] - sums[n - 2] <= rule.ratio * sums[n - 2]), 0)
