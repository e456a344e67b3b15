"""How long a row waits for its flush under `lakewarden ui`, and what an idle daemon costs: on this commit and on an earlier one.

    python -m benchmarks.deployment.latency ../before [--flushes 20] [--idle 600]

Both serve a warehouse of their own at the same time, so that what else the machine does slows both. Each row is due as it is
written (`FLUSH_POLICY = 'rows:1'`), and the next one comes at a random moment after the commit of the one before. Then, processor
time of the daemon and the code server while nothing happens. Rewrites docs/performance.md if it is twenty flushes; prints its
tables in any case.
"""

import argparse
import itertools
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import dagster as dg
import psutil

from benchmarks.__main__ import PAGE
from benchmarks.measuring.page import Section, Table, rewrite
from benchmarks.measuring.timing import spread
from lakewarden.catalog.evolution import SetOptions
from lakewarden.cli.dagster_home import SETTINGS, with_moved_modules
from lakewarden.client import Lakehouse
from tests.fixtures.chat import MESSAGES, make_chat, write
from tests.fixtures.servers import free_port

PARTS = ("until the tick", "until a run is made", "in the queue", "until its process runs", "until its step", "the flush")
_FULL = 20
_SETTLES = 75.0
"""Seconds behind the last flush after which the run's other work, such as its checks, is done."""
_WITHIN = 600.0
_PAUSE = 20.0
_READ_BY = "benchmark.yaml"


@dataclass(frozen=True)
class Flush:
    """Seconds from a row to its commit, and their parts."""

    whole: float
    parts: tuple[float, ...]


@dataclass(frozen=True)
class Found:
    """Of a commit: its flushes, and the processor's seconds in an idle hour, by process."""

    flushes: Sequence[Flush]
    idle: Mapping[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deployment.latency")
    parser.add_argument("before", type=Path)
    parser.add_argument("--flushes", type=int, default=_FULL)
    parser.add_argument("--idle", type=float, default=600.0)
    taken = parser.parse_args()
    section = Section("latency", "full" if taken.flushes == _FULL else f"of {taken.flushes} flushes")
    checkouts = {"before": taken.before.resolve(), "now": Path(__file__).parents[2]}
    found: dict[str, Found] = {}

    def side(name: str, checkout: Path, place: Path) -> None:
        with _served(checkout, place) as served:
            found[name] = Found(served.flushes(taken.flushes), served.idle(taken.idle))

    with tempfile.TemporaryDirectory(prefix="lakewarden-latency-") as root:
        sides = [threading.Thread(target=side, args=(name, at, Path(root) / name)) for name, at in checkouts.items()]
        for thread in sides:
            thread.start()
        for thread in sides:
            thread.join()
    section.tables.extend(_tables(found, taken.flushes, taken.idle))
    now = datetime.now(UTC)
    sys.stdout.write(section.text(now) + "\n")
    if taken.flushes == _FULL:
        rewrite(PAGE, section, now)


def _tables(found: Mapping[str, Found], flushes: int, idle: float) -> Iterator[Table]:
    before, now = found["before"].flushes, found["now"].flushes
    wholes = [spread([flush.whole for flush in side]) for side in (before, now)]
    parts = [
        (name, *(f"{median(flush.parts[at] for flush in side):.1f} s" for side in (before, now))) for at, name in enumerate(PARTS)
    ]
    yield Table(
        f"From a row that another process writes, and that is due at once, until it is in its Delta table: the median of"
        f" {flushes} rows with the extremes, and the medians of the parts. Both commits at the same time. Target: at most 25 s.",
        ("", "before", "now"),
        [("from a row to its commit", *wholes), *parts],
    )
    spent = [(name, f"{found['before'].idle[name]:.0f} s", f"{found['now'].idle[name]:.0f} s") for name in found["now"].idle]
    yield Table(
        f"Processor time of an idle hour, measured in {idle:.0f} s. Target: no more than before.",
        ("process", "before", "now"),
        spent,
    )


@dataclass(frozen=True)
class _Served:
    """A warehouse that a `lakewarden ui` serves."""

    lake: str
    instance: dg.DagsterInstance
    ui: psutil.Process

    def flushes(self, count: int) -> list[Flush]:
        self._flush(0)  # the first one fills caches
        found = []
        for number in range(1, count + 1):
            time.sleep(random.uniform(0, _PAUSE))
            found.append(self._flush(number))
        return found

    def _flush(self, number: int) -> Flush:
        log = Path(self.lake, "data/chat/messages/ada/_delta_log")
        before = set(log.glob("*.json"))
        write(self.lake, "ada", 1_000 + number)
        written, deadline = time.time(), time.monotonic() + _WITHIN
        while not (fresh := set(log.glob("*.json")) - before):
            assert time.monotonic() < deadline, f"{self.lake} has not been flushed"
            time.sleep(0.05)
        committed = min(path.stat().st_mtime for path in fresh)
        return Flush(committed - written, tuple(self._parts(written, committed)))

    def _parts(self, written: float, committed: float) -> Iterator[float]:
        records = self.instance.get_run_records(dg.RunsFilter(job_name="flush_job"), limit=5)
        run = next(one for one in records if _utc(one.create_timestamp) < committed)
        logs = self.instance.all_logs(run.dagster_run.run_id)
        events = {one.get_dagster_event().event_type: one.timestamp for one in reversed(list(logs)) if one.is_dagster_event}
        states = [state for state in self.instance.all_instigator_state() if state.name == "flush_sensor"]
        ticks = [
            tick.timestamp
            for state in states
            for tick in self.instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=5)
        ]
        kinds = dg.DagsterEventType
        created = _utc(run.create_timestamp)
        tick = max(tick for tick in ticks if tick <= created)
        dequeued, started = events[kinds.PIPELINE_STARTING], events[kinds.PIPELINE_START]
        moments = (written, tick, created, dequeued, started, events[kinds.STEP_START], committed)
        yield from (later - earlier for earlier, later in itertools.pairwise(moments))

    def idle(self, seconds: float) -> dict[str, float]:
        """The processor's seconds of an hour, by process."""
        time.sleep(_SETTLES)
        before, began = self._spent(), time.monotonic()
        time.sleep(seconds)
        hour = 3_600 / (time.monotonic() - began)
        return {name: (spent - before[name]) * hour for name, spent in self._spent().items()}

    def _spent(self) -> dict[str, float]:
        spent = dict.fromkeys(("daemon", "code server", "its proxy"), 0.0)
        for process in self.ui.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                name, times = _kind(process.cmdline()), process.cpu_times()
                if name:
                    spent[name] += times.user + times.system
        return spent | {"both": spent["daemon"] + spent["code server"] + spent["its proxy"]}


def _utc(moment: datetime) -> float:
    return moment.replace(tzinfo=UTC).timestamp()


def _kind(command: Sequence[str]) -> str | None:
    """What a process of Dagster is."""
    said = " ".join(command)
    words = {"_daemon run": "daemon", "dagster._daemon": "daemon", "code-server start": "its proxy", "api grpc": "code server"}
    return next((name for part, name in words.items() if part in said), None)


@contextmanager
def _served(checkout: Path, place: Path) -> Iterator[_Served]:
    place.mkdir()
    lake, home = str(place / "lake"), place / "home"
    make_chat(lake)
    _due_at_once(lake)
    environment = {**os.environ, "PYTHONPATH": str(checkout), "DAGSTER_HOME": str(home)}
    program, port = str(checkout / ".venv" / "bin" / "lakewarden"), str(free_port())
    serving = [program, "ui", "--warehouse", lake, "--port", port, "--dagster-home", str(home)]
    with ExitStack() as stack:
        process = stack.enter_context(subprocess.Popen(serving, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True))
        stack.callback(process.terminate)
        assert process.stdout is not None
        while "Dagster is at" not in (line := process.stdout.readline()):
            assert line, "it did not start"
        yield _Served(lake, stack.enter_context(_instance(home)), psutil.Process(process.pid))


_ENVIRONMENT = threading.Lock()


@contextmanager
def _instance(home: Path) -> Iterator[dg.DagsterInstance]:
    with ExitStack() as stack:
        with _ENVIRONMENT:  # the settings name the variable
            os.environ["DAGSTER_HOME"] = str(home)
            # Beside the settings that serve: those of the earlier commit name modules where this one has them no more.
            (home / _READ_BY).write_text(with_moved_modules((home / SETTINGS).read_text()))
            instance = stack.enter_context(dg.DagsterInstance.from_config(str(home), _READ_BY))
        yield instance


def _due_at_once(uri: str) -> None:
    with Lakehouse.open(uri) as lake:
        lake.alter_table(MESSAGES, SetOptions({"FLUSH_POLICY": "rows:1"}))


if __name__ == "__main__":
    main()
