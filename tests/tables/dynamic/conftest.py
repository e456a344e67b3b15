"""One warehouse for a module's tests: each works on tables of its own in the namespace `n`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakewarden import Lakehouse
from lakewarden.sql.results import Result
from tests.fixtures.lakes import lake_fixture

lake = lake_fixture(sql="CREATE NAMESPACE n", scope="module")


@pytest.fixture
def sql(lake: Lakehouse) -> Callable[[str], list[Result]]:
    """Runs a text in one session of its own."""
    return lambda text: lake.session(user="root", role="system").sql(f"USE n; {text}")[1:]
