"""What one user may take of a server process."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest

from lakewarden.base.setting_sections import ServeSettings
from lakewarden.serve.authority import RequestDeclined
from lakewarden.serve.common import Allowance

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


def test_requests_at_the_same_time_are_counted_by_user_and_until_they_end() -> None:
    allowance = Allowance(ServeSettings(concurrent_per_user=2), lambda: NOON)
    with ExitStack() as running:
        for _ in range(2):
            running.enter_context(allowance.of("ann"))
        with pytest.raises(RequestDeclined, match="concurrent_per_user") as declined, allowance.of("ann"):
            pass
        assert declined.value.status == 429
        with allowance.of("bob"):
            pass
    with allowance.of("ann"):
        pass


def test_a_request_that_fails_is_over_too() -> None:
    allowance = Allowance(ServeSettings(concurrent_per_user=1), lambda: NOON)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), allowance.of("ann"):
            raise ZeroDivisionError


def test_requests_of_a_minute_are_counted_by_user_and_the_next_minute_counts_anew() -> None:
    now = NOON
    allowance = Allowance(ServeSettings(requests_per_minute=2), lambda: now)
    for _ in range(2):
        with allowance.of("ann"):
            pass
    with pytest.raises(RequestDeclined, match="requests_per_minute"), allowance.of("ann"):
        pass
    with allowance.of("bob"):
        pass
    now += timedelta(minutes=1)
    with allowance.of("ann"):
        pass


def test_subscriptions_are_counted_by_user_and_together_until_they_end() -> None:
    allowance = Allowance(ServeSettings(subscriptions_per_user=2, subscriptions=3), lambda: NOON)
    with ExitStack() as followed:
        for user in ("ann", "ann", "bob"):
            followed.enter_context(allowance.following(user))
        for user, why in (("ann", "subscriptions_per_user"), ("bob", "serve.subscriptions\\)")):
            with pytest.raises(RequestDeclined, match=why) as declined, allowance.following(user):
                pass
            assert declined.value.status == 429
    with ExitStack() as followed:
        for user in ("bob", "cem", "ann"):
            followed.enter_context(allowance.following(user))


def test_a_subscription_that_fails_is_over_too() -> None:
    allowance = Allowance(ServeSettings(subscriptions_per_user=1), lambda: NOON)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), allowance.following("ann"):
            raise ZeroDivisionError
