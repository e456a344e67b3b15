"""Durable appends, beside the least that durability costs on this disk, and from many threads at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from benchmarks import data
from benchmarks.measuring.page import Section, Table
from benchmarks.measuring.scale import Scale
from benchmarks.measuring.timing import percentile, quiet_seconds, seconds
from lakewarden.client import Lakehouse


def run(scale: Scale, place: Path) -> Section:
    section = Section("write", scale.name)
    with Lakehouse.open(str(place / "single")) as lake:
        section.tables.append(_single(scale, lake, place))
    with Lakehouse.open(str(place / "together")) as lake:
        section.tables.append(_together(scale, lake))
    with Lakehouse.open(str(place / "bulk")) as lake:
        section.tables.append(_bulk(scale, lake))
    return section


def _single(scale: Scale, lake: Lakehouse, place: Path) -> Table:
    """In alternation: an append, then the same bytes the plain ways."""
    events = data.create(lake)
    plain = place / "plain"
    plain.mkdir()
    taken: dict[str, list[float]] = {"append": [], "rename": [], "rename and directory": []}
    size = 0
    for number in range(scale.appends):
        row = data.rows(["u"], number, 1).drop_columns(["user"]).to_pylist()
        taken["append"].append(seconds(events.write, row, user="u"))
        body = _newest_segment(place / "single", events.table.log_id, number).read_bytes()
        size = len(body)
        for name, whole in (("rename", False), ("rename and directory", True)):
            taken[name].append(seconds(_write, plain, f"{name}-{number}", body, whole))
    ours = taken["append"]
    said = (
        f"{scale.appends:,} single-row appends in alternation with fsync-and-rename of the same {size:,} bytes. "
        "Ours validates the row, takes the next position of the log and syncs file and directory. Target: at most 3 times."
    )
    lines = [
        _line("ours: `write` of one row", ours, ours),
        _line("fsync and rename", taken["rename"], ours),
        _line("fsync and rename, then fsync of the directory", taken["rename and directory"], ours),
    ]
    return Table(said, ("what", "p50", "p99", "ours is, p50", "ours is, p99"), lines)


def _line(name: str, taken: list[float], ours: list[float]) -> tuple[str, ...]:
    figures = [(percentile(taken, percent), percentile(ours, percent)) for percent in (50, 99)]
    return (name, *(f"{1000 * one:.2f} ms" for one, _ in figures), *(f"{mine / one:.1f} times" for one, mine in figures))


def _newest_segment(warehouse: Path, log_id: str, position: int) -> Path:
    return warehouse / "_lakewarden" / "log" / log_id / "segments" / f"{position:020d}"


def _write(directory: Path, name: str, body: bytes, whole: bool) -> None:
    part = directory / f"{name}.part"
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        os.write(descriptor, body)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    part.rename(directory / name)
    if whole:
        _sync_directory(directory)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _together(scale: Scale, lake: Lakehouse) -> Table:
    events = data.create(lake)
    given = data.rows(["u"], 0, 1).drop_columns(["user"]).to_pylist()[0]
    each = max(2, scale.appends // 10)
    values = f"'login', 1.25, 'a note on an event', '{given['at']:%Y-%m-%d %H:%M:%S}'"

    def through_one(number: int) -> object:
        return events.write([{**given, "id": number}], user="u")

    def through_its_own(number: int) -> object:
        return lake.table(data.TABLE).write([{**given, "id": number}], user="u")

    def through_sql(number: int) -> object:
        return lake.sql(f"INSERT INTO {data.TABLE} VALUES ({number}, {values})", user=f"sql-{number % 16}")  # noqa: S608  # our own words

    lines = [
        _crowd(lake, "`write` of one row, one thread", 1, each, through_one),
        _crowd(lake, "`write` of one row, 32 threads with one client", 32, each, through_one),
        _crowd(lake, "`lake.table(…).write` of one row, 16 threads", 16, each, through_its_own),
    ]
    lake.flush()  # each INSERT lists what is in the log
    lines.append(_crowd(lake, "`INSERT` of one row, 16 threads, a user each", 16, max(2, each // 8), through_sql))
    said = (
        "Calls that come together share a segment, however they got hold of the table. CPU is this process's, user and system. "
        "Targets: at most 0.32 ms of CPU a row, and 2,500 rows a second with 32 threads."
    )
    return Table(said, ("what", "rows a second", "CPU a row", "rows a segment"), lines)


def _crowd(lake: Lakehouse, what: str, threads: int, each: int, write: Callable[[int], object]) -> tuple[str, ...]:
    """So many calls of each thread; their numbers modulo the threads are the thread's."""
    write(-threads)  # opens what is opened once
    before, began, worked = _segments(lake), perf_counter(), process_time()
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(lambda at: [write(at + threads * n) for n in range(each)], at) for at in range(threads)]:
            done.result()
    taken, cpu, rows = perf_counter() - began, process_time() - worked, threads * each
    return (what, f"{rows / taken:,.0f}", f"{1000 * cpu / rows:.2f} ms", f"{rows / (_segments(lake) - before):.1f}")


def _segments(lake: Lakehouse) -> int:
    """How many positions of the log are taken."""
    return lake.table(data.TABLE).log.view().last_position


def _bulk(scale: Scale, lake: Lakehouse) -> Table:
    events = data.create(lake)
    users = data.users(scale.bulk_users)
    each = scale.bulk_rows // scale.bulk_users
    batches = [data.rows(users, each * turn, each) for turn in range(3)]
    taken = [quiet_seconds(events.write, batch, user_column="user") for batch in batches]
    count = each * scale.bulk_users
    return Table(
        f"One call of `write` with {count:,} rows of {scale.bulk_users:,} users, from an Arrow table; the median of three.",
        ("rows", "time", "rows a second"),
        [(f"{count:,}", f"{median(taken):.2f} s", f"{count / median(taken):,.0f}")],
    )
