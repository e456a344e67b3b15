"""A small warehouse, and Dagster instances for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from tests.fixtures.chat import make_chat
from tests.fixtures.dagster import as_shipped, sqlite_instance


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that fails here is tried again at once: the policy's seconds would only be waited for."""
    monkeypatch.setattr(dg.RetryPolicy, "calculate_delay", lambda *_: 0)


@pytest.fixture
def chat(warehouse_uri: str) -> str:
    """The URI of a warehouse with two tables."""
    make_chat(warehouse_uri)
    return warehouse_uri


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with sqlite_instance(tmp_path / "dagster") as instance:
        yield instance


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.night)])
def shipped_instance(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """One with the settings that `lakewarden ui` gives it, on either storage."""
    server = request.getfixturevalue("postgres") if request.param == "postgres" else None
    with as_shipped(tmp_path / "dagster", server) as instance:
        yield instance
