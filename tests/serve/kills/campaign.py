"""Mixed load on `lakewarden serve`, one of whose processes is killed again and again: what was acknowledged is there once."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random

import psutil

from lakewarden.lakehouse import Lakehouse
from lakewarden.serve.operator import operator_token
from lakewarden.sql.results import Rows
from tests.serve.kills.load import KEYED, PLAIN, Client, Known
from tests.serve.process import Served, served

TABLES = (
    f"CREATE NAMESPACE app; CREATE USER TABLE {KEYED} (id BIGINT PRIMARY KEY, v BIGINT); CREATE SHARED TABLE {PLAIN} (id BIGINT)"
)
_CLIENTS = 8
_WORKERS = 2
_FLUSH_EVERY = 3.0
_LOOK_EVERY = 0.1


@dataclass(frozen=True)
class Found:
    """What a campaign found."""

    kills: int
    acknowledged: int
    unknown: int
    """Writes whose answer was lost, and of which nobody knows whether they were done."""
    wrong: Mapping[str, str]
    """Rows that are not what their client knows of them."""


@dataclass
class Campaign:
    """A warehouse in a directory of its own. The seed draws what clients do; the machine decides what a kill meets."""

    place: Path
    seed: int
    seconds: float
    kill_every: float
    _over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> Found:
        uri = str(self.place / "w")
        users = [f"u{number}" for number in range(_CLIENTS)]
        with Lakehouse.open(uri) as lake:
            lake.sql(TABLES)
            tokens = {user: operator_token(lake.warehouse, user, "service", timedelta(hours=2)) for user in users}
            environment = {**os.environ, "LAKEWARDEN_SQL__WORKERS": "1", "LAKEWARDEN_SQL__THREADS": "1"}
            with served(uri, tokens, environment=environment, workers=_WORKERS) as server:
                clients, kills = self._load(lake, server, users)
            lake.flush()
            return Found(kills, *_sums(clients), wrong_rows(lake, clients))

    def _load(self, lake: Lakehouse, server: Served, users: list[str]) -> tuple[list[Client], int]:
        """The clients, and how many processes were killed under them."""
        clients = [Client(number, server.client(user), Random(self.seed + number)) for number, user in enumerate(users)]
        with ThreadPoolExecutor(len(clients) + 1) as pool:
            working = [pool.submit(client.work, self._over) for client in clients]
            flushing = pool.submit(self._flush, lake)
            try:
                kills = self._kill(server, clients, working)
            finally:
                self._over.set()
            for one in (*working, flushing):
                one.result()
        return clients, kills

    def _kill(self, server: Served, clients: list[Client], working: list[Future[None]]) -> int:
        """Kills a process every so often, but not before a write was acknowledged since the last kill."""
        chance, kills = Random(self.seed), 0
        while kills * self.kill_every < self.seconds and not any(one.done() for one in working):
            before, _ = _sums(clients)
            self._over.wait(self.kill_every)
            while _sums(clients)[0] == before and not any(one.done() for one in working):
                self._over.wait(_LOOK_EVERY)
            processes = _server_processes(server.pid)
            if processes:
                chance.choice(processes).send_signal(signal.SIGKILL)
                kills += 1
        return kills

    def _flush(self, lake: Lakehouse) -> None:
        while not self._over.wait(_FLUSH_EVERY):
            lake.flush()


def _server_processes(supervisor: int) -> list[psutil.Process]:
    """Those that answer requests, and not their own workers, nor multiprocessing's tracker."""
    return [one for one in psutil.Process(supervisor).children() if _is_server(one)]


def _is_server(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):  # it has just ended
        return "spawn_main" in " ".join(process.cmdline())
    return False


def _sums(clients: list[Client]) -> tuple[int, int]:
    return sum(client.acknowledged for client in clients), sum(client.unknown for client in clients)


def wrong_rows(lake: Lakehouse, clients: list[Client]) -> dict[str, str]:
    """Rows that are not what their client knows of them, each with what is there."""
    return {**_keyed(lake, clients), **_plain(lake, clients)}


def _keyed(lake: Lakehouse, clients: list[Client]) -> dict[str, str]:
    wrong: dict[str, str] = {}
    for client in clients:
        (found,) = lake.sql(f"SELECT id, v FROM {KEYED}", user=f"u{client.number}", role="user")
        assert isinstance(found, Rows)
        there: dict[object, list[object]] = {}
        for row in found.to_pylist():
            there.setdefault(row["id"], []).append(row["v"])
        wrong |= {f"{KEYED} {key}": f"{there.get(key)}, not {known}" for key, known in _off(client.rows, there)}
        wrong |= {f"{KEYED} {key}": "nobody wrote it" for key in there.keys() - client.rows.keys()}
    return wrong


def _off(rows: Mapping[int, Known], there: Mapping[object, list[object]]) -> Iterator[tuple[int, Known]]:
    for key, known in rows.items():
        values = there.get(key, [None])
        if len(values) != 1 or values[0] not in known:
            yield key, known


def _plain(lake: Lakehouse, clients: list[Client]) -> dict[str, str]:
    (found,) = lake.sql(f"SELECT id FROM {PLAIN}")
    assert isinstance(found, Rows)
    there = Counter(row["id"] for row in found.to_pylist())
    allowed = {key: known for client in clients for key, known in client.plain.items()}
    wrong = {f"{PLAIN} {key}": f"{there[key]} times, not {known}" for key, known in allowed.items() if there[key] not in known}
    return wrong | {f"{PLAIN} {key}": "nobody wrote it" for key in there.keys() - allowed.keys()}
