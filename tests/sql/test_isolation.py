"""Nobody is told what another wrote, through whatever door (tests/sql/isolation): random users, doors and statements."""

from __future__ import annotations

import logging
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakewarden import Lakehouse, Settings
from lakewarden.base.setting_sections import SqlSettings
from lakewarden.catalog.access import EVERYBODY, IMPERSONATE, SHARED_ROWS
from lakewarden.catalog.model import Catalog, Table
from lakewarden.sql.context import Context
from lakewarden.sql.query_engine.workers.engine import pool_of_process
from lakewarden.tables.client.reader import TableReader
from lakewarden.tables.freshness import Freshness
from lakewarden.tables.strong_read import ReadSelection
from tests.fixtures.examples import campaign
from tests.sql.isolation.doors import DOORS, through
from tests.sql.isolation.world import Leak, World

pytestmark = pytest.mark.disk  # it opens the scopes' files itself

_ROLES = ("user", "user", "service", "dba", "system", "anonymous")
_STEPS = st.lists(
    st.tuples(st.sampled_from(range(len(DOORS))), st.integers(0, 4), st.integers(0, 2**32)), min_size=15, max_size=40
)
_EXAMPLES = max(settings.get_profile(settings.get_current_profile_name()).max_examples // 12, 8)
_LIMITS = Settings(sql=SqlSettings(timeout_seconds=5, memory_bytes=256 << 20, result_bytes=16 << 20))


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    """Keeps the processes that run the queries from one world to the next."""
    pool = pool_of_process(_LIMITS.sql)
    release = pool.hold()
    yield
    release()


Step = tuple[int, int, int]
"""Which door, which person, and the seed of what is said there."""


def _live(roles: Sequence[str], steps: Sequence[Step]) -> World:
    with tempfile.TemporaryDirectory() as place, Lakehouse.open(str(Path(place) / "warehouse"), settings=_LIMITS) as lake:
        world = World(lake, roles, random.Random(len(roles)))
        for door, person, seed in steps:
            through(world, DOORS[door], world.people[person % len(world.people)], seed)
        world.check_disk()
    return world


@pytest.mark.slow
@campaign(_EXAMPLES, gate=3, suppress_health_check=list(HealthCheck))
@given(roles=st.lists(st.sampled_from(_ROLES), min_size=2, max_size=5), steps=_STEPS)
def test_nobody_is_told_what_another_wrote(roles: list[str], steps: list[Step]) -> None:
    _live(roles, steps)


def _another_scope(patch: pytest.MonkeyPatch) -> None:
    def first(context: Context, table: Table) -> str | None:
        return min(context.warehouse.registry.users(table.id), default=context.principal.user)

    owner = Context.owner
    patch.setattr(Context, "owner", lambda context, table: owner(context, table) and first(context, table))


def _an_open_table(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(SHARED_ROWS["PRIVATE"], "read", EVERYBODY)


def _free_impersonation(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(IMPERSONATE, "user", EVERYBODY)


def _a_line_in_the_log(patch: pytest.MonkeyPatch) -> None:
    scan = TableReader.scan

    def chatty(
        reader: TableReader,
        wanted: ReadSelection,
        user: str | None,
        freshness: Freshness = "strong",
        catalog: Catalog | None = None,
    ) -> pa.Table:
        rows = scan(reader, wanted, user, freshness, catalog)
        logging.getLogger("lakewarden").debug("read %s", rows.to_pylist())
        return rows

    patch.setattr(TableReader, "scan", chatty)


@pytest.mark.slow
@pytest.mark.parametrize("plant", [_another_scope, _an_open_table, _free_impersonation, _a_line_in_the_log])
def test_a_leak_that_is_planted_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    chance = random.Random(1)
    steps = [(chance.randrange(len(DOORS)), chance.randrange(3), chance.getrandbits(32)) for _ in range(150)]
    with pytest.raises(Leak):
        _live(("user", "user", "service"), steps)


@pytest.mark.slow
def test_the_search_looks_at_something() -> None:
    """Most statements are answered, and a good part of the answers holds what the person may know."""
    chance = random.Random(2)
    steps = [(0, chance.randrange(3), chance.getrandbits(32)) for _ in range(40)]
    world = _live(("user", "service", "dba"), steps)
    assert world.answers > len(steps), world.answers
