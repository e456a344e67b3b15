"""A sample of the search for statements that take more than they may (`python -m tests.serve.heavy`, in `make torture` 500)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.examples import examples
from tests.serve.heavy.campaign import beyond, search

pytestmark = [pytest.mark.slow, pytest.mark.disk]


@pytest.mark.night
def test_each_ends_within_its_bounds_and_the_server_goes_on(tmp_path: Path) -> None:
    statements = examples(30)
    found = search(tmp_path, seed=1, statements=statements)
    assert not found.wrong
    assert not beyond(found)
    assert found.ended.get("422 UNSUPPORTED", 0) > statements / 5, "the search finds statements that are stopped"
