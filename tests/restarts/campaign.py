"""Restarts of `lakewarden ui` at random moments, while processes write: what is left, and how long runs were stuck.

python -m tests.restarts --seed 7 --restarts 10 --tenants 10000 --storage postgres
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import dagster as dg

from lakewarden.catalog.model import Column
from lakewarden.client import Lakehouse
from tests.fixtures.dagster import as_shipped
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.servers import free_port
from tests.fixtures.ui import Ui, ui
from tests.restarts.inspection import Found, acknowledged, inspect
from tests.restarts.writer import TABLE

STUCK_SECONDS = 120.0
"""The most that a run may stay without a process, from the moment that the next `ui` serves its pages."""

_SETTLES_WITHIN = 1_800.0
_SENSORS_LOOK_WITHIN = 60.0
_LOOK_EVERY = 1.0
_LOOK_AT_ALL_EVERY = 10.0
"""Seconds. A look at every tenant takes the processors from the flushes that it waits for."""
_ACTIVE = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
_OPEN = [*_ACTIVE, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.QUEUED]
_WRITERS = 2


@dataclass(frozen=True)
class Restart:
    """How `ui` ended, how many runs that left, and how long the last of them stayed active after the next start."""

    way: str
    after: float
    left: int
    stuck: float


@dataclass(frozen=True)
class Campaign:
    """A warehouse under load, in a directory of its own. The seed draws the moments and ways in which `ui` ends."""

    place: Path
    seed: int
    tenants: int
    longest: float
    """Seconds after which `ui` ends at the latest."""
    server: PostgresServer | None = None

    @property
    def warehouse(self) -> str:
        return str(self.place / "warehouse")

    @property
    def journals(self) -> list[Path]:
        return [self.place / f"journal-{number}" for number in range(_WRITERS + 1)]

    def run(self, restarts: int) -> Iterator[Restart | Found]:
        """Yields each restart, then what is left."""
        random = Random(self.seed)
        self._prepare()
        with as_shipped(self.place / "home", self.server) as instance:
            with self._writers(), ExitStack() as served:
                current = served.enter_context(self._ui())
                for _ in range(restarts):
                    after, way = random.uniform(1.0, self.longest), random.choice(["SIGINT", "SIGTERM", "SIGKILL"])
                    time.sleep(after)
                    left = _ids(instance, _ACTIVE)
                    _end(current, way)
                    served.close()
                    current = served.enter_context(self._ui())
                    yield Restart(way, after, len(left), _until(partial(_have_ended, instance, left)))
            with self._ui():
                settled = self._settles(instance)
            yield inspect(self.warehouse, instance, acknowledged(self.journals), settled=settled)

    def _prepare(self) -> None:
        """Every tenant has a row before the first start."""
        with Lakehouse.open(self.warehouse) as lake:
            lake.create_namespace(TABLE.split(".")[0])
            columns = [Column("id", "BIGINT"), Column("content", "TEXT")]
            options = {"FLUSH_POLICY": "rows:3,interval:30"}
            lake.create_table(TABLE, type="USER", columns=columns, primary_key=["id"], options=options)
        subprocess.run(self._writer(0, 0, self.tenants, once=True), check=True)

    @contextmanager
    def _writers(self) -> Iterator[None]:
        each = self.tenants // _WRITERS
        commands = [self._writer(number + 1, number * each, (number + 1) * each) for number in range(_WRITERS)]
        processes = [subprocess.Popen(command) for command in commands]
        try:
            yield
        finally:
            self._stop.touch()
            assert [process.wait() for process in processes] == [0] * _WRITERS

    def _writer(self, number: int, first: int, last: int, *, once: bool = False) -> list[str]:
        words = [self.warehouse, str(self.journals[number]), str(self._stop), str(self.seed + number), str(first), str(last)]
        return [sys.executable, "-m", "tests.restarts.writer", *words, *(["once"] if once else [])]

    @property
    def _stop(self) -> Path:
        return self.place / "stop"

    @contextmanager
    def _ui(self) -> Iterator[Ui]:
        with ui(self.warehouse, self.place / "home", free_port()) as started:
            yield started

    def _settles(self, instance: dg.DagsterInstance) -> bool:
        """Waits until all rows are flushed, and no run is left; tells whether that came in time."""
        with Lakehouse.open(self.warehouse) as lake, suppress(TimeoutError):
            for _ in range(2):  # once more, when the sensors have seen the runs that ended
                _until(lambda: not _ids(instance, _OPEN) and not lake.pending(), _LOOK_AT_ALL_EVERY)
                time.sleep(_SENSORS_LOOK_WITHIN)
            return True
        return False


def _ids(instance: dg.DagsterInstance, statuses: Sequence[dg.DagsterRunStatus]) -> frozenset[str]:
    return frozenset(run.run_id for run in instance.get_runs(dg.RunsFilter(statuses=list(statuses))))


def _have_ended(instance: dg.DagsterInstance, runs: frozenset[str]) -> bool:
    return not runs & _ids(instance, _ACTIVE)


def _end(served: Ui, way: str) -> None:
    served.process.send_signal(signal.Signals[way])
    served.process.wait()


def _until(done: Callable[[], bool], every: float = _LOOK_EVERY) -> float:
    """Waits, and returns for how many seconds.

    Raises:
        TimeoutError: nothing came of it.
    """
    start = time.monotonic()
    while not done():
        if time.monotonic() - start > _SETTLES_WITHIN:
            raise TimeoutError("runs or rows are stuck")
        time.sleep(every)
    return time.monotonic() - start
