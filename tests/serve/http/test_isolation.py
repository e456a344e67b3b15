"""Nobody is told what another wrote, over HTTP either: statements of the isolation grammar, from many sessions at once."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from lakewarden import Lakehouse, Settings
from lakewarden.catalog.model import Table
from lakewarden.serve.operator import operator_token
from lakewarden.settings import SqlSettings
from lakewarden.sql.context import Context
from tests.fixtures.examples import examples
from tests.serve.conftest import serving
from tests.sql.isolation.places import Person
from tests.sql.isolation.world import Leak, World

pytestmark = [pytest.mark.disk, pytest.mark.slow]  # the world opens the scopes' files itself

_LIMITS = Settings(sql=SqlSettings(timeout_seconds=5, memory_bytes=256 << 20, result_bytes=16 << 20, workers=2, threads=1))
_ROLES = ("user", "user", "user", "service", "dba", "anonymous")
_AT_ONCE = 32
_OPERATOR = Person("root", "system")
"""Who reads the server's log."""


@dataclass(frozen=True)
class _Asked:
    person: Person
    text: str
    impersonated: frozenset[str]
    freshness: str


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "w"), settings=_LIMITS) as opened:
        yield opened


def _texts(world: World, count: int, seed: int) -> list[_Asked]:
    chance = world.reseed(seed)
    made = []
    for _ in range(count):
        person = chance.choice(world.people)
        grammar = world.grammar(person, chance)
        text = grammar.text()
        made.append(_Asked(person, text, frozenset(grammar.impersonated), chance.choice(("strong", "eventual"))))
    return made


def _live(lake: Lakehouse, count: int, log: pytest.LogCaptureFixture) -> World:
    """Every text is a session of its own, and many run at the same time.

    Raises:
        Leak: somebody was told what is another's.
    """
    world = World(lake, _ROLES, random.Random(1))
    asked = _texts(world, count, seed=2)
    tokens = {one: operator_token(lake.warehouse, one.user, one.role, timedelta(hours=1)) for one in world.people}
    with serving(lake) as url, httpx.Client(base_url=url, timeout=600, limits=httpx.Limits(max_connections=_AT_ONCE)) as client:

        def ask(one: _Asked) -> httpx.Response:
            body = {"sql": one.text, "freshness": one.freshness}
            return client.post("/v1/api/sql", json=body, headers={"Authorization": f"Bearer {tokens[one.person]}"})

        with log.at_level(logging.DEBUG, "lakewarden"), ThreadPoolExecutor(_AT_ONCE) as pool:
            answers = [*pool.map(ask, asked)]
    for one, answer in zip(asked, answers, strict=True):
        world.told(one.person, [answer.text, dict(answer.headers)], one.text, one.impersonated)
        assert answer.status_code in {200, 400, 403, 404, 409, 412, 422}, (one.text, answer.text)
    world.told(_OPERATOR, [record.getMessage() for record in log.records if record.name.startswith("lakewarden")])
    world.check_disk()
    return world


def test_nobody_is_told_what_another_wrote(lake: Lakehouse, caplog: pytest.LogCaptureFixture) -> None:
    count = examples(200)
    world = _live(lake, count, caplog)
    assert world.answers > count / 10, "the search looks at something"


def test_a_leak_that_is_planted_is_found(
    lake: Lakehouse, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first(context: Context, table: Table) -> str | None:
        return min(context.warehouse.registry.users(table.id), default=context.principal.user)

    owner = Context.owner
    monkeypatch.setattr(Context, "owner", lambda context, table: owner(context, table) and first(context, table))
    with pytest.raises(Leak):
        _live(lake, 40, caplog)
