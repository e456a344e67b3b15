"""Mixed load on `lakewarden serve`, one of whose processes is killed again and again: what was acknowledged is there once, and
was heard once by everyone who follows.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random

import psutil

from lakewarden.client import Lakehouse
from lakewarden.log.position import NOTHING
from lakewarden.serve.tokens import operator_token
from tests.fixtures.clock import Clock
from tests.fixtures.patience import PATIENCE
from tests.serve.http.live.events import Told
from tests.serve.http.live.follower import LAST, Follower, by_events, by_socket
from tests.serve.kills.heard import wrong_events
from tests.serve.kills.load import KEYED, PLAIN, Client
from tests.serve.kills.readers import disagreeing
from tests.serve.kills.rows import keyed_rows, plain_rows, wrong_rows
from tests.serve.process import Served, served

TABLES = (
    f"CREATE NAMESPACE app; CREATE USER TABLE {KEYED} (id BIGINT PRIMARY KEY, v BIGINT); CREATE SHARED TABLE {PLAIN} (id BIGINT)"
)
_CLIENTS = 8
_WORKERS = 2
_FLUSH_EVERY = 1.0
_LOOK_EVERY = 0.1
_BRISK = {"LAKEWARDEN_SERVE__HEARTBEAT_SECONDS": "1"}
"""A heartbeat is the first that is heard of an empty table by WebSocket."""


@dataclass(frozen=True)
class Found:
    """What a campaign found."""

    kills: int
    acknowledged: int
    unknown: int
    """Writes whose answer was lost, and of which nobody knows whether they were done."""
    heard: int
    """Events of all subscribers."""
    held_back: int
    """Of them, those of the table without a key that came only when no write of a killed process could commit any more."""
    cuts: int
    """How often a subscriber's connection broke or could not be made."""
    wrong: Mapping[str, str]
    """Rows that are not what their client knows of them, and what subscribers missed or heard wrongly."""


@dataclass(frozen=True)
class Subscriber:
    """Follows the rows of one client in the table with keys, or those of all clients in the other."""

    name: str
    table: str
    followed: tuple[Client, ...]
    follower: Follower

    @classmethod
    def keyed(cls, server: Served, client: Client) -> Subscriber:
        return cls._of(server, client.user, KEYED, "id, v", (client,), client.number)

    @classmethod
    def plain(cls, server: Served, number: int, clients: list[Client]) -> Subscriber:
        return cls._of(server, clients[number].user, PLAIN, "id", tuple(clients), number)

    @classmethod
    def _of(cls, server: Served, user: str, table: str, columns: str, followed: tuple[Client, ...], number: int) -> Subscriber:
        """Those of odd numbers hear by WebSocket."""
        hear = by_socket if number % 2 else by_events
        follower = Follower(hear, server.url, server.tokens[user], f"SELECT {columns} FROM {table}")
        return cls(f"{user} by {hear.__name__[3:]} of {table}", table, followed, follower)

    def catch_up(self, uri: str) -> int:
        """Goes on in this process, when nothing waits for a killed one any more; returns how much that brought."""
        follower, before = self.follower, len(self.follower.rows)
        with (
            Lakehouse.open(uri) as lake,
            lake.subscribe(follower.sql, from_seq=int(follower.place or NOTHING)) as rest,
        ):
            for one in rest.poll():
                follower.take(Told(one.kind, str(one.seq), {"seq": one.seq, "row": {"id": int(str(one.row["id"]))}}))
        return len(follower.rows) - before

    def wrong(self, lake: Lakehouse) -> dict[str, str]:
        there = keyed_rows(lake, self.followed[0].user) if self.table == KEYED else plain_rows(lake)
        writers = [[each for each in client.written if each.table == self.table] for client in self.followed]
        found = [*wrong_events(self.follower.rows, writers, dict(there))]
        if "error" in self.follower.kinds:
            found.append("a subscription ended by an error")
        if not self.follower.ended:
            found.append("the last row was not heard")
        return {self.name: "; ".join(found)} if found else {}


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
            environment = {**os.environ, "LAKEWARDEN_SQL__WORKERS": "1", "LAKEWARDEN_SQL__THREADS": "1", **_BRISK}
            with served(uri, tokens, environment=environment, workers=_WORKERS) as server:
                clients = [Client(number, server.client(user), Random(self.seed + number)) for number, user in enumerate(users)]
                keyed = [Subscriber.keyed(server, client) for client in clients]
                plain = [Subscriber.plain(server, number, clients) for number in range(2)]
                with _following(lake, keyed, plain):
                    kills = self._load(lake, server, clients)
            _pass_killed_writes(uri)
            held_back = sum(one.catch_up(uri) for one in plain)
            wrong = wrong_rows(lake, clients)
            for one in (*keyed, *plain):
                wrong |= one.wrong(lake)
            wrong |= disagreeing(lake, clients) | {str(one): "failed" for one in lake.check() if not one.passed}
            followers = [one.follower for one in (*keyed, *plain)]
            heard, cuts = sum(len(one.rows) for one in followers), sum(one.cuts for one in followers)
            return Found(kills, *_sums(clients), heard, held_back, cuts, wrong)

    def _load(self, lake: Lakehouse, server: Served, clients: list[Client]) -> int:
        """How many processes were killed under the clients."""
        with ThreadPoolExecutor(len(clients) + 1) as pool:
            working = [pool.submit(client.work, self._over) for client in clients]
            flushing = pool.submit(self._flush, lake)
            try:
                kills = self._kill(server, clients, working)
            finally:
                self._over.set()
            for one in (*working, flushing):
                one.result()
        return kills

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


def _pass_killed_writes(uri: str) -> None:
    """Raises the barrier behind writes whose processes were killed, as the first flush some minutes later does."""
    clock = Clock()
    with Lakehouse.open(uri, clock=clock) as lake:
        lake.flush()  # learns by how much its clock differs from the store's, so that from here on the store's moves with it
        clock.forward(180)
        lake.flush()


def _server_processes(supervisor: int) -> list[psutil.Process]:
    """Those that answer requests, and not their own workers, nor multiprocessing's tracker."""
    return [one for one in psutil.Process(supervisor).children() if _is_server(one)]


def _is_server(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):  # it has just ended
        return "spawn_main" in " ".join(process.cmdline())
    return False


def _sums(clients: list[Client]) -> tuple[int, int]:
    """How many writes were acknowledged, and how many are unknown."""
    acknowledged = [each.acknowledged for client in clients for each in [*client.written]]
    return acknowledged.count(True), acknowledged.count(False)


@contextmanager
def _following(lake: Lakehouse, keyed: list[Subscriber], plain: list[Subscriber]) -> Iterator[None]:
    """Begins before the block, on empty tables, and ends when all that the block wrote was heard of the table with keys."""
    over, subscribers = threading.Event(), [*keyed, *plain]
    with ThreadPoolExecutor(len(subscribers)) as pool:
        following = [pool.submit(one.follower.follow, over) for one in subscribers]
        try:
            while not all(one.follower.place for one in subscribers) and not any(each.done() for each in following):
                time.sleep(_LOOK_EVERY)
            yield
            for one in keyed:
                lake.table(KEYED).write([{"id": LAST, "v": LAST}], user=one.followed[0].user)
            lake.sql(f"INSERT INTO {PLAIN} VALUES ({LAST})")
            wait(following[: len(keyed)], PATIENCE)
        finally:
            over.set()
        for each in following:
            each.result()
