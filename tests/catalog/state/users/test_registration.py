"""What a process may know of the registry without a look."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakewarden.catalog.state.scope_registry import RegisteredUsers, RegistrationLook

_SEEN = RegistrationLook((("*", -1),), 7, datetime(2026, 11, 22, tzinfo=UTC))


@pytest.mark.parametrize(
    ("now", "known"),
    [
        (_SEEN, True),
        (replace(_SEEN, catalog=8, at=_SEEN.at + timedelta(minutes=9)), True),
        (replace(_SEEN, removals=(("hash of ann", 5), ("*", -1))), False),
        (replace(_SEEN, catalog=6), False),
        (replace(_SEEN, at=_SEEN.at + timedelta(minutes=10)), False),
        (replace(_SEEN, at=_SEEN.at - timedelta(seconds=1)), False),
    ],
)
def test_who_was_seen_is_known_while_nothing_may_have_changed(now: RegistrationLook, known: bool) -> None:
    memory = RegisteredUsers()
    memory.note("t", {"ann", "bob"}, _SEEN)
    assert memory.has("t", {"ann"}, now) is known
    assert not memory.has("t", {"ann", "cem"}, now)
    assert not memory.has("other", {"ann"}, now)


def test_the_memory_is_bounded() -> None:
    memory = RegisteredUsers(most=2)
    memory.note("t", {"ann", "bob"}, _SEEN)
    memory.note("other", {"cem"}, _SEEN)
    assert not memory.has("t", {"ann"}, _SEEN)
    assert memory.has("other", {"cem"}, _SEEN)
    memory.note("t", {"ann", "bob", "cem"}, _SEEN)
    assert not memory.has("t", {"ann"}, _SEEN)
