"""Every operation under every fault of the store: what was acknowledged is there once, after the plain same again.

`LAKEWARDEN_FAULTS` says how often each pair of an operation and a fault is tried; `make torture` takes 25, `make test` one.
A failure names its seed: `LAKEWARDEN_FAULT_SEED=<seed>` begins there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from lakewarden import Lakehouse
from lakewarden.clock import random_id
from lakewarden.errors import LakewardenError, Transient
from lakewarden.report import ScopeReport
from lakewarden.settings import CompactionSettings, Settings
from tests.fixtures.bucket import path_of
from tests.fixtures.lakes import NOTES, check_manifest, cold_seqs, eventual, hot_ids, log_files, make_notes, notes, strong
from tests.fixtures.minio import Machine, drive
from tests.fixtures.mounts import tmpfs
from tests.fixtures.proxy import Fault, Proxy, Weather, proxy_of

_ROUNDS = int(os.environ.get("LAKEWARDEN_FAULTS", "1"))
_FIRST_SEED = int(os.environ.get("LAKEWARDEN_FAULT_SEED", "1"))
_SETTINGS = Settings(compaction=CompactionSettings(min_eligible_segments=2))
_WHO = "ann"
_BEFORE = {1: "c", 2: "b", 11: "d", 21: "e", 31: "f"}
_HOT = {41: "hot"}
_ALL = _BEFORE | _HOT
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
def _pointed(environment: dict[str, str]) -> Iterator[None]:
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


def _check_codes(outcome: Outcome, seed: int, *, transient: bool = True) -> None:
    for code, again in outcome.codes():
        assert code in {"STORAGE_UNAVAILABLE", "CONFLICT"}, f"seed {seed}: {outcome}"
        assert again or not transient, f"seed {seed}: {outcome} is said to be in vain to try again"


def _check_again(lake: Lakehouse, operation: Operation, seed: int) -> None:
    """The fault is over: the plain same again does it, and nothing is lost, doubled, or left in the way."""
    again = _tried(lake, operation.work)
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
    wrong = [finding for finding in lake.check() if not finding.passed and finding.check != "no_orphans"]
    assert wrong == [], f"seed {seed}"


# Faults of requests

_FAULTS: dict[str, tuple[tuple[Fault, ...], float]] = {
    "errors": (("error", "reset"), 0.15),
    "lost answers": (("lost", "lost-error"), 0.15),
    "slow": (("slow",), 0.2),
    "cut": (("cut", "cut-request"), 0.15),
    "everything": (("error", "reset", "lost", "lost-error", "slow", "cut", "cut-request"), 0.4),
}


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with drive() as machine:
        yield machine


@pytest.fixture(scope="module")
def proxy(machine: Machine) -> Iterator[Proxy]:
    with machine.running() as server, proxy_of(server.endpoint) as proxy:
        environment = server.environment | {"AWS_ENDPOINT_URL": proxy.endpoint}
        with _pointed(environment):
            yield proxy


@pytest.mark.minio
@pytest.mark.parametrize("name", _OPERATIONS)
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
