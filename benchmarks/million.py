"""Measures a write of very many users in one call, what then reads the log, and flushes of few scopes among very many.

Most of the registered scopes have no table: they are registered, and noted in the state as a flush would have noted them.
Each figure is of a process of its own: its processor time, and its peak of memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import copytree
from statistics import median

from benchmarks import data, quiet
from benchmarks.measuring.memory import peak_bytes
from benchmarks.measuring.page import Section, Table
from benchmarks.measuring.scale import Scale
from lakewarden.base.setting_sections import FlushSettings, LogSettings
from lakewarden.base.settings import Settings
from lakewarden.client import Lakehouse
from lakewarden.client.fleet_page import fleet_page
from lakewarden.tables.client import TableClient

_ONE_SEGMENT = Settings(log=LogSettings(segment_max_rows=1 << 20, segment_max_bytes=1 << 32))
_FLUSH = Settings(flush=FlushSettings(in_process_below=1 << 20))
_DIRTY = 100
_TURNS = 5
_ROWS = 20


def run(scale: Scale, place: Path) -> Section:
    section = Section("million", scale.name)
    few, many = 1, scale.quiet[-1]
    for users in (few, many):
        measured("fill", str(place / f"one-segment-{users}"), users)
    lines = [("`write` of all in one call", "write"), ("`pending`", "pending"), ("`due`, none is", "due")]
    lines += [("strong read of one user", "read"), ("flush of one user", "flush_one")]
    section.tables.append(
        Table(
            f"Users with a row each, of one call. Targets: {many:,} users are written in under 5 s and 600 MB, `pending` and"
            " `due` in under a second and 300 MB; a strong read and a flush of one user at most 3 times those of the only one.",
            ("what", f"{few} user", "peak of memory", f"{many:,} users", "peak of memory", "times"),
            [_line(said, what, place, few, many) for said, what in lines],
        )
    )
    dirty = min(_DIRTY, many // 2)
    registered = (dirty, many)
    for scopes in registered:
        quiet.make(str(place / f"registered-{scopes}"), scopes)
    # Before the flushes, which leave a note beside those of all: a look joins them. And on copies, since it keeps what it found.
    looks = [copytree(place / f"registered-{many}", place / f"look-{number}") for number in range(3)]
    # The least: memory that a process gets first costs a virtual machine as much again.
    (looked, peak), (hashed, _) = (min(measured(what, str(look), many) for look in looks) for what in ("page", "hashes"))
    found = [measured("flush_few", str(place / f"registered-{scopes}"), dirty) for scopes in registered]
    section.tables.append(
        Table(
            f"A flush of {dirty} scopes that have tables, {_ROWS} rows each, the median of {_TURNS} in one process; so many"
            " other scopes are registered, and noted in the state, without tables. Target: at most 1.3 times.",
            ("what", *(f"{scopes:,} registered" for scopes in registered), "times"),
            [("processor time", *(f"{1000 * taken:.0f} ms" for taken, _ in found), f"{found[1][0] / found[0][0]:.2f}")],
        )
    )
    section.tables.append(
        Table(
            "The page of these scopes, of which no look was kept before, beside the keyed hashes of their users alone, which it"
            " needs to know the erased ones. Target: at most twice.",
            ("what", "page", "peak of memory", "hashes", "times"),
            [
                (
                    "processor time",
                    f"{1000 * looked:,.1f} ms",
                    f"{peak:.0f} MB",
                    f"{1000 * hashed:,.2f} ms",
                    f"{looked / hashed:.1f}",
                )
            ],
        )
    )
    return section


def _line(said: str, what: str, place: Path, few: int, many: int) -> tuple[str, ...]:
    found = [
        measured(what, str(place / f"{'written' if what == 'write' else 'one-segment'}-{users}"), users) for users in (few, many)
    ]
    figures = [text for taken, peak in found for text in (f"{1000 * taken:,.1f} ms", f"{peak:.0f} MB")]
    return said, *figures, f"{found[1][0] / found[0][0]:.1f}"


def measured(what: str, uri: str, users: int) -> tuple[float, float]:
    """Seconds of processor time, and the most megabytes of the process; without those of opening and of making the rows."""
    code = f"from benchmarks.million import once; once({what!r}, {uri!r}, {users})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, megabytes = json.loads(done.stdout.splitlines()[-1])
    return seconds, megabytes


def once(what: str, uri: str, users: int) -> None:
    """Does one thing, and prints its seconds and the peak of memory as JSON."""
    settings = {"fill": _ONE_SEGMENT, "flush_one": _FLUSH, "flush_few": _FLUSH}.get(what)
    doing: dict[str, Callable[[Lakehouse, int], list[float]]] = {
        "fill": _write,
        "write": _write,
        "pending": _pending,
        "due": _due,
        "read": _read,
        "flush_one": _flush_one,
        "flush_few": _flush_few,
        "page": _page,
        "hashes": _hashes,
    }
    with Lakehouse.open(uri, settings=settings) as lake:
        taken = doing[what](lake, users)
    print(json.dumps([median(taken), peak_bytes() / (1 << 20)]))


def _write(lake: Lakehouse, users: int) -> list[float]:
    events, rows = data.create(lake), data.rows_of_each(users)
    return [_seconds(lambda: events.write(rows, user_column="user"))]


def _pending(lake: Lakehouse, users: int) -> list[float]:
    return [_seconds(lambda: _check(len(lake.pending()) == users))]


def _due(lake: Lakehouse, _users: int) -> list[float]:
    return [_seconds(lambda: _check(not lake.due()))]


def _read(lake: Lakehouse, users: int) -> list[float]:
    events = lake.table(data.TABLE)
    names = [data.user_name(number * 7919 % users) for number in range(1 + _TURNS)]
    return [_seconds(partial(_read_one, events, name)) for name in names][1:]


def _flush_one(lake: Lakehouse, users: int) -> list[float]:
    """The only one writes again before each."""
    found = []
    for turn in range(1 + _TURNS):
        name = data.user_name(turn * 7919 % users)
        if users == 1 and turn:
            lake.table(data.TABLE).write(data.rows([name], turn, 1).drop_columns(["user"]), user=name)
        found.append(_seconds(partial(_flush_of, lake, name)))
    return found[1:]


def _read_one(events: TableClient, name: str) -> None:
    _check(events.read(user=name).num_rows == 1)


def _flush_of(lake: Lakehouse, name: str) -> None:
    _check(lake.flush(user=name)[0].outcome == "done")


def _flush_few(lake: Lakehouse, dirty: int) -> list[float]:
    events, names, found = lake.table(data.TABLE), [f"dirty-{number}" for number in range(dirty)], []
    for turn in range(1 + _TURNS):
        events.write(data.rows(names, turn * _ROWS, _ROWS), user_column="user")
        found.append(_seconds(lambda: _check(sum(report.outcome == "done" for report in lake.flush()) == dirty)))
    return found[1:]


def _check(right: bool) -> None:
    assert right


def _seconds(do: Callable[[], object]) -> float:
    begun = time.process_time()
    do()
    return time.process_time() - begun


def _page(lake: Lakehouse, _users: int) -> list[float]:
    return [_seconds(lambda: _check("all well" in fleet_page(lake.fleet())))]


def _hashes(lake: Lakehouse, users: int) -> list[float]:
    names = data.users(users)
    return [_seconds(lambda: _check(bool(lake.warehouse.erasures.marks(names))))]
