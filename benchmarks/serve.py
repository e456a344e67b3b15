"""`lakewarden serve` beside the same calls in this process: look-ups, single rows, many rows, and large results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import perf_counter

import psycopg
import pyarrow as pa

from benchmarks import data
from benchmarks.measuring.beside import always
from benchmarks.measuring.page import Section, Table
from benchmarks.measuring.scale import Scale, ServeScale
from benchmarks.measuring.timing import percentile, seconds
from benchmarks.query import HEAVY
from benchmarks.serving import Clients, served
from lakewarden.catalog.access import Principal
from lakewarden.catalog.model import Column
from lakewarden.catalog.names import Role
from lakewarden.client import Lakehouse
from lakewarden.client.k3 import K3
from lakewarden.serve.tokens import operator_token
from lakewarden.sql.results import ResultRows
from tests.fixtures.postgres import serve_postgres
from tests.fixtures.servers import free_port

_SINGLE = "bench.single"
_BUCKET, _BULK, _LARGE = "bulk", "t", "large"
_OF_BULK = (Column("id", "BIGINT", nullable=False), Column("amount", "DOUBLE"))
_ARROW = "application/vnd.apache.arrow.stream"
_LOOK_UP = f"SELECT * FROM {data.TABLE} WHERE id = ?"  # noqa: S608  # our own words
_INSERT = f"INSERT INTO {_SINGLE} VALUES (?, 'login', 1.25, ?, NOW())"  # noqa: S608  # as above
_WHOLE = f"SELECT id, amount FROM {_BUCKET}.{_LARGE}"  # noqa: S608  # as above
_OF_A_BLOCK = 10
"""Inserts."""
_ROLE: Role = "service"
"""May write SHARED tables, and is bounded as every role over a network."""

Call = Callable[[int, int], object]
"""By the number of the client, and of its call over all clients."""


@dataclass(frozen=True)
class _Work:
    """The same work by both ways."""

    name: str
    over_http: Call
    in_process: Call
    requests: int
    """Of all clients together."""


def run(scale: Scale, place: Path) -> Section:
    section, uri, size = Section("serve", scale.name), str(place / "lake"), scale.serve
    with Lakehouse.open(uri) as lake:
        _fill(lake, scale)
        with served(uri, {}) as address:
            works = _works(lake, address, scale)
            section.tables.append(_side_by_side(works, size))
            section.tables.append(_together(lake, works[1], size))
            section.tables.append(_of_a_constant(lake, address, works, scale))
            section.tables.append(_in_blocks(lake, size))
        section.tables.append(_beside_postgres(lake, uri, scale))
        with served(uri, {"LAKEWARDEN_SQL__TIMEOUT_SECONDS": str(scale.query_heavy)}) as address:
            section.tables.append(_beside_heavy(lake, address, scale))
    return section


def _fill(lake: Lakehouse, scale: Scale) -> None:
    """A USER table with a user for each client to look up, one to insert into, and two SHARED ones."""
    users = data.users(max(scale.serve.clients))
    events = data.create(lake)
    events.write(data.rows(users, 0, scale.query_cold // len(users)), user_column="user")
    lake.create_table(_SINGLE, type="USER", columns=data.COLUMNS, primary_key=["id"])
    lake.create_namespace(_BUCKET)
    lake.create_table(f"{_BUCKET}.{_BULK}", type="SHARED", columns=_OF_BULK, primary_key=["id"])
    lake.create_table(f"{_BUCKET}.{_LARGE}", type="SHARED", columns=_OF_BULK)
    lake.sql(f"INSERT INTO {_BUCKET}.{_LARGE} SELECT range, range / 4 FROM range({scale.serve.result_rows})")  # noqa: S608  # our own words
    lake.flush()


def _key(scale: Scale) -> int:
    """Of a row that every user has."""
    return scale.query_cold // max(scale.serve.clients) // 2


def _works(lake: Lakehouse, address: tuple[str, int], scale: Scale) -> list[_Work]:
    size = scale.serve
    users = data.users(max(size.clients))
    http_ = Clients(address, [operator_token(lake.warehouse, user, _ROLE, timedelta(hours=6)) for user in users])
    key = _key(scale)

    def sql(client: int, text: str, params: Sequence[str | int]) -> object:
        return lake.sessions.served(Principal(users[client], _ROLE)).sql(text, params=params)

    def over_http(client: int, text: str, params: Sequence[str | int]) -> object:
        return http_.post(client, "/v1/api/sql", {"sql": text, "params": params})

    def bulk(number: int) -> list[Mapping[str, object]]:
        first = number * size.bulk_rows
        return [{"id": first + at, "amount": at / 4} for at in range(size.bulk_rows)]

    def bulk_in_process(client: int, number: int) -> object:
        k3 = K3(lake.sessions.served_services, Principal(users[client], _ROLE))
        return k3.insert(_BUCKET, _BULK, bulk(number))

    def bulk_over_http(client: int, number: int) -> object:
        return http_.post(client, "/k3/v1/insert", {"bucket": _BUCKET, "table": _BULK, "rows": bulk(number)})

    def whole_over_http(client: int, _: int) -> object:
        found = http_.post(client, "/v1/api/sql", {"sql": _WHOLE}, accept=_ARROW)
        assert pa.ipc.open_stream(found).read_all().num_rows == size.result_rows
        return found

    def whole_in_process(client: int, _: int) -> object:
        (found,) = lake.sessions.served(Principal(users[client], _ROLE)).sql(_WHOLE)
        assert isinstance(found, ResultRows)
        assert found.table.num_rows == size.result_rows
        return found

    note = "a note on an event"
    return [
        _Work("point look-up", lambda at, _: over_http(at, _LOOK_UP, [key]), lambda at, _: sql(at, _LOOK_UP, [key]), size.small),
        _Work(
            "insert of a row",
            lambda at, number: over_http(at, _INSERT, [number, note]),
            lambda at, number: sql(at, _INSERT, [number, note]),
            size.small,
        ),
        _Work(f"insert of {size.bulk_rows:,} rows", bulk_over_http, bulk_in_process, size.large),
        _Work(f"result of {size.result_rows:,} rows", whole_over_http, whole_in_process, size.large),
    ]


def _side_by_side(works: Sequence[_Work], size: ServeScale) -> Table:
    lines, numbers = [], iter(range(1 << 40))
    for work in works:
        for clients in size.clients:
            taken: dict[str, list[float]] = {"http": [], "process": []}
            rates: dict[str, list[float]] = {"http": [], "process": []}
            for turn in range(size.turns + 1):
                for way, call in (("http", work.over_http), ("process", work.in_process)):
                    found, rate = _crowd(call, clients, work.requests if turn else clients, numbers)
                    if turn:  # the first ones pay for what is loaded once
                        taken[way] += found
                        rates[way].append(rate)
            lines.append(
                (work.name, str(clients), *_shown(taken["http"], rates["http"]), *_shown(taken["process"], rates["process"]))
            )
    head = ("what", "clients", "HTTP p50", "p99", "a second", "in process p50", "p99", "a second")
    said = (
        "One server process on the same machine, and clients with a kept connection each in one other; in process, as many "
        f"threads. {size.turns} turns, by both ways in each. A user each; look-ups and single rows are of USER tables, many rows "
        "K3's `insert` into a SHARED one, and a large result is an Arrow stream of two columns, read to its end. Queries run in "
        "worker processes by both ways. The clients' own work is on the same cores, and counts. Target: 6 inserts of 10,000 rows "
        "a second by 64 clients, of whom none waits for more than 20 s."
    )
    return Table(said, head, lines)


def _shown(taken: Sequence[float], rates: Sequence[float]) -> tuple[str, str, str]:
    middle, high = (1000 * percentile(taken, percent) for percent in (50, 99))
    return f"{middle:.1f} ms", f"{high:.1f} ms", f"{sum(rates) / len(rates):,.1f}"


def _crowd(call: Call, clients: int, requests: int, numbers: Iterator[int]) -> tuple[list[float], float]:
    """The seconds of each call, and calls a second of all clients together."""
    each = max(1, requests // clients)
    given = [[next(numbers) for _ in range(each)] for _ in range(clients)]
    with ThreadPoolExecutor(clients) as pool:
        began = perf_counter()
        taken = [*pool.map(lambda at: [seconds(call, at, number) for number in given[at]], range(clients))]
        whole = perf_counter() - began
    return [one for client in taken for one in client], clients * each / whole


def _together(lake: Lakehouse, single: _Work, size: ServeScale) -> Table:
    clients, lines = max(size.clients), []
    numbers = iter(range(1 << 40, 1 << 41))
    for way, call in (("HTTP", single.over_http), ("in process", single.in_process)):
        before = lake.table(_SINGLE).log.view().last_position
        _crowd(call, clients, single.requests, numbers)
        segments = lake.table(_SINGLE).log.view().last_position - before
        rows = clients * max(1, single.requests // clients)
        lines.append((way, f"{rows:,}", f"{segments:,}", f"{rows / segments:.1f}"))
    said = f"Inserts of one row, by SQL, of {clients} clients at once, who are as many users. Target: at least 8 rows a segment."
    return Table(said, ("way", "rows", "segments", "rows a segment"), lines)


def _of_a_constant(lake: Lakehouse, address: tuple[str, int], works: Sequence[_Work], scale: Scale) -> Table:
    """Beside a text without a statement, which the same server answers under the same token: what a request costs at least."""
    size, numbers = scale.serve, iter(range(1 << 43, 1 << 44))
    clients = min(16, max(size.clients))
    users = data.users(max(size.clients))
    http_ = Clients(address, [operator_token(lake.warehouse, user, _ROLE, timedelta(hours=6)) for user in users])
    calls: dict[str, Call] = {
        "a text without a statement": lambda at, _: http_.post(at, "/v1/api/sql", {"sql": ""}),
        **{work.name: work.over_http for work in works[:2]},
    }
    found = _rates(calls, clients, size, numbers)
    least = found["a text without a statement"]
    lines = [(name, f"{rate:,.0f}", f"{rate / least:.2f}") for name, rate in found.items()]
    said = (
        f"{clients} clients over HTTP, by turns; medians of {size.turns + 1}. Targets: look-ups at least 0.25 of the answers to "
        "a text without a statement, under the same tokens, and inserts 0.15."
    )
    return Table(said, ("what", "a second", "of the first"), lines)


def _rates(calls: Mapping[str, Call], clients: int, size: ServeScale, numbers: Iterator[int]) -> dict[str, float]:
    """Calls a second of so many clients, by turns; the median of each."""
    rates: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(size.turns + 2):
        for name, call in calls.items():
            _, rate = _crowd(call, clients, size.small if turn else clients, numbers)
            if turn:
                rates[name].append(rate)
    return {name: percentile(each, 50) for name, each in rates.items()}


_POSTGRES = """
CREATE SCHEMA bench;
CREATE TABLE bench.events (
    owner text, id bigint, kind text NOT NULL, amount double precision, note text, at timestamptz NOT NULL,
    PRIMARY KEY (owner, id)
);
CREATE TABLE bench.single (LIKE bench.events INCLUDING ALL)
"""
"""The same tables, with the user as a column of the key."""


def _beside_postgres(lake: Lakehouse, uri: str, scale: Scale) -> Table:
    """The same two calls by psycopg: to the port for PostgreSQL's clients, and to a PostgreSQL that syncs what it commits."""
    size, numbers, port = scale.serve, iter(range(1 << 44, 1 << 45)), free_port()
    users = data.users(max(size.clients))
    clients = min(16, len(users))
    with served(uri, {}, "--pg-port", str(port)), serve_postgres(durable=True) as server, ExitStack() as opened:
        tokens = [operator_token(lake.warehouse, user, _ROLE, timedelta(hours=6)) for user in users[:clients]]
        ours = [opened.enter_context(_connected(port, *who)) for who in zip(users, tokens, strict=False)]
        theirs = [opened.enter_context(_connected(server.port, server.user, server.password)) for _ in ours]
        theirs[0].execute(_POSTGRES)
        with theirs[0].cursor() as cursor, cursor.copy("COPY bench.events FROM STDIN") as copy:
            for row in data.rows(users, 0, scale.query_cold // len(users)).to_pylist():
                copy.write_row(list(row.values()))
        note, mine = "a note on an event", "WHERE owner = %s AND id = %s"
        looked_up, inserted = _LOOK_UP.replace("?", "%s"), _INSERT.replace("?", "%s")

        def look_up(at: int, _: int) -> object:
            return theirs[at].execute(_LOOK_UP.replace("WHERE id = ?", mine), (users[at], _key(scale))).fetchall()

        def insert(at: int, number: int) -> object:
            return theirs[at].execute(_INSERT.replace("(?,", "(%s, %s,").replace("?", "%s"), (users[at], number, note))

        found = _rates(
            {
                "ours, look-up": lambda at, _: ours[at].execute(looked_up, (_key(scale),)).fetchall(),
                "PostgreSQL's, look-up": look_up,
                "ours, insert": lambda at, number: ours[at].execute(inserted, (number, note)),
                "PostgreSQL's, insert": insert,
            },
            clients,
            size,
            numbers,
        )
    pairs = (("point look-up", "look-up"), ("insert of a row", "insert"))
    rates = [(what, found[f"ours, {call}"], found[f"PostgreSQL's, {call}"]) for what, call in pairs]
    lines = [(what, f"{mine:,.0f}", f"{other:,.0f}", f"{mine / other:.3f}") for what, mine, other in rates]
    said = (
        f"{clients} clients by psycopg, one connection each: to the port for PostgreSQL's clients, and to a PostgreSQL on this"
        f" machine whose commits wait for the disk, with the same rows in one table with an index; by turns, medians of"
        f" {size.turns + 1}. Shown, without a target."
    )
    return Table(said, ("what", "a second", "PostgreSQL, a second", "ours is, times"), lines)


def _connected(port: int, user: str, password: str) -> psycopg.Connection:
    return psycopg.connect(host="127.0.0.1", port=port, user=user, password=password, dbname="postgres", autocommit=True)


def _in_blocks(lake: Lakehouse, size: ServeScale) -> Table:
    """Ten inserts of a row by one session, one by one and in a block, by turns."""
    session = lake.sessions.served(Principal("blocks", _ROLE), connected=True)
    numbers = iter(range(1 << 42, 1 << 43))

    def inserts() -> None:
        for _ in range(_OF_A_BLOCK):
            session.sql(_INSERT, params=[next(numbers), "a note on an event"])

    def block() -> None:
        session.sql("BEGIN")
        inserts()
        session.sql("COMMIT")

    taken: dict[Callable[[], None], list[float]] = {inserts: [], block: []}
    inserts()
    for _ in range(max(2, size.small // _OF_A_BLOCK)):
        for way, each in taken.items():
            each.append(seconds(way))
    single, kept = (percentile(each, 50) for each in taken.values())
    lines = [
        ("one by one", f"{1000 * single:.1f} ms", "1.00"),
        ("in a block", f"{1000 * kept:.1f} ms", f"{kept / single:.2f}"),
    ]
    said = f"{_OF_A_BLOCK} inserts of a row by SQL, of one session in this process. Target: less in a block than one by one."
    return Table(said, ("how", "p50", "of one by one"), lines)


def _beside_heavy(lake: Lakehouse, address: tuple[str, int], scale: Scale) -> Table:
    """Look-ups of many clients, alone and while one more sends a heavy statement again and again."""
    users, others = data.users(max(scale.serve.clients)), min(16, max(scale.serve.clients))
    http_ = Clients(address, [operator_token(lake.warehouse, user, _ROLE, timedelta(hours=6)) for user in [*users, "heavy"]])
    body = {"sql": _LOOK_UP, "params": [_key(scale)]}
    lines, numbers = [], iter(range(1 << 40))

    def look_ups() -> list[float]:
        return _crowd(lambda at, _: http_.post(at, "/v1/api/sql", body), others, scale.serve.small, numbers)[0]

    look_ups()
    for name, heavy in HEAVY.items():
        alone, beside = [], []
        for _ in range(scale.serve.turns):
            alone += look_ups()
            with always(partial(http_.answer, len(users), "/v1/api/sql", {"sql": heavy})):
                beside += look_ups()
        high = percentile(alone, 95), percentile(beside, 95)
        lines.append((name, *(f"{1000 * each:.1f} ms" for each in high), f"{high[1] / high[0]:.1f} times"))
    said = (
        f"Point look-ups of {others} clients over HTTP, alone and while another client sends the same heavy statement again and "
        f"again, each up to its limit of {scale.query_heavy:g} s. Target: at most 3 times."
    )
    return Table(said, ("beside", "p95 alone", "p95 beside", "p95 is"), lines)
