"""Measures `compact`, `optimize`, `vacuum` and `plan` with nothing to do, over tables of very many scopes.

Most of those scopes do not exist: they are registered, and noted in the state as a flush would have noted them. Each
operation runs in a process of its own, which reports its processor time, its peak of memory, and its requests to the store.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import data
from benchmarks.page import Section, Table
from benchmarks.scale import Scale
from lakewarden.clock import system_clock, to_millis
from lakewarden.lakehouse import Lakehouse
from lakewarden.operations.upkeep.rules import Rules
from lakewarden.scope import TableName
from lakewarden.state.floors.entries import NEVER
from lakewarden.state.floors.floor import floor_at
from lakewarden.state.floors.known_scopes import SCHEMA, KnownScopes
from lakewarden.storage import local
from lakewarden.warehouse import find_table

OPERATIONS = ("compact", "optimize", "vacuum", "plan")
_FILES, _BYTES = 1, 4096


def run(scale: Scale, place: Path) -> Section:
    section = Section("quiet", scale.name)
    rows: list[tuple[str, ...]] = []
    for scopes in scale.quiet:
        uri = str(place / f"quiet-{scopes}")
        make(uri, scopes)
        measured("plan", uri)  # compares the users once
        for operation in OPERATIONS:
            found = measured(operation, uri)
            rows.append((operation, f"{scopes:,}", f"{found[0]:.2f} s", f"{found[1]:.0f} MB", f"{found[2]:.0f}"))
    head = ("operation", "scopes", "processor time", "peak of memory", "requests")
    section.tables.append(Table("Nothing to do. Target: at most 1.3 times from the fewest to the most.", head, rows))
    return section


def make(uri: str, scopes: int) -> None:
    """A table with so many registered scopes, all of them noted as quiet."""
    with Lakehouse.open(uri) as lake:
        data.create(lake)
        warehouse = lake.warehouse
        table = find_table(warehouse.catalog.read(), TableName.parse(data.TABLE))
        users = data.users(scopes)
        warehouse.registry.add(table.id, users)
        marks = np.sort(np.array([bytes.fromhex(warehouse.erasures.mark(user)) for user in users], "S16"))
        floor_at(warehouse.floor(table)).add(0, _quiet(marks, Rules.of(warehouse.settings), warehouse.target_file_size(table)))


def _quiet(marks: np.ndarray[tuple[int], np.dtype[np.bytes_]], rules: Rules, target_file_size: int) -> KnownScopes:
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
        "compacted": rules.compact(shared=False),
        "optimized": rules.optimize(target_file_size),
        "dead_since": NEVER,
        "log_since": NEVER,
    }
    hashes = pa.Array.from_buffers(SCHEMA.field("scope").type, len(marks), [None, pa.py_buffer(marks.tobytes())])
    numbers = {name: pa.array(np.full(len(marks), value)) for name, value in noted.items()}
    return KnownScopes(pa.table({"scope": hashes, "forgotten": pa.array(np.zeros(len(marks), np.bool_)), **numbers}))


def measured(operation: str, uri: str) -> tuple[float, float, float]:
    """Seconds of processor time, megabytes, requests; of a process of its own, from the open warehouse on."""
    code = f"from benchmarks.quiet import once; once({operation!r}, {uri!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, megabytes, requests = json.loads(done.stdout.splitlines()[-1])
    return seconds, megabytes, requests


def once(operation: str, uri: str) -> None:
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
    with Lakehouse.open(uri) as lake:
        requests, began = 0, time.process_time()
        reports = getattr(lake, operation)()
        taken = time.process_time() - began
    assert all(report.outcome == "skipped" for report in reports)
    print(json.dumps([taken, _peak(), requests]))


def _peak() -> float:
    """Megabytes; not `ru_maxrss`, which a process inherits from the one that started it."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024
