"""One warehouse for a module's tests: each works on tables of its own in the namespace `n`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lakewarden import Lakehouse
from lakewarden.sql.results import Result


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path_factory.mktemp("warehouse") / "w")) as opened:
        opened.create_namespace("n")
        yield opened


@pytest.fixture
def sql(lake: Lakehouse) -> Callable[[str], list[Result]]:
    """Runs a text in one session of its own."""
    return lambda text: lake.session(user="root", role="system").sql(f"USE n; {text}")[1:]
