"""Subscribers against a model: each sees exactly its own events, in order, exactly once, whatever is flushed in between.

They come and go, and come back from the last `_seq` that they saw, while rows are written, deleted, flushed and compacted.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.setting_sections import LogSettings
from lakewarden.base.settings import Settings
from lakewarden.tables.changes.log_reader import Event
from lakewarden.tables.changes.subscription import Subscription
from tests.fixtures.gate import in_the_gate

_USERS = ("ada", "bob")
_STEPS = 45
_SHOWN = {"SELECT * FROM chat.notes": "", "SELECT id, text FROM chat.notes WHERE text LIKE 'x%'": "x"}
Change = tuple[int, str | None]
"""An id and its text; None for a delete."""
Seen = tuple[str, int, str | None]


@dataclass
class Client:
    """A subscriber, and what the model says that it has to see."""

    user: str | None
    query: str
    subscription: Subscription
    at: int
    """How many changes of its user it has been told."""
    rows: dict[int, str] = field(default_factory=dict)
    last: int = -1

    def expected(self, changes: list[Change]) -> list[Seen]:
        told: list[Seen] = []
        for key, text in changes[self.at :]:
            before = key in self.rows
            if text is not None and text.startswith(_SHOWN[self.query]):
                told.append(("update" if before else "insert", key, text))
                self.rows[key] = text
            elif before:
                told.append(("delete", key, None))
                del self.rows[key]
        self.at = len(changes)
        return told

    def check(self, events: list[Event], changes: list[Change]) -> None:
        assert [(each.kind, each.row["id"], each.row.get("text")) for each in events] == self.expected(changes)
        seqs = [self.last, *(each.seq for each in events)]
        assert seqs == sorted(set(seqs))
        self.last = seqs[-1]


class World:
    def __init__(self, lake: Lakehouse, rng: random.Random, shared: bool) -> None:
        self.lake = lake
        self.rng = rng
        lake.create_namespace("chat")
        columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
        self.table = lake.create_table("chat.notes", type="SHARED" if shared else "USER", columns=columns, primary_key=["id"])
        self.users: tuple[str | None, ...] = (None,) if shared else _USERS
        self.changes: dict[str | None, list[Change]] = {user: [] for user in self.users}
        self.clients: list[Client] = []
        self.away: list[tuple[Client, int]] = []

    def write(self) -> None:
        user = self.rng.choice(self.users)
        changes = [
            (key, self.rng.choice("xy") + str(self.rng.random())) for key in self.rng.sample(range(6), self.rng.choice((1, 2, 3)))
        ]
        self.table.write([{"id": key, "text": text} for key, text in changes], user=user)
        self.changes[user] += changes

    def delete(self) -> None:
        user = self.rng.choice(self.users)
        keys = self.rng.sample(range(6), self.rng.choice((1, 2)))
        self.table.delete([{"id": key} for key in keys], user=user)
        self.changes[user] += [(key, None) for key in keys]

    def flush(self) -> None:
        self.lake.flush("chat.notes", user=self.rng.choice((*self.users, None)))

    def compact(self) -> None:
        self.lake.compact("chat.notes")

    def come(self) -> None:
        user, query = self.rng.choice(self.users), self.rng.choice([*_SHOWN])
        live: dict[int, str] = {}
        for key, text in self.changes[user]:
            live.pop(key, None)
            if text is not None and text.startswith(_SHOWN[query]):
                live[key] = text
        client = Client(user, query, self._subscribe(user, query, None), len(self.changes[user]), live)
        first = client.subscription.poll()
        assert {each.kind for each in first} <= {"initial"}
        assert [(each.row["id"], each.row["text"]) for each in first] == list(live.items()), "in the order of their last write"
        self.clients.append(client)

    def go(self) -> None:
        if self.clients:
            client = self.clients.pop(self.rng.randrange(len(self.clients)))
            client.subscription.close()
            assert client.subscription.seq is not None
            self.away.append((client, client.subscription.seq))

    def come_back(self) -> None:
        if self.away:
            client, seq = self.away.pop(self.rng.randrange(len(self.away)))
            client.subscription = self._subscribe(client.user, client.query, seq)
            self.clients.append(client)

    def look(self) -> None:
        for client in self.clients:
            client.check(client.subscription.poll(), self.changes[client.user])

    def _subscribe(self, user: str | None, query: str, seq: int | None) -> Subscription:
        return self.lake.subscribe(query, user=user or "root", from_seq=seq, batch_size=self.rng.choice((1, 100)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", in_the_gate(range(6), 0, 2, 4))
def test_each_event_comes_once_and_in_order(warehouse_uri: str, seed: int) -> None:
    rng = random.Random(seed)
    settings = Settings(log=LogSettings(carry_below=rng.choice((0.0, 0.5, 1.0))))
    with Lakehouse.open(warehouse_uri, settings=settings) as lake:
        world = World(lake, rng, shared=seed % 3 == 2)
        steps = (world.write, world.write, world.delete, world.flush, world.come, world.go, world.come_back, world.look)
        for number in range(_STEPS):
            (world.compact if number % 20 == 19 else rng.choice(steps))()
        while world.away:
            world.come_back()
        world.flush()
        world.look()
        for client in world.clients:
            assert client.subscription.poll() == []
            client.subscription.close()
        assert lake.live_queries() == []
