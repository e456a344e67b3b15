"""Several processes that write and flush the same scopes at once, and writers that are held up between their steps."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.base.clock import random_id
from lakewarden.base.faults import Reach
from lakewarden.errors import LakewardenError
from lakewarden.log.table_log import LogTerms, TableLog
from lakewarden.storage.objects import ObjectStore
from tests.fixtures.children import CONTEXT, ended, exit_statuses, start
from tests.fixtures.forwarding import ForwardingStore
from tests.fixtures.lakes import (
    NOTES,
    Rows,
    check_manifest,
    cold_seqs,
    eventual,
    keys,
    log_files,
    make_notes,
    notes,
    strong,
)
from tests.fixtures.patience import PATIENCE

_ROUNDS = 25
_SCOPES = [f"u{number}" for number in range(20)]


def _write_and_flush_new_scopes(uri: str, worker: int, together: Barrier) -> None:
    with Lakehouse.open(uri) as lake:
        table = lake.table(NOTES)
        for number in range(_ROUNDS):
            user = f"round-{number}"
            together.wait(PATIENCE)
            table.write(notes({worker: f"by {worker}", 100: f"by {worker}"}), user=user)
            lake.flush(NOTES, user=user)


@pytest.mark.slow
@pytest.mark.both_stores
def test_three_processes_create_and_flush_the_same_new_scope(warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        table = make_notes(lake)
        together = CONTEXT.Barrier(3)
        done = exit_statuses([(_write_and_flush_new_scopes, warehouse_uri, worker, together) for worker in range(3)])
        assert done == [0, 0, 0]
        assert [report.fault for report in lake.flush()] == [None] * len(lake.pending())
        for number in range(_ROUNDS):
            user = f"round-{number}"
            rows = eventual(table, user)
            assert rows == strong(table, user)
            assert rows.pop(100) in {"by 0", "by 1", "by 2"}
            assert rows == {worker: f"by {worker}" for worker in range(3)}
            assert len(set(cold_seqs(lake, user).values())) == 4
            check_manifest(lake, user)
        assert lake.pending() == []
        assert log_files(lake) == []


def _flush_until(uri: str, stop: Event) -> None:
    with Lakehouse.open(uri) as lake:
        while True:
            last = stop.is_set()
            faults = [report.fault for report in lake.flush() if report.fault]
            assert all(fault.code == "CONFLICT" for fault in faults), faults
            if last:
                return


def _write_steps(uri: str, stop: Event) -> None:
    """Upserts and deletes of the 20 scopes; the same steps as `_model`."""
    try:
        with Lakehouse.open(uri) as lake:
            table = lake.table(NOTES)
            for upserts, deletes in _steps():
                table.write([{**row, "user": user} for user in _SCOPES for row in notes(upserts)], user_column="user")
                for user in _SCOPES[::4]:
                    table.delete(keys(deletes), user=user)
    finally:
        stop.set()


def _steps() -> list[tuple[Rows, list[int]]]:
    choose = random.Random(7)
    return [
        ({choose.randrange(12): f"step {step}" for _ in range(3)}, [choose.randrange(12) for _ in range(2)]) for step in range(12)
    ]


def _model(user: str) -> Rows:
    rows: Rows = {}
    for upserts, deletes in _steps():
        rows |= upserts
        if user in _SCOPES[::4]:
            rows = {key: text for key, text in rows.items() if key not in deletes}
    return rows


@pytest.mark.slow
def test_two_flush_jobs_of_the_same_scopes_while_a_third_process_writes(warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        table = make_notes(lake)
        stop = CONTEXT.Event()
        done = exit_statuses(
            [(_flush_until, warehouse_uri, stop), (_flush_until, warehouse_uri, stop), (_write_steps, warehouse_uri, stop)]
        )
        assert done == [0, 0, 0]
        assert [report.fault for report in lake.flush() if report.fault] == []
        for user in _SCOPES:
            assert strong(table, user) == eventual(table, user) == _model(user)
            seqs = cold_seqs(lake, user)
            assert len(set(seqs.values())) == len(seqs)
            check_manifest(lake, user)
        assert lake.pending() == []


# A writer that is held up between two of its steps

_STEPS = ("before-put", "append:put", "append:looked")


class _HeldStore(ForwardingStore):
    """The store, with a stop before each creation."""

    def __init__(self, store: ObjectStore, reach: Reach) -> None:
        super().__init__(store)
        self._reach = reach

    def create(self, key: str, data: bytes) -> None:
        self._reach("before-put")
        self._store.create(key, data)


def _write_slowly(uri: str, place: str, hours: int, arrived: Event, go_on: Event, outcome: Path) -> None:
    """Writes one row, its clock so many hours off; stops at `place` until it may go on."""

    def clock() -> datetime:
        return datetime.now(UTC) + timedelta(hours=hours)

    def reach(name: str) -> None:
        if name == place and not arrived.is_set():
            arrived.set()
            assert go_on.wait(PATIENCE)

    with Lakehouse.open(uri, clock=clock) as lake:
        client = lake.table(NOTES)
        warehouse = lake.warehouse
        store = _HeldStore(warehouse.state, reach)
        terms = LogTerms(warehouse.settings.log, clock, random_id, warehouse.erasures.mark, warehouse.format)
        slow = TableLog(store, client.table.log_id, terms, reach=reach)
        try:
            replace(client, log=slow).write(notes({500: "slow"}), user="ann")
        except LakewardenError as error:
            outcome.write_text(f"refused: {error.code}")
            return
    outcome.write_text("acknowledged")


@pytest.mark.covering
@pytest.mark.slow
@pytest.mark.parametrize("settled", [True, False], ids=["flushed", "written"])
@pytest.mark.parametrize("hours", [-1, 1])
@pytest.mark.parametrize("place", _STEPS)
def test_a_writer_held_up_is_acknowledged_and_there_or_refused(
    warehouse_uri: str, tmp_path: Path, place: str, hours: int, settled: bool
) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        table = make_notes(lake)
        table.write(notes({1: "early"}), user="ann")
        arrived, go_on = CONTEXT.Event(), CONTEXT.Event()
        outcome = tmp_path / "outcome"
        child = start(_write_slowly, warehouse_uri, place, hours, arrived, go_on, outcome)
        assert arrived.wait(PATIENCE)
        for number in range(3):
            table.write(notes({1: f"late {number}"}), user="ann")
            table.write(notes({1: f"late {number}"}), user="bob")
            if settled:
                lake.flush()
        go_on.set()
        assert ended(child) == 0

        expected = {1: "late 2"}
        if outcome.read_text() == "acknowledged":
            expected[500] = "slow"
        assert strong(table, "ann") == expected
        lake.flush()
        assert strong(table, "ann") == eventual(table, "ann") == expected
        assert strong(table, "bob") == {1: "late 2"}
        assert lake.pending() == []
        assert log_files(lake) == []
