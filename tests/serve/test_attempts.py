"""Failures are counted by name for a minute, and of too many names the one that failed longest ago is forgotten."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lakewarden.serve import authority
from lakewarden.serve.authority import FailureCounter
from tests.fixtures.clock import Clock


def test_a_name_that_failed_too_often_waits_a_minute() -> None:
    clock = Clock()
    tried = FailureCounter(clock, 2)
    for _ in range(2):
        assert tried.open("ann")
        tried.failed("ann")
    assert (tried.open("ann"), tried.open("bob")) == (False, True)
    clock.forward(60)
    assert tried.open("ann")


def test_the_name_that_failed_longest_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authority, "_KEPT", 2)
    now = datetime(2026, 11, 22, tzinfo=UTC)
    tried = FailureCounter(lambda: now, 1)
    for name in ("ann", "bob", "ann", "cem"):
        tried.failed(name)
    assert [tried.open(name) for name in ("ann", "bob", "cem")] == [False, True, False]
