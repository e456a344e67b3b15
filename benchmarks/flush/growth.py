"""Measures how the cost of a flush grows: with the scopes that exist, with those that are dirty, with a scope's age."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from benchmarks import data
from benchmarks.flush import floor
from benchmarks.measuring.page import Section, Table
from benchmarks.measuring.scale import Scale
from benchmarks.measuring.timing import quiet_seconds, seconds, spread
from lakewarden.client import Lakehouse

_ROWS = 20
"""Of a scope in each flush: the scopes' number is what grows here, not their size."""
_AGED = 8
"""Scopes that grow old together: their median is steadier than one scope's."""
_CHECKPOINT = 10
"""Commits from one checkpoint of a scope's table to the next: the 10th flush writes the first."""


def run(scale: Scale, place: Path, spark: SparkSession) -> Section:
    section = Section("growth", scale.name)
    existing: list[tuple[str, str, str]] = []
    dirty: list[tuple[str, ...]] = []
    for scopes in scale.growth:
        with Lakehouse.open(str(place / f"scopes-{scopes}"), spark=lambda: spark) as lake:
            data.create(lake)
            _write_and_flush(lake, scopes, first=0)
            few = min(scale.growth)
            taken = [_write_and_flush(lake, few, first=_ROWS * (turn + 1) - _ROWS // 2) for turn in range(scale.rounds)]
            existing.append((f"{few:,} of {scopes:,}", spread(taken), f"{1000 * median(taken) / few:.1f} ms"))
            all_of_them = _write_and_flush(lake, scopes, first=_ROWS // 2)
            least = floor.of_new_rows(data.rows(data.users(scopes), 0, _ROWS), place / f"floor-{scopes}", spark)
            each = f"{1000 * all_of_them / scopes:.1f} ms"
            dirty.append(
                (f"{scopes:,} of {scopes:,}", f"{all_of_them:.2f} s", each, f"{least:.2f} s", f"{all_of_them / least:.2f}")
            )
    head = ("dirty scopes", "time", "a scope")
    section.tables.append(Table(f"Few dirty scopes out of many, {_ROWS} rows each. Target: about the same.", head, existing))
    section.tables.append(
        Table(
            f"All scopes dirty. The floor: Spark writes the same rows as Parquet partitioned by user. Target: linear, and"
            f" {floor.TARGET} of the floor.",
            (*head, "the floor", "ours is, times"),
            dirty,
        )
    )
    section.tables.append(_age(scale, place))
    return section


def _write_and_flush(lake: Lakehouse, scopes: int, *, first: int) -> float:
    lake.table(data.TABLE).write(data.rows(data.users(scopes), first, _ROWS), user_column="user")
    return quiet_seconds(lake.flush, data.TABLE)


def _age(scale: Scale, place: Path) -> Table:
    rows: list[tuple[str, ...]] = []
    kinds: dict[str, Callable[[int], int]] = {
        "inserts (a file each time)": lambda turn: turn * _ROWS,
        "updates (one file)": lambda _: 0,
    }
    for name, first in kinds.items():
        taken = _grow_old(place / name.split(maxsplit=1)[0], scale.flushes, first)
        young, old = (_around_checkpoint(taken, at) for at in (_CHECKPOINT, scale.flushes))
        rows += [
            (name, where, f"{1000 * a:.1f} ms", f"{1000 * b:.1f} ms", f"{b / a:.2f}")
            for where, a, b in zip(("before a checkpoint", "with it", "after it"), young, old, strict=True)
        ]
    return Table(
        f"The 10th and the {scale.flushes}th flush of a scope, in process: {_AGED} scopes of that age in one call, {_ROWS} rows "
        "each. Right before, with and right after a checkpoint; medians over the neighbouring ones. Target: about the same.",
        ("what", "where", "10th", f"{scale.flushes}th", "times"),
        rows,
    )


def _grow_old(at: Path, flushes: int, first: Callable[[int], int]) -> list[float]:
    with Lakehouse.open(str(at)) as lake:
        events, users = data.create(lake), data.users(_AGED)
        taken: list[float] = []
        for turn in range(flushes + _CHECKPOINT + 1):
            events.write(data.rows(users, first(turn), _ROWS), user_column="user")
            taken.append(seconds(lake.flush, data.TABLE))
    return taken


def _around_checkpoint(taken: list[float], flush: int) -> tuple[float, float, float]:
    """Medians right before, with and right after the checkpoints around one flush: the 10th, 20th and so on write them."""
    last = (len(taken) - 1) // _CHECKPOINT * _CHECKPOINT
    near = range(max(flush // _CHECKPOINT - 1, 1) * _CHECKPOINT, min(flush + _CHECKPOINT, last) + 1, _CHECKPOINT)
    before, within, after = ([taken[number + shift] for number in near] for shift in (-2, -1, 0))
    return median(before), median(within), median(after)
