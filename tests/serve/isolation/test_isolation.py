"""A sample of the campaign (`python -m tests.serve.isolation`, in `make torture` with 3,000 sessions)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.catalog.model import Table
from lakewarden.sql.context import Context
from tests.fixtures.examples import examples
from tests.serve.isolation.campaign import LIMITS, Sessions, live
from tests.sql.isolation.world import Leak

pytestmark = [pytest.mark.disk, pytest.mark.slow]  # the world opens the scopes' files itself


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "w"), settings=LIMITS) as opened:
        yield opened


@pytest.mark.parametrize("http", [40, pytest.param(120, marks=pytest.mark.night)])
def test_no_session_sees_what_another_user_wrote(lake: Lakehouse, http: int) -> None:
    count = examples(http)
    world = live(lake, Sessions(http=count, postgres=count // 2, web_socket=count // 2))
    assert world.answers > count / 5, "the search looks at something"


@pytest.mark.parametrize("by", [Sessions(20, 0, 0), Sessions(0, 20, 0), Sessions(0, 0, 10)])
def test_a_leak_that_is_planted_is_found(by: Sessions, lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    def first(context: Context, table: Table) -> str | None:
        return min(context.warehouse.registry.users(table.id), default=context.principal.user)

    owner = Context.owner
    monkeypatch.setattr(Context, "owner", lambda context, table: owner(context, table) and first(context, table))
    with pytest.raises(Leak):
        live(lake, by)
