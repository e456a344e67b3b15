"""What is done to a whole table, in 1,000 and in 10,000 partitions of the same rows, beside delta-rs on the same files.

Each operation has a process of its own, so its highest memory is its own, too.
"""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from benchmarks.large import COLUMNS, chunks, of_ids
from benchmarks.measuring.family import Cost, cost
from benchmarks.measuring.page import Section, Table
from benchmarks.measuring.scale import Scale
from lakewarden.catalog.report import ScopeReport
from lakewarden.client import Lakehouse

_NAME, _CHANGED = "bench.divided", "bench.changed"
_KEY = ("id", "day")
_EACH = 7
"""Rows that a flush of new rows brings to each partition, about; a partition has some 300 before where there are 10,000."""
_ONE_IN = 100
"""One row of so many is changed by a MERGE."""
_PATIENCE = 120.0
"""Seconds after which the other side's operation is given up."""
_AGGREGATE = "SELECT kind, count(*), sum(amount) FROM {} GROUP BY kind"
_MERGE = " ".join(
    (
        "MERGE INTO",
        _NAME,
        "t USING (SELECT * FROM",
        _CHANGED,
        ") s ON t.id = s.id AND t.day = s.day",
        "WHEN MATCHED THEN UPDATE SET kind = s.kind, amount = s.amount, note = s.note",
        "WHEN NOT MATCHED THEN INSERT (id, day, kind, amount, note) VALUES (s.id, s.day, s.kind, s.amount, s.note)",
    )
)


@dataclass(frozen=True)
class _Divided:
    """A warehouse with the table."""

    place: Path
    rows: int
    partitions: int

    @property
    def table(self) -> Path:
        """The Delta table that is ours; theirs is a copy."""
        return self.place / "ours" / "data" / Path(*_NAME.split("."))

    @property
    def copy(self) -> str:
        return str(self.place / "theirs")

    @property
    def changed(self) -> pa.Table:
        return of_ids(np.arange(0, self.rows, _ONE_IN), self.partitions, more=1.0)


Ours = Callable[[Lakehouse, _Divided], object]
Theirs = Callable[[_Divided], object]
_Side = Callable[[_Divided, str], Cost]
_Call = Callable[[_Side, _Divided, str, float | None], Cost | None]
"""Costs of an operation of one side; None where it did not end within so many seconds."""


def _made(lake: Lakehouse, divided: _Divided) -> None:
    lake.create_namespace("bench")
    table = lake.create_table(_NAME, columns=COLUMNS, primary_key=_KEY, partition_by=["day"])
    table.direct.overwrite(chunks(divided.rows, divided.partitions))
    changed = lake.create_table(_CHANGED, columns=COLUMNS)
    changed.direct.append([divided.changed])


def _flushed(times: int) -> Ours:
    """Flushes of new rows: each leaves a further file in each partition."""

    def flush(lake: Lakehouse, divided: _Divided) -> None:
        new = divided.partitions * _EACH
        table = lake.table(_NAME)
        for _ in range(times):
            first = divided.rows + table.history(limit=1)[0].version * new
            table.write(of_ids(np.arange(first, first + new), divided.partitions))
            _done(lake.flush(_NAME))

    return flush


def _merged(lake: Lakehouse, _: _Divided) -> None:
    lake.sql(_MERGE)
    _done(lake.flush(_NAME))


def _they_merge(divided: _Divided) -> None:
    table = DeltaTable(divided.copy)
    merge = table.merge(divided.changed, "t.id = s.id AND t.day = s.day", source_alias="s", target_alias="t")
    values = {name: f"s.{name}" for name in ("kind", "amount", "note")}
    merge.when_matched_update(values).when_not_matched_insert(values | {name: f"s.{name}" for name in _KEY}).execute()


def _they_count(divided: _Divided) -> None:
    found = QueryBuilder().register("t", DeltaTable(divided.copy)).execute(_AGGREGATE.format("t"))
    assert len(pa.table(found.read_all()))


def _checked(lake: Lakehouse, _: _Divided) -> None:
    failed = [finding for finding in lake.check() if not finding.passed]
    assert not failed, failed[0]


_SETUP: Mapping[str, Ours] = {"make": _made, "two flushes": _flushed(2), "five flushes": _flushed(5)}
_OURS: Mapping[str, Ours] = {
    "aggregate of all rows": lambda lake, _: lake.sql(_AGGREGATE.format(_NAME), freshness="eventual"),
    "check": _checked,
    "MERGE of 1 %, until it is in Delta": _merged,
    "optimize": lambda lake, _: _done(lake.optimize(_NAME)),
    "compact": lambda lake, _: _done(lake.compact(_NAME)),
    "restore of version 1": lambda lake, _: _done(lake.restore(_NAME, version=1, dry_run=False)),
    "vacuum": lambda lake, _: _done(lake.vacuum(_NAME, retain_hours=0, force=True, dry_run=False)),
    "drop": lambda lake, _: lake.sql(f"DROP TABLE {_NAME}"),
}
_THEIRS: Mapping[str, Theirs] = {
    "aggregate of all rows": _they_count,
    "MERGE of 1 %, until it is in Delta": _they_merge,
    "optimize": lambda divided: DeltaTable(divided.copy).optimize.compact(),
    "compact": lambda divided: DeltaTable(divided.copy).optimize.compact(),
    "restore of version 1": lambda divided: DeltaTable(divided.copy).restore(1),
    "vacuum": lambda divided: DeltaTable(divided.copy).vacuum(0, dry_run=False, enforce_retention_duration=False),
    "drop": lambda divided: shutil.rmtree(divided.copy),
}
_BEFORE: Mapping[str, str] = {"aggregate of all rows": "two flushes", "compact": "five flushes"}


def run(scale: Scale, place: Path) -> Section:
    rows, sizes = scale.partitions
    section = Section("partitions", scale.name)
    call = _in_a_process if scale.rounds > 1 else _here
    found = [_measured(_Divided(place / str(partitions), rows, partitions), call) for partitions in sizes]
    head = [text for each in sizes for text in (f"{each:,}: ours", "memory", "delta-rs", "memory")]
    lines = []
    for name in _OURS:
        sides = [part for costs in found for part in (*_shown(costs[0][name]), *_shown(costs[1].get(name), name))]
        lines.append((name, *sides, f"{_processor(found[-1][0][name]) / max(_processor(found[0][0][name]), 0.01):.1f}"))
    section.tables.append(
        Table(
            f"{rows:,} rows by a key of two columns, divided by one of them into {sizes[0]:,} and into {sizes[1]:,} partitions;"
            " without Spark. Three files a partition up to optimize, then six. Each operation is in a process of its own, whose"
            " highest memory is shown; delta-rs does the same to a copy of the files, and drops them as one removes a directory."
            f" It is given {_PATIENCE:.0f} seconds. In brackets, seconds of the processor; at last, how many times our"
            " processor time for the fewer partitions the more"
            f" take; of files there are {sizes[1] / sizes[0]:.0f} times as many.",
            ("operation", *head, "processor, times"),
            lines,
        )
    )
    return section


def _measured(divided: _Divided, call: _Call) -> tuple[dict[str, Cost | None], dict[str, Cost | None]]:
    """The costs of ours and of theirs, None where it did not end in time."""
    divided.place.mkdir(parents=True)
    call(_our_side, divided, "make", None)
    ours: dict[str, Cost | None] = {}
    theirs: dict[str, Cost | None] = {}
    for name in _OURS:
        if name in _BEFORE:
            call(_our_side, divided, _BEFORE[name], None)
        if name in _THEIRS:
            shutil.rmtree(divided.copy, ignore_errors=True)
            shutil.copytree(divided.table, divided.copy)
            theirs[name] = call(_their_side, divided, name, _PATIENCE)
        ours[name] = call(_our_side, divided, name, None)
    shutil.rmtree(divided.place)
    return ours, theirs


def _here(side: _Side, divided: _Divided, name: str, _patience: float | None) -> Cost | None:
    return side(divided, name)


def _in_a_process(side: _Side, divided: _Divided, name: str, patience: float | None) -> Cost | None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # so that each begins with its modules, and with nothing else
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(there, side, divided, name))
    process.start()
    there.close()
    try:
        return here.recv() if here.poll(patience) else None
    finally:
        if patience is not None:
            process.kill()
        process.join()
        here.close()


def _answer(answer: Connection, side: _Side, divided: _Divided, name: str) -> None:
    answer.send(side(divided, name))


def _our_side(divided: _Divided, name: str) -> Cost:
    with Lakehouse.open(str(divided.place / "ours")) as lake:
        return cost(_SETUP.get(name) or _OURS[name], lake, divided)


def _their_side(divided: _Divided, name: str) -> Cost:
    return cost(_THEIRS[name], divided)


def _shown(found: Cost | None, given_up: str = "") -> tuple[str, str]:
    if found is None:
        return (f"more than {_PATIENCE:.0f} s" if given_up in _THEIRS else "-"), "-"
    return f"{found.seconds:.2f} s ({found.processor:.2f})", f"{found.python_mib:,.0f} MiB"


def _processor(found: Cost | None) -> float:
    assert found is not None, "ours is waited for"
    return found.processor


def _done(reports: list[ScopeReport]) -> None:
    wrong = [report.fault or report.reason for report in reports if report.outcome != "done"]
    assert not wrong, wrong[0]
