"""By which rules maintenance finds something to do in a table's scopes. The warehouse keeps them (`catalog.kept_settings`)."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.errors import InvalidArgument

MAX_RATIO = 1_000_000


def check_ratio(name: str, ratio: float) -> float:
    """Returns the ratio.

    Raises:
        InvalidArgument: it is not one; `name` says in the message whose it is.
    """
    if not 0 <= ratio <= MAX_RATIO:
        raise InvalidArgument(f"{name} {ratio:g}: a number from 0 to {MAX_RATIO}, where 0 takes all files that fit")
    return ratio


@dataclass(frozen=True)
class TailRule:
    """Which of a scope's newest small files one compaction takes (`tables.upkeep.tail`).

    A file with fewer than `max_rows` rows is small. A compaction needs `min_files` small files at the end, and takes at most
    `max_files` of them and `max_rows` rows. With a `ratio`, the oldest of them has at most so many times the rows of the others
    together; 0 is Storage Tiers' rule, which knows no ratio and takes as many as fit.
    """

    min_files: int = 5
    max_files: int = 8
    max_rows: int = 10_000
    ratio: float = 0.0


@dataclass(frozen=True)
class UpkeepRules:
    """The rules of one table: for compactions that run by themselves, and for packing.

    `min_gain` is the share of its files that a packing has to save.
    """

    tail: TailRule = TailRule()
    min_gain: float = 0.25
