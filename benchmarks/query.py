"""Queries on one user's scope, beside DuckDB and delta-rs on the very same Delta table."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

import duckdb
from deltalake import DeltaTable, QueryBuilder

from benchmarks import data
from benchmarks.measuring.beside import always
from benchmarks.measuring.page import Section, Table
from benchmarks.measuring.scale import Scale
from benchmarks.measuring.timing import percentile, seconds, times
from lakewarden.base.scope import Scope, TableName
from lakewarden.base.setting_sections import SqlSettings
from lakewarden.base.settings import Settings
from lakewarden.client import Lakehouse
from lakewarden.errors import LakewardenError
from lakewarden.tables.freshness import Freshness

_USER = "u"
_THREADS = 16
HEAVY = {
    "a join that takes time": "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range % 7 = 1",
    "a text that takes memory": "SELECT length(replace(repeat('a', 30000), 'a', repeat('b', 100000)))",
}
_NAME = "events"
"""Of the table, for those that are given it under a name."""


@dataclass(frozen=True)
class _Query:
    """`sql` has `{table}` and `{middle}` where the table's name and the key of a row stand."""

    name: str
    sql: str


_QUERIES = (
    _Query("point look-up", "SELECT * FROM {table} WHERE id = {middle}"),
    _Query("count", "SELECT count(*) FROM {table}"),
    _Query("aggregate", 'SELECT kind, count(*), sum(amount), max("at") FROM {table} GROUP BY kind'),
)


def run(scale: Scale, place: Path) -> Section:
    section = Section("query", scale.name)
    with Lakehouse.open(str(place / "lake")) as lake:
        uri = _filled(lake, scale)
        section.tables.append(_side_by_side(lake, scale, uri))
        section.tables.append(_calls(lake, scale))
        section.tables.append(_in_workers(lake, scale))
    with Lakehouse.open(str(place / "lake"), settings=Settings(sql=SqlSettings(timeout_seconds=scale.query_heavy))) as lake:
        section.tables.append(_beside_heavy(lake, scale))
    with Lakehouse.open(str(place / "lake"), settings=Settings(sql=SqlSettings(cache_bytes=0))) as lake:
        section.tables.append(_side_by_side(lake, scale, uri, "The same where ours keeps no columns in memory."))
    return section


def _filled(lake: Lakehouse, scale: Scale) -> str:
    """Cold rows in one file, as a compacted scope has them, and hot ones of which half replace a cold one; the table's URI."""
    events = data.create(lake)
    cold, hot = scale.query_cold, scale.query_hot
    events.write(data.rows([_USER], 0, cold), user_column="user")
    lake.flush(data.TABLE)
    events.write(data.rows([_USER], cold - hot // 2, hot), user_column="user")
    return lake.warehouse.target(lake.warehouse.catalog.read(), Scope(TableName.parse(data.TABLE), _USER)).location.uri


def _side_by_side(lake: Lakehouse, scale: Scale, uri: str, said: str = "") -> Table:
    lines = []
    for query in _QUERIES:
        ways = _ways(lake, uri, query, scale.query_cold // 2)
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(scale.query_turns + 1):
            for name, way in ways.items():
                took = seconds(way)
                if turn:  # the first one pays for what is loaded once
                    taken[name].append(took)
        lines.append(_line(query, taken))
    said = said or (
        f"One session, {scale.query_turns} turns, each query in turn by every way; medians. The scope has {scale.query_cold:,} "
        f"cold rows and {scale.query_hot:,} hot ones, half of which replace a cold one. Ours looks whether the version that it "
        "read before is still the newest, keeps its columns in memory, and checks names and rights besides; strong reads see "
        "the hot rows, which the others do not. Those open the table each time. The floor is DuckDB on the one Parquet file, "
        "whose name it gets. Target: eventual at most 1.5 times, strong at most 2 times the quicker of DuckDB and delta-rs."
    )
    head = ("query", "eventual", "strong", "DuckDB on delta-rs", "delta-rs alone", "floor", "eventual is", "strong is")
    return Table(said, head, lines)


def _ways(lake: Lakehouse, uri: str, query: _Query, middle: int) -> dict[str, Callable[[], object]]:
    session = lake.session(user=_USER)
    ours = query.sql.format(table=data.TABLE, middle=middle)
    theirs = query.sql.format(table=_NAME, middle=middle)
    (file,) = DeltaTable(uri).file_uris()
    connection = duckdb.connect()
    floor = query.sql.format(table=f"read_parquet('{file}')", middle=middle)

    def sql(freshness: Freshness) -> Callable[[], object]:
        return lambda: session.sql(ours, freshness=freshness)

    def through_arrow() -> object:
        connection.register(_NAME, DeltaTable(uri).to_pyarrow_dataset())
        return connection.sql(theirs).to_arrow_table()

    def alone() -> object:
        return QueryBuilder().register(_NAME, DeltaTable(uri)).execute(theirs).read_all()

    def on_the_file() -> object:
        return connection.sql(floor).to_arrow_table()

    return {
        "eventual": sql("eventual"),
        "strong": sql("strong"),
        "arrow": through_arrow,
        "alone": alone,
        "floor": on_the_file,
    }


def _line(query: _Query, taken: dict[str, list[float]]) -> tuple[str, ...]:
    middle = {name: median(each) for name, each in taken.items()}
    quicker = min(middle["arrow"], middle["alone"])
    figures = [f"{1000 * middle[name]:.1f} ms" for name in taken]
    ratios = [f"{times(middle[name], quicker)} times" for name in ("eventual", "strong")]
    return (query.name, *figures, *ratios)


def _calls(lake: Lakehouse, scale: Scale) -> Table:
    """Short queries through `Lakehouse.sql`, which opens a session for each, beside sessions that are kept."""
    point = _QUERIES[0].sql.format(table=data.TABLE, middle=scale.query_cold // 2)
    lines = []
    for name, text in (("SELECT 1", "SELECT 1"), ("point look-up", point)):
        session = lake.session(user=_USER)
        kept = partial(session.sql, text)
        fresh = partial(lake.sql, text, user=_USER, role="user")
        figures = [_at_once(way, threads, scale.query_turns) for way in (kept, fresh) for threads in (1, _THREADS)]
        lines.append((name, *figures))
    said = (
        "Short queries, strong reads of the same scope: on one session that is kept, and by `Lakehouse.sql`, which opens a "
        f"session for each call; from one thread and from {_THREADS}, {scale.query_turns} calls a thread after one that does "
        "not count. Median of a call, and calls a second of all threads together. Target: `Lakehouse.sql` is as quick as a "
        "kept session."
    )
    ways = (f"{way}, {threads}" for way in ("kept session", "`Lakehouse.sql`") for threads in ("1 thread", f"{_THREADS} threads"))
    head = ("query", *ways)
    return Table(said, head, lines)


def _in_workers(lake: Lakehouse, scale: Scale) -> Table:
    """Another session's queries, beside the operator's own on the same scope, which run in this process."""
    ways = {
        "in process": lake.session(user="root", role="system").execute_as(_USER),
        "in a worker": lake.session(user=_USER),
    }
    lines = []
    for query in (_Query("SELECT 1", "SELECT 1"), *_QUERIES):
        text = query.sql.format(table=data.TABLE, middle=scale.query_cold // 2)
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(4 * scale.query_turns + 1):
            for name, session in ways.items():
                took = seconds(session.sql, text)
                if turn:  # the first one starts the worker
                    taken[name].append(took)
        middle = {name: median(each) for name, each in taken.items()}
        ratio = f"{middle['in a worker'] / middle['in process']:.2f} times"
        lines.append((query.name, *(f"{1000 * each:.2f} ms" for each in middle.values()), ratio))
    said = (
        "Queries in a worker process, where those of every session but the operator's run, and in process, in turns; medians of "
        f"{4 * scale.query_turns} after one that does not count. Target: at most 1.5 times."
    )
    return Table(said, ("query", *ways, "a worker is"), lines)


def _beside_heavy(lake: Lakehouse, scale: Scale) -> Table:
    """Short queries of one session, alone and while another session's statement takes all that it is given."""
    point = _QUERIES[0].sql.format(table=data.TABLE, middle=scale.query_cold // 2)
    lines = []
    for name, heavy in HEAVY.items():
        session = lake.session(user=_USER)
        alone, beside = [], []
        seconds(session.sql, point)
        for _ in range(4):
            alone += [seconds(session.sql, point) for _ in range(2 * scale.query_turns)]
            with always(partial(_refused, lake, heavy)):
                beside += [seconds(session.sql, point) for _ in range(2 * scale.query_turns)]
        high = percentile(alone, 95), percentile(beside, 95)
        lines.append(
            (
                name,
                *(f"{1000 * each:.1f} ms" for each in (*high, median(alone), median(beside))),
                f"{high[1] / high[0]:.1f} times",
            )
        )
    said = (
        f"Point look-ups of one session, {8 * scale.query_turns} alone and as many while another session sends the same heavy "
        f"statement again and again, each up to its limit of {scale.query_heavy:g} s. Target: p95 at most 3 times."
    )
    return Table(said, ("beside", "p95 alone", "p95 beside", "median alone", "median beside", "p95 is"), lines)


def _refused(lake: Lakehouse, text: str) -> None:
    with suppress(LakewardenError):
        lake.session(user="heavy").sql(text)


def _at_once(call: Callable[[], object], threads: int, turns: int) -> str:
    call()  # pays for what is loaded once

    def several(_: int) -> list[float]:
        return [seconds(call) for _ in range(turns)]

    with ThreadPoolExecutor(threads) as pool:
        start = perf_counter()
        taken = [each for found in pool.map(several, range(threads)) for each in found]
        whole = perf_counter() - start
    return f"{1000 * median(taken):.1f} ms, {len(taken) / whole:,.0f} a second"
