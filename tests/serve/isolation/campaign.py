"""Many sessions of many users at the same time, on all ports of one server; no session sees what another user wrote."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import httpx

from lakewarden import Lakehouse, Settings
from lakewarden.base.setting_sections import ServeSettings, SqlSettings
from lakewarden.serve.tokens import operator_token
from tests.fixtures.patience import PATIENCE
from tests.serve.conftest import serving
from tests.serve.isolation.sessions import HttpSession, PostgresSession, Said, Session, Subscription
from tests.serve.postgres.conftest import listening
from tests.sql.isolation.places import Person
from tests.sql.isolation.world import World, logged

LIMITS = Settings(
    sql=SqlSettings(timeout_seconds=5, memory_bytes=256 << 20, result_bytes=16 << 20, workers=2, threads=1),
    serve=ServeSettings(
        concurrent_per_user=10_000,
        requests_per_minute=1_000_000,
        subscriptions_per_user=10_000,
        subscriptions=10_000,
        postgres_connections=10_000,
        heartbeat_seconds=1,
        slow_seconds=PATIENCE,
    ),
)
_ROLES = ("user", "user", "user", "service", "dba", "anonymous")
_OPERATOR = Person("root", "system")
"""Who reads the server's log."""

_OPENED_AT_ONCE = 50
_FOLLOWED = ("notes", "notes", "feed", "open", "private", "restricted", "admins")


@dataclass(frozen=True)
class Sessions:
    """How many there are of each kind, all open at the same time."""

    http: int
    postgres: int
    web_socket: int


def live(lake: Lakehouse, sessions: Sessions, people: int = 6, seed: int = 1) -> World:
    """Raises:
    Leak: a session received what is another user's.
    """
    world = World(lake, [_ROLES[number % len(_ROLES)] for number in range(people)], random.Random(seed))
    with logged("lakewarden") as lines:  # a client's own library logs what it reads
        made = asyncio.run(_spoken(world, sessions, world.reseed(seed + 1)))
    for one in made:
        world.told(one.said.person, one.answers, one.said.text, one.said.impersonated)
    world.told(_OPERATOR, lines)
    world.check_disk()
    return world


async def _spoken(world: World, sessions: Sessions, chance: random.Random) -> Sequence[Session]:
    """Everybody comes, then everybody speaks, while others' rows are written; at last the subscribers leave."""
    tokens = {one: operator_token(world.lake.warehouse, one.user, one.role, timedelta(hours=1)) for one in world.people}
    requests = [HttpSession(_statement(world, tokens, chance)) for _ in range(sessions.http)]
    connections = [PostgresSession(_statement(world, tokens, chance)) for _ in range(sessions.postgres)]
    subscriptions = [Subscription(_subscription(world, tokens, chance)) for _ in range(sessions.web_socket)]
    with serving(world.lake) as url, listening(world.lake) as port:
        await _together(_OPENED_AT_ONCE, [one.open(url) for one in subscriptions])
        await _together(_OPENED_AT_ONCE, [one.open(port) for one in connections])
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE, limits=limits) as client:
            spoken = [one.speak(client) for one in requests] + [one.speak() for one in connections]
            writing = asyncio.to_thread(_write, world)
            await asyncio.gather(writing, *spoken)
        await asyncio.gather(*(one.close() for one in subscriptions))
    assert not [one.said for one in connections if one.broken]
    return [*requests, *connections, *subscriptions]


async def _together(most: int, calls: Iterable[Awaitable[None]]) -> None:
    free = asyncio.Semaphore(most)

    async def one(call: Awaitable[None]) -> None:
        async with free:
            await call

    await asyncio.gather(*map(one, calls))


def _write(world: World) -> None:
    for person in world.people:
        world.write(person.user)


def _statement(world: World, tokens: dict[Person, str], chance: random.Random) -> Said:
    person = chance.choice(world.people)
    grammar = world.grammar(person, chance)
    text = grammar.text()
    return Said(person, tokens[person], text, frozenset(grammar.impersonated), chance.choice(("strong", "eventual")))


def _subscription(world: World, tokens: dict[Person, str], chance: random.Random) -> Said:
    person = chance.choice(world.people)
    columns, where = (
        chance.choice(("*", "k, v", "upper(v) AS v")),
        chance.choice(("", " WHERE v > 'tk4'", " WHERE k IS NOT NULL")),
    )
    return Said(person, tokens[person], f"SELECT {columns} FROM app.{chance.choice(_FOLLOWED)}{where}", frozenset(), "strong")
