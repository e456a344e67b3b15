"""Every operation under every fault of the store: what was acknowledged is there once, after the plain same again.

`LAKEWARDEN_FAULTS` says how often each pair of an operation and a fault is tried; `make torture` takes 25, `make test` one.
A failure names its seed: `LAKEWARDEN_FAULT_SEED=<seed>` begins there.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from lakewarden import Lakehouse
from lakewarden.base.clock import random_id
from lakewarden.base.setting_sections import CompactionSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import LakewardenError, Transient
from lakewarden.tables.client import TableClient
from tests.fixtures.gate import in_the_gate
from tests.fixtures.lakes import NOTES, check_manifest, cold_seqs, eventual, hot_ids, log_files, make_notes, notes, strong
from tests.fixtures.minio import Machine, MinioServer, drive
from tests.fixtures.mounts import tmpfs
from tests.fixtures.patience import PATIENCE
from tests.fixtures.proxy import Fault, Proxy, Weather, proxy_of

pytestmark = pytest.mark.slow

_ROUNDS = int(os.environ.get("LAKEWARDEN_FAULTS", "1"))
_FIRST_SEED = int(os.environ.get("LAKEWARDEN_FAULT_SEED", "1"))
_SETTINGS = Settings(compaction=CompactionSettings(min_eligible_segments=2))
_WHO = "ann"
_BEFORE = {1: "c", 2: "b", 11: "d", 21: "e", 31: "f"}
_HOT = {41: "hot"}
_ALL = _BEFORE | _HOT
_KEYS = range(100, 106)
_RESTORED = {1: "c", 2: "b"}

Work = Callable[[Lakehouse], list[ScopeReport]]


@dataclass(frozen=True)
class Operation:
    """What is done under the fault, and the rows of the table: after it, and after the next flush."""

    work: Work
    after: dict[int, str]
    flushed: dict[int, str]


_OPERATIONS = {
    "flush": Operation(lambda lake: lake.flush(NOTES), _ALL, _ALL),
    "compact": Operation(lambda lake: lake.compact(NOTES), _BEFORE, _ALL),
    "optimize": Operation(lambda lake: lake.optimize(NOTES, zorder=["id"]), _BEFORE, _ALL),
    "vacuum": Operation(lambda lake: lake.vacuum(NOTES, retain_hours=0, force=True, dry_run=False), _BEFORE, _ALL),
    "restore": Operation(lambda lake: lake.restore(NOTES, user=_WHO, version=1, dry_run=False), _RESTORED, _RESTORED),
}


@contextmanager
def pointed(environment: dict[str, str]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield


def _open(uri: str, *, hours: int = 0) -> Lakehouse:
    return Lakehouse.open(uri, settings=_SETTINGS, clock=lambda: datetime.now(UTC) + timedelta(hours=hours))


def _prepare(lake: Lakehouse) -> None:
    """Five versions, four live files and one that was replaced, and a pending row."""
    table = make_notes(lake)
    for upserts in ({1: "a", 2: "b"}, {1: "c"}, {11: "d"}, {21: "e"}, {31: "f"}):
        table.write(notes(upserts), user=_WHO)
        assert [report.fault for report in lake.flush()] == [None]
    table.write(notes(_HOT), user=_WHO)


@dataclass
class Outcome:
    """What became of the work: reports, or the error that it raised."""

    reports: Sequence[ScopeReport] = ()
    error: LakewardenError | None = None

    def codes(self) -> list[tuple[str, bool]]:
        """Code of each failure, and whether it says that trying again may help."""
        found = [(report.fault.code, report.fault.transient) for report in self.reports if report.fault]
        return [*found, (self.error.code, isinstance(self.error, Transient))] if self.error else found


def _tried(lake: Lakehouse, work: Work) -> Outcome:
    try:
        return Outcome(work(lake))
    except LakewardenError as error:
        return Outcome(error=error)


def _tried_until_asked(lake: Lakehouse, work: Work) -> Outcome:
    """As `_tried`, behind an outage: who waited for a store in vain keeps the others of this process from asking for some
    seconds more (decision 131)."""
    end = time.monotonic() + PATIENCE
    while (outcome := _tried(lake, work)).codes() == [("STORAGE_UNAVAILABLE", True)] and time.monotonic() < end:
        time.sleep(0.5)
    return outcome


def _check_codes(outcome: Outcome, seed: int, *, transient: bool = True) -> None:
    for code, again in outcome.codes():
        assert code in {"STORAGE_UNAVAILABLE", "CONFLICT"}, f"seed {seed}: {outcome}"
        assert again or not transient, f"seed {seed}: {outcome} is said to be in vain to try again"


def _check_again(lake: Lakehouse, operation: Operation, seed: int, tried: Callable[[Lakehouse, Work], Outcome] = _tried) -> None:
    """The fault is over: the plain same again does it, and nothing is lost, doubled, or left in the way."""
    again = tried(lake, operation.work)
    assert not again.codes(), f"seed {seed}: {again}"
    table = lake.table(NOTES)
    assert eventual(table, _WHO) == operation.after, f"seed {seed}"
    assert strong(table, _WHO) == operation.flushed, f"seed {seed}"
    table.write(notes({1: "last"}), user=_WHO)  # what a cleanup left goes with the next one
    assert [report.fault for report in lake.flush()] == [None], f"seed {seed}"
    expected = operation.flushed | {1: "last"}
    assert strong(table, _WHO) == eventual(table, _WHO) == expected, f"seed {seed}"
    assert set(cold_seqs(lake, _WHO)) == set(expected), f"seed {seed}"
    assert (lake.pending(), log_files(lake)) == ([], []), f"seed {seed}"
    check_manifest(lake, _WHO)
    wrong = [finding for finding in lake.check() if not finding.passed]
    assert wrong == [], f"seed {seed}"


# Faults of requests

_FAULTS: dict[str, tuple[tuple[Fault, ...], float]] = {
    "errors": (("error", "reset"), 0.1),
    "lost answers": (("lost", "lost-error"), 0.1),
    "slow": (("slow",), 0.2),
    "cut": (("cut", "cut-request"), 0.1),
    "everything": (("error", "reset", "lost", "lost-error", "slow", "cut", "cut-request"), 0.3),
}


@pytest.fixture(scope="module")
def machine(minio: MinioServer) -> Iterator[Machine]:  # noqa: ARG001  # the session's first: the environment goes back to it
    with drive() as machine:
        yield machine


@pytest.fixture(scope="module")
def proxy(machine: Machine) -> Iterator[Proxy]:
    with machine.running() as server, proxy_of(server.endpoint) as proxy:
        environment = server.environment | {"AWS_ENDPOINT_URL": proxy.endpoint}
        with pointed(environment):
            yield proxy


@pytest.mark.covering
@pytest.mark.minio
@pytest.mark.parametrize("name", in_the_gate(_OPERATIONS, "flush", "optimize"))
@pytest.mark.parametrize("fault", _FAULTS)
def test_an_operation_whose_requests_fail(proxy: Proxy, fault: str, name: str) -> None:
    operation = _OPERATIONS[name]
    for seed in range(_FIRST_SEED, _FIRST_SEED + _ROUNDS):
        with _open(f"s3://lake/{random_id()}") as lake:
            _prepare(lake)
            with proxy.under(Weather(*_FAULTS[fault], seed=seed)):
                outcome = _tried(lake, operation.work)
            _check_codes(outcome, seed)
            _check_again(lake, operation, seed)


@pytest.mark.minio
@pytest.mark.parametrize("fault", _FAULTS)
def test_writes_whose_requests_fail(proxy: Proxy, fault: str) -> None:
    for seed in range(_FIRST_SEED, _FIRST_SEED + _ROUNDS):
        with _open(f"s3://lake/{random_id()}") as lake:
            table = make_notes(lake)
            with proxy.under(Weather(*_FAULTS[fault], seed=seed)):
                refused = _write_some(table, seed)
            _check_writes(lake, refused, seed)


def _write_some(table: TableClient, seed: int) -> set[int]:
    """The keys whose writes raised."""
    refused = set()
    for key in _KEYS:
        try:
            table.write(notes({key: f"row {key}"}), user=_WHO)
        except LakewardenError as error:
            _check_codes(Outcome(error=error), seed)
            refused.add(key)
    return refused


def _check_writes(lake: Lakehouse, refused: set[int], seed: int) -> None:
    table = lake.table(NOTES)
    there = hot_ids(table, _WHO)
    assert len(there) == len(set(there)), f"seed {seed}: a row was taken twice"
    assert set(_KEYS) - refused <= set(there), f"seed {seed}: an acknowledged row is lost"
    for key in refused:
        table.write(notes({key: f"row {key}"}), user=_WHO)
    # A request of the other client that the killed server left waiting may be given up only now.
    flushed = _tried_until_asked(lake, Lakehouse.flush)
    assert flushed.error is None, f"seed {seed}"
    assert [report.fault for report in flushed.reports] == [None], f"seed {seed}"
    assert strong(table, _WHO) == eventual(table, _WHO) == {key: f"row {key}" for key in _KEYS}, f"seed {seed}"
    assert set(cold_seqs(lake, _WHO)) == set(_KEYS), f"seed {seed}"


@pytest.mark.covering
@pytest.mark.minio
@pytest.mark.parametrize("fault", ["lost", "lost-error"])
@pytest.mark.parametrize("name", _OPERATIONS)
def test_a_commit_whose_answer_is_lost_counts(proxy: Proxy, name: str, fault: Fault) -> None:
    """The commit is there, so the operation is done: none says that it lost a race to itself."""
    operation = _OPERATIONS[name]
    with _open(f"s3://lake/{random_id()}") as lake:
        _prepare(lake)
        every_commit = Weather((fault,), 1, seed=0, only=r"PUT .*/_delta_log/\d+\.json")
        with proxy.under(every_commit):
            reports = operation.work(lake)
        assert every_commit.done > 0
        assert [report.outcome for report in reports] == ["done"], reports
        assert eventual(lake.table(NOTES), _WHO) == operation.after
        _check_again(lake, operation, 0)


# A server that dies, a disk that is full, clocks apart


@pytest.mark.minio
@pytest.mark.parametrize("name", in_the_gate(_OPERATIONS, "flush", "compact"))
def test_a_server_killed_and_started_again_in_mid_job(name: str) -> None:
    operation = _OPERATIONS[name]
    with drive() as machine:
        for seed in range(_FIRST_SEED, _FIRST_SEED + _ROUNDS):
            uri = f"s3://lake/{random_id()}"
            with ExitStack() as both:  # the environment stays while the server is away: the job goes on asking
                with machine.running(stop=signal.SIGKILL) as server:
                    both.enter_context(pointed(server.environment))
                    lake = both.enter_context(_open(uri))
                    _prepare(lake)
                    job = _Job(lake, operation.work)
                    job.start()
                    time.sleep(Random(seed).uniform(0, 0.15))
                with machine.running(), _open(uri) as again:
                    job.join(PATIENCE)
                    _check_codes(job.outcome, seed)
                    _check_again(again, operation, seed, _tried_until_asked)


@pytest.mark.minio
def test_writes_while_the_server_is_killed_and_started_again() -> None:
    with drive() as machine:
        for seed in range(_FIRST_SEED, _FIRST_SEED + _ROUNDS):
            uri = f"s3://lake/{random_id()}"
            refused: set[int] = set()

            def write(lake: Lakehouse, refused: set[int] = refused, seed: int = seed) -> list[ScopeReport]:
                refused |= _write_some(lake.table(NOTES), seed)
                return []

            with ExitStack() as both:
                with machine.running(stop=signal.SIGKILL) as server:
                    both.enter_context(pointed(server.environment))
                    lake = both.enter_context(_open(uri))
                    make_notes(lake)
                    job = _Job(lake, write)
                    job.start()
                    time.sleep(Random(seed).uniform(0, 0.05))
                with machine.running(), _open(uri) as again:
                    job.join(PATIENCE)
                    _check_codes(job.outcome, seed)
                    _check_writes(again, refused, seed)


class _Job(threading.Thread):
    """The work beside the test, which meanwhile kills the server."""

    def __init__(self, lake: Lakehouse, work: Work) -> None:
        super().__init__(daemon=True)
        self._lake, self._work = lake, work
        self.outcome = Outcome()

    def run(self) -> None:
        self.outcome = _tried(self._lake, self._work)


@pytest.mark.disk
@pytest.mark.parametrize("name", _OPERATIONS)
def test_a_disk_that_is_full(tmp_path: Path, name: str) -> None:
    operation = _OPERATIONS[name]
    with tmpfs(tmp_path / "disk", "size=4m") as disk:
        for seed in range(_FIRST_SEED, _FIRST_SEED + _ROUNDS):
            with _open(str(disk / f"lake{seed}")) as lake:
                _prepare(lake)
                filler = disk / "filler"
                _fill(filler, leave=Random(seed).randrange(0, 40_000, 4096))
                outcome = _tried(lake, operation.work)
                refused = _tried(lake, _write_much)
                filler.unlink()
                _check_codes(outcome, seed, transient=False)
                assert refused.codes() == [("STORAGE_UNAVAILABLE", False)], f"seed {seed}: {refused}"
                _check_again(lake, operation, seed)
            shutil.rmtree(disk / f"lake{seed}")


def _write_much(lake: Lakehouse) -> list[ScopeReport]:
    """More than a full disk takes."""
    lake.table(NOTES).write(notes({999: "x" * 100_000}), user=_WHO)
    return []


def _fill(filler: Path, leave: int) -> None:
    free = shutil.disk_usage(filler.parent).free
    filler.write_bytes(bytes(max(0, free - leave)))


@pytest.mark.covering
@pytest.mark.both_stores
@pytest.mark.parametrize("name", _OPERATIONS)
@pytest.mark.parametrize("hours", [-1, 1])
def test_clocks_an_hour_apart(warehouse_uri: str, name: str, hours: int) -> None:
    operation = _OPERATIONS[name]
    with _open(warehouse_uri) as lake, _open(warehouse_uri, hours=hours) as other:
        _prepare(lake)
        other.table(NOTES).write(notes({1: "c"}), user=_WHO)
        other.table(NOTES).write(notes(_HOT), user=_WHO)
        assert not _tried(other, operation.work).codes()
        _check_again(lake, operation, 0)
