"""What can be done to a partitioned table, beside the same done to a dictionary: for tests in which two of them meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa
from deltalake import write_deltalake

from lakewarden import Column, Lakehouse
from lakewarden.base.clock import random_id
from lakewarden.base.faults import Reach
from lakewarden.base.scope import Scope
from lakewarden.catalog.report import ScopeReport
from lakewarden.maintenance.engine import WorkEngine, silent
from lakewarden.maintenance.flush.due import Only
from lakewarden.maintenance.flush.run import flush_scopes
from lakewarden.maintenance.flush_task import FlushTask
from lakewarden.maintenance.optimize import OptimizeOptions
from lakewarden.maintenance.optimize.procedure import plan_optimize
from lakewarden.storage.steps import alone
from lakewarden.tables.client import TableClient
from lakewarden.tables.direct.commit import DirectWrite
from lakewarden.tables.direct.effects import Keep, Replace
from lakewarden.tables.direct.revise import Revise
from lakewarden.tables.direct.run import DirectRun
from lakewarden.tables.freshness import Freshness
from tests.tables.direct.boards import setting

Place = tuple[int, int]
"""A row's id and day."""
COLUMNS = [Column("id", "BIGINT"), Column("day", "INT"), Column("text", "TEXT")]
ROWS: Mapping[Place, str] = {(1, 1): "a", (2, 1): "b", (3, 2): "c"}
PENDING: Mapping[Place, str] = {(2, 1): "pending", (5, 2): "pending"}


@dataclass(frozen=True)
class State:
    """A table's rows in Delta, each with how often it is there, and those that wait in its log."""

    cold: Mapping[tuple[Place, str], int]
    hot: Mapping[Place, str]

    def rows(self) -> dict[tuple[Place, str], int]:
        """Once everything is flushed."""
        return dict(flushed(self).cold)


def flushed(state: State) -> State:
    kept = {row: count for row, count in state.cold.items() if row[0] not in state.hot}
    return State({**kept, **dict.fromkeys(state.hot.items(), 1)}, {})


@dataclass(frozen=True)
class Change:
    """Something done to a table, and to its model."""

    name: str
    run: Callable[[Lakehouse, TableClient, Reach], object]
    model: Callable[[State], State]
    committed: str
    """The first step at which its commit is there."""
    steps: tuple[str, ...]
    """At which another process may come in between; the last ones are behind its commit."""
    first: Callable[[State], State] = lambda state: state
    """What it does by commits of their own, before those steps."""

    @property
    def before(self) -> tuple[str, ...]:
        return self.steps[: self.steps.index(self.committed)]


def make_table(lake: Lakehouse, name: str, *, keyed: bool) -> TableClient:
    """Two partitions, two files in one of them; with a key, rows wait in the log."""
    key = ["id", "day"] if keyed else []
    table = lake.create_table(name, type="SHARED", columns=COLUMNS, primary_key=key, partition_by=["day"])
    first = {place: text for place, text in ROWS.items() if place[0] != 2}
    for batch in (first, {(2, 1): "b"}):
        if keyed:
            table.write(rows(batch))
            lake.flush(name)
        else:
            table.direct.append([rows(batch)])
    if keyed:
        table.write(rows(PENDING))
    return table


def begin(*, keyed: bool) -> State:
    return State(dict.fromkeys(ROWS.items(), 1), PENDING if keyed else {})


def rows(texts: Mapping[Place, str]) -> pa.Table:
    ids, days = zip(*texts, strict=True)
    columns = {"id": pa.array(ids, pa.int64()), "day": pa.array(days, pa.int32())}
    return pa.table({**columns, "text": pa.array(texts.values(), pa.string())})


def found(table: TableClient, freshness: Freshness = "strong") -> dict[tuple[Place, str], int]:
    """Its rows, each with how often it is there."""
    counted: dict[tuple[Place, str], int] = {}
    for row in table.read(freshness=freshness).to_pylist():
        key = (row["id"], row["day"]), row["text"]
        counted[key] = counted.get(key, 0) + 1
    return counted


def _set(text: str, place: Place) -> Callable[[State], State]:
    def model(state: State) -> State:
        cold: dict[tuple[Place, str], int] = {}
        for (at, old), count in state.cold.items():
            row = (at, text if at == place else old)
            cold[row] = cold.get(row, 0) + count
        return replace(state, cold=cold)

    return model


def _overwritten(state: State) -> State:
    """With a key, what is pending is flushed first."""
    kept = {row: count for row, count in flushed(state).cold.items() if row[0][1] != 1}
    return State({**kept, ((9, 1), "over"): 1}, {})


def _plus(place: Place, text: str) -> Callable[[State], State]:
    return lambda state: replace(state, cold={**state.cold, (place, text): state.cold.get((place, text), 0) + 1})


def _direct(write: Callable[[TableClient], DirectWrite]) -> Callable[[Lakehouse, TableClient, Reach], object]:
    def run(lake: Lakehouse, table: TableClient, reach: Reach) -> object:
        return DirectRun(lake.warehouse, table.table, write(table), reach).run()

    return run


def _overwrite(lake: Lakehouse, table: TableClient, reach: Reach) -> object:
    if table.table.schema.primary_key:
        _flush(lake, table, lambda _: None)
    write = DirectWrite("WRITE", Replace("day = 1"), [rows({(9, 1): "over"})], {"mode": "Overwrite"})
    return DirectRun(lake.warehouse, table.table, write, reach).run()


def _flush(lake: Lakehouse, table: TableClient, reach: Reach) -> list[ScopeReport]:
    run = WorkEngine(lake.warehouse.settings, silent, None).run
    wanted = Only({Scope(table.table.name, None)})
    reports = flush_scopes(lake.warehouse, run, _too_large, wanted, reach=reach)
    assert all(report.fault is None for report in reports), reports
    return reports


def _too_large(task: FlushTask) -> ScopeReport:
    raise AssertionError(f"{task.target.scope} is small")


def _optimize(_lake: Lakehouse, table: TableClient, reach: Reach) -> object:
    target = table.reader.target(None)
    plan = plan_optimize(target, OptimizeOptions(), now=_now())
    return alone(plan.run(job_id="OP-1", clock=_now, new_id=random_id, reach=reach))


def _now() -> datetime:
    return datetime.now(UTC)


def _stranger(_lake: Lakehouse, table: TableClient, _: Reach) -> None:
    uri = table.reader.target(None).uri
    row = rows({(4, 1): "stranger"}).append_column("_seq", pa.array([None], pa.int64()))
    write_deltalake(uri, row, mode="append")


_DIRECT = (
    "direct:written",
    "direct:committing",
    "before-link",
    "direct:committed",
    "direct:noted",
)


UPDATE = Change(
    "update",
    _direct(lambda _: DirectWrite("UPDATE", Revise(setting("direct", 2)), (), {"predicate": "id = 2"})),
    _set("direct", (2, 1)),
    "direct:committed",
    _DIRECT,
)
OVERWRITE = Change("overwrite", _overwrite, _overwritten, "direct:committed", _DIRECT, flushed)
APPEND = Change(
    "append",
    _direct(lambda _: DirectWrite("WRITE", Keep(), [rows({(6, 1): "more"})], {"mode": "Append"})),
    _plus((6, 1), "more"),
    "direct:committed",
    _DIRECT,
)
FLUSH = Change(
    "flush",
    _flush,
    flushed,
    "after-commit",
    (
        "planned",
        "drain:read",
        "after-read",
        "after-data-file",
        "before-link",
        "after-commit",
        "after-manifest",
        "after-sync",
    ),
)
OPTIMIZE = Change(
    "optimize",
    _optimize,
    lambda state: state,
    "after-commit",
    ("after-data-file", "before-link", "after-commit", "after-manifest"),
)
STRANGER = Change("stranger", _stranger, _plus((4, 1), "stranger"), "", ())

KEYED: Sequence[Change] = (UPDATE, OVERWRITE, FLUSH, OPTIMIZE)
KEYLESS: Sequence[Change] = (UPDATE, OVERWRITE, APPEND, OPTIMIZE)
