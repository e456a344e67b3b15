"""Maintenance of many scopes, beside a loop of Spark statements over the same tables."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from benchmarks import data
from benchmarks.measuring.page import Section, Table
from benchmarks.measuring.scale import Scale
from benchmarks.measuring.timing import quiet_seconds, times
from lakewarden.catalog.report import ScopeReport
from lakewarden.client import Lakehouse

_ROWS = 50
"""Of each file."""
_WARM_UP = 1
"""Statements before those that count, where times do: Spark compiles its plans once."""


def run(scale: Scale, place: Path, spark: SparkSession) -> Section:
    section = Section("maintenance", scale.name)
    users, first = data.users(scale.scopes), _WARM_UP if scale.rounds > 1 else 0
    with Lakehouse.open(str(place / "ours"), spark=lambda: spark) as lake:
        before = _prepare(lake, users, scale.files)
        copies = _copies(lake, users[: scale.sample + first], place / "spark")
        loops = _loops(copies, first, spark)
        ours = _ours(lake, users, before)
    lines = [
        (
            name,
            f"{ours[name]:.2f} s, {1000 * ours[name] / scale.scopes:.1f} ms a scope",
            f"{loops[name]:.2f} s a scope, {loops[name] * scale.scopes:,.0f} s",
            times(loops[name] * scale.scopes, ours[name]),
        )
        for name in ours
    ]
    section.tables.append(
        Table(
            f"{scale.scopes:,} scopes of {scale.files} files each. Spark's side is a loop of one statement a scope, warm: "
            f"the median of {scale.sample} scopes, times {scale.scopes:,} (extrapolated). Target: at least 20 times.",
            ("operation", "ours", "loop of Spark statements", "times"),
            lines,
        )
    )
    return section


def _prepare(lake: Lakehouse, users: list[str], files: int) -> datetime:
    """Scopes with a few appended files; returns a moment between the first and the second."""
    events = data.create(lake)
    moments: list[datetime] = []
    for turn in range(files):
        events.write(data.rows(users, turn * _ROWS, _ROWS), user_column="user")
        lake.flush(data.TABLE)
        moments.append(datetime.now(UTC))
    return moments[0]


def _ours(lake: Lakehouse, users: Sequence[str], before: datetime) -> dict[str, float]:
    """Each over all scopes, in the order in which an operator would come to them."""
    events = lake.table(data.TABLE)
    return {
        "history": quiet_seconds(lambda: [events.history(user=user) for user in users]),
        "optimize": quiet_seconds(lambda: _check(lake.optimize(data.TABLE), users)),
        "vacuum (dry run)": quiet_seconds(lambda: _check(lake.vacuum(data.TABLE), users)),
        "restore": quiet_seconds(lambda: _check(lake.restore(data.TABLE, timestamp=before, dry_run=False), users)),
    }


def _check(reports: list[ScopeReport], users: Sequence[str]) -> None:
    faults = [report.fault for report in reports if report.fault]
    assert not faults, faults[0]
    assert len(reports) == len(users), f"{len(reports)} reports for {len(users)} scopes"


def _copies(lake: Lakehouse, users: Sequence[str], at: Path) -> list[Path]:
    """The tables that Spark works on: bit by bit those of ours."""
    namespace, name = data.TABLE.split(".")
    base = Path(lake.warehouse.uri) / "data" / namespace / name
    return [Path(shutil.copytree(base / user, at / user)) for user in users]


def _loops(tables: Sequence[Path], first: int, spark: SparkSession) -> dict[str, float]:
    """Seconds of one statement, by operation: the median without so many first ones, which pay for Spark's compilation."""
    statements: dict[str, Callable[[Path], str]] = {
        "history": lambda table: f"DESCRIBE HISTORY delta.`{table}` LIMIT 20",
        "optimize": lambda table: f"OPTIMIZE delta.`{table}`",
        "vacuum (dry run)": lambda table: f"VACUUM delta.`{table}` RETAIN 168 HOURS DRY RUN",
        "restore": lambda table: f"RESTORE TABLE delta.`{table}` TO VERSION AS OF 0",
    }
    return {
        name: median([quiet_seconds(_run, spark, statement(table)) for table in tables][first:])
        for name, statement in statements.items()
    }


def _run(spark: SparkSession, statement: str) -> None:
    spark.sql(statement).collect()
