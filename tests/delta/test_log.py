"""The Delta log over many flushes: checkpoints, no loss of history, no growing cost; and races of many writers."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.reading.history import history
from lakewarden.errors import Conflict
from lakewarden.storage.steps import alone
from tests.delta.scopes import APP, PEOPLE, flush, hot, opened, paths, people, rows_of, table_of, target


@pytest.mark.slow
@pytest.mark.disk
def test_everything_survives_checkpoints(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    for number in range(25):
        flush(scope, people(number, 100 + number % 3, name=f"v{number}-"), first_seq=2 * number)
    names = {path.name for path in (tmp_path / "t" / "_delta_log").iterdir()}
    assert f"{19:020d}.checkpoint.parquet" in names
    assert {f"{version:020d}.json" for version in range(25)} < names
    assert (table_of(scope).version, table_of(scope).watermark(APP), table_of(scope).next_batch()) == (24, 49, 25)
    assert len(rows_of(scope)) == 28
    assert len(rows_of(scope, 0)) == 2
    assert [entry.version for entry in history(scope)] == list(range(24, -1, -1))


@pytest.mark.slow
def test_delta_rs_is_not_let_to_expire_the_log(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(0))
    DeltaTable(scope.uri).alter.set_table_properties({"delta.logRetentionDuration": "interval 0 seconds"})
    for number in range(1, 25):
        flush(scope, people(number), first_seq=number)
    assert len(history(scope)) == 26


def test_three_creators_at_once_leave_the_rows_once(tmp_path: Path) -> None:
    for round_ in range(10):
        scope = target(tmp_path / f"t{round_}")
        outcomes = _at_once(3, scope)
        assert outcomes.count("done") == 1
        assert len(rows_of(scope)) == 2
        assert len(paths(scope)) == 1


def _at_once(count: int, scope: ScopeTarget) -> list[str]:
    barrier = threading.Barrier(count)
    outcomes: list[str] = []

    def one() -> None:
        cold = opened(scope)
        barrier.wait()
        try:
            alone(cold.commit(hot(PEOPLE, people(1, 2)), 1))
            outcomes.append("done")
        except Conflict:
            outcomes.append("conflict")

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes
