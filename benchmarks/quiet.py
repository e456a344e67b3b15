"""Measures what there is to pay where nothing is to do, over tables of very many scopes.

Most of those scopes do not exist: they are registered, and noted in the state as a flush would have noted them. Each
operation runs in processes of its own, which report their processor time, their peak of memory, and their requests to the
store; sizes take turns, and medians count. A write comes last: from then on, something is pending.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from benchmarks import data
from benchmarks.measuring.memory import peak_bytes
from benchmarks.measuring.page import Section, Table
from benchmarks.measuring.scale import Scale
from lakewarden.base.clock import system_clock, to_millis
from lakewarden.base.scope import NOTHING, Scope, TableName
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.floor import floor_at
from lakewarden.catalog.state.floor_entries import AMOUNTS, NEVER, SCHEMA, KnownScopes
from lakewarden.catalog.target import ScopeTarget
from lakewarden.client import Lakehouse
from lakewarden.storage import local
from lakewarden.tables.upkeep_rules import FoldRule, PackRule
from lakewarden.tables.warehouse import find_table

TICKS = ("flush_sensor", "users_sensor")
_FILES, _BYTES = 1, 4096


@dataclass(frozen=True)
class Cost:
    """Of one run of an operation in a process of its own, from the open warehouse on."""

    seconds: float
    megabytes: float
    requests: int


def run(scale: Scale, place: Path) -> Section:
    section = Section("quiet", scale.name)
    uris = {scopes: str(place / f"quiet-{scopes}") for scopes in scale.quiet}
    for scopes, uri in uris.items():
        make(uri, scopes)
        for first in ("plan", "status", *TICKS):  # compares the users, adds up, and registers partitions: once
            measured(first, uri)
    found: dict[tuple[str, int], list[Cost]] = {}
    for operation in (*_OPERATIONS, *TICKS, "write"):
        for _ in range(scale.rounds):
            for scopes, uri in uris.items():
                found.setdefault((operation, scopes), []).append(measured(operation, uri))
    section.tables.append(_table(scale, found))
    return section


def _table(scale: Scale, found: Mapping[tuple[str, int], list[Cost]]) -> Table:
    rows: list[tuple[str, ...]] = []
    for operation in dict.fromkeys(operation for operation, _ in found):
        costs = [found[operation, scopes] for scopes in scale.quiet]
        seconds = [median(cost.seconds for cost in several) for several in costs]
        memory = [median(cost.megabytes for cost in several) for several in costs]
        requests = [f"{median(cost.requests for cost in several):.0f}" for several in costs]
        ratio = f"{seconds[-1] / seconds[0]:.2f}"
        rows.append(
            (operation, *(f"{one:.3f} s" for one in seconds), ratio, *requests, f"{memory[0]:.0f} MB", f"{memory[-1]:.0f} MB")
        )
    sizes = [f"{scopes:,}" for scopes in scale.quiet]
    few, many = sizes[0], sizes[-1]
    head = ("over so many scopes", *sizes, "times", *(f"requests, {size}" for size in sizes), f"memory, {few}", f"memory, {many}")
    said = (
        "Processor time, requests and peak of memory with nothing to do. Target: at most 1.3 times from the fewest to the most."
    )
    return Table(said, head, rows)


def make(uri: str, scopes: int) -> None:
    """A table with so many registered scopes, all of them noted as quiet."""
    with Lakehouse.open(uri) as lake:
        data.create(lake)
        warehouse = lake.warehouse
        table = find_table(warehouse.catalog.read(), TableName.parse(data.TABLE))
        users = data.users(scopes)
        warehouse.registry.add(table.id, users)
        marks = np.sort(np.array([bytes.fromhex(warehouse.erasures.mark(user)) for user in users], "S16"))
        target = warehouse.target(warehouse.catalog.read(), Scope(table.name, users[0]))
        floor_at(warehouse.floor(table)).add(NOTHING, _quiet(marks, target))  # as its log, which is empty


def _quiet(marks: np.ndarray[tuple[int], np.dtype[np.bytes_]], target: ScopeTarget) -> KnownScopes:
    now = to_millis(system_clock())
    noted = {
        "version": 0,
        "watermark": 0,
        "rows": 100,
        "deleted_upto": -1,
        "files": _FILES,
        "bytes": _BYTES,
        "committed_at": now,
        "operation": 1,
        "looked_at": now,
        "compacted": FoldRule(target.rules.tail).loosest.number,
        "optimized": PackRule(target.target_file_size, target.rules.min_gain).number,
        "dead_since": NEVER,
        "log_since": NEVER,
        **dict.fromkeys(AMOUNTS, 0),
    }
    hashes = pa.Array.from_buffers(SCHEMA.field("scope").type, len(marks), [None, pa.py_buffer(marks.tobytes())])
    numbers = {name: pa.array(np.full(len(marks), value), SCHEMA.field(name).type) for name, value in noted.items()}
    return KnownScopes(pa.table({"scope": hashes, "forgotten": pa.array(np.zeros(len(marks), np.bool_)), **numbers}))


def measured(operation: str, uri: str) -> Cost:
    """Runs the operation in a process of its own."""
    code = f"from benchmarks.quiet import once; once({operation!r}, {uri!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return Cost(*json.loads(done.stdout.splitlines()[-1]))


def once(operation: str, uri: str) -> None:
    """Prints what the operation cost this process, and checks that there was nothing to do."""
    requests = _counter()
    if operation in TICKS:
        with _tick(operation, uri) as act:
            cost = _measured(act, requests)
    else:
        with Lakehouse.open(uri) as lake:
            cost = _measured(lambda: _OPERATIONS.get(operation, _write)(lake), requests)
    print(json.dumps([cost.seconds, cost.megabytes, cost.requests]))


def _measured(act: Callable[[], bool], requests: Callable[[], int]) -> Cost:
    before, began = requests(), time.process_time()
    quiet = act()
    taken = time.process_time() - began
    assert quiet, "there was something to do"
    return Cost(taken, peak_bytes() / (1 << 20), requests() - before)


def _skipped(reports: list[ScopeReport]) -> bool:
    return all(report.outcome == "skipped" for report in reports)


def _write(lake: Lakehouse) -> bool:
    client = lake.table(data.TABLE)
    return client.write(data.rows([data.user_name(0)], 0, 1), user_column="user").rows == 1


_OPERATIONS: dict[str, Callable[[Lakehouse], bool]] = {
    "due": lambda lake: not lake.due(),
    "pending": lambda lake: not lake.pending(),
    "plan": lambda lake: _skipped(lake.plan()),
    "compact": lambda lake: _skipped(lake.compact()),
    "optimize": lambda lake: _skipped(lake.optimize()),
    "vacuum": lambda lake: _skipped(lake.vacuum()),
    "status": lambda lake: lake.overview().scopes == (),
    "check --quick": lambda lake: all(finding.passed for finding in lake.check(quick=True)),
}


@contextmanager
def _tick(name: str, uri: str) -> Iterator[Callable[[], bool]]:
    """One tick of a sensor, behind the one that left its cursor beside the warehouse."""
    import dagster as dg  # other operations need none of it

    from lakewarden.dagster.lakehouse import resources_of
    from lakewarden.dagster.mount import Mount
    from lakewarden.dagster.orchestration.sensors import build_sensors

    mount, kept = Mount(uri), Path(f"{uri}-{name}")
    (sensor,) = (one for one in build_sensors(mount) if one.name == name)
    cursor = None
    with suppress(FileNotFoundError):
        cursor = kept.read_text()

    def act() -> bool:
        found = sensor.evaluate_tick(context)
        kept.write_text(found.cursor or "")
        return cursor is None or not found.run_requests

    home = Path(f"{uri}-dagster")
    home.mkdir(exist_ok=True)
    with (
        dg.DagsterInstance.local_temp(str(home), overrides={"telemetry": {"enabled": False}}) as instance,
        dg.build_sensor_context(instance=instance, cursor=cursor, resources=resources_of(mount)) as context,
    ):
        yield act


def _counter() -> Callable[[], int]:
    """Counts the requests to the disk's object store from now on."""
    requests = 0

    def counted(name: str) -> None:
        plain = getattr(local.LocalObjects, name)

        def call(self: object, *given: object) -> object:
            nonlocal requests
            requests += 1
            return plain(self, *given)

        setattr(local.LocalObjects, name, call)

    for name in ("create", "put", "get", "get_range", "list", "delete"):
        counted(name)
    return lambda: requests
