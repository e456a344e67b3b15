"""Keyed writes, whoever sends them: of requests that meet, one writes; an end is known; keys work for a day at least."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.connection import Location
from lakewarden.errors import Conflict, ConstraintViolation
from lakewarden.serve.idempotency import Done, Writes
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.open import open_store

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(Location(f"memory://{tmp_path.name.replace('_', '-')}-writes"))


class Made:
    """What was written, in order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, name: str) -> Callable[[], Done]:
        def write() -> Done:
            self.names.append(name)
            return Done(name.encode(), name.encode())

        return write


@pytest.fixture
def made() -> Made:
    return Made()


def at(store: ObjectStore, now: datetime = NOON) -> Writes:
    return Writes(store, lambda: now)


def before_create(store: ObjectStore, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Something that happens between the next request's look and its claim."""
    create, acts = type(store).create, [act]

    def created(self: ObjectStore, key: str, data: bytes) -> None:
        if acts:
            acts.pop()()
        create(self, key, data)

    monkeypatch.setattr(type(store), "create", created)


def test_of_two_at_the_same_moment_one_writes(store: ObjectStore, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    before_create(store, monkeypatch, lambda: at(store).once("ann", "k", b"r", made("other")))
    assert at(store).once("ann", "k", b"r", made("mine")) == b"other"
    assert made.names == ["other"]


def test_while_the_first_writes_the_second_is_refused(store: ObjectStore, made: Made) -> None:
    def write() -> Done:
        with pytest.raises(Conflict, match="has not ended"):
            at(store).once("ann", "k", b"r", made("second"))
        return made("first")()

    assert at(store).once("ann", "k", b"r", write) == b"first"
    assert made.names == ["first"]


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_that_meet_at_midnight_at_most_one_writes(
    store: ObjectStore, made: Made, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """Each has looked at the days before the other claims; so they claim the key in different days."""
    midnight = datetime(2026, 11, 23, tzinfo=UTC)
    moments = (midnight - timedelta(seconds=1), midnight)
    before_create(store, monkeypatch, lambda: at(store, moments[1 - first]).once("ann", "k", b"r", made("one")))
    with pytest.raises(Conflict, match="midnight"):
        at(store, moments[first]).once("ann", "k", b"r", made("two"))
    assert made.names == ["one"]


def test_a_write_that_failed_has_ended(store: ObjectStore, made: Made) -> None:
    def write() -> Done:
        raise ConstraintViolation("id = 'confidential' is there")

    with pytest.raises(ConstraintViolation):
        at(store).once("ann", "k", b"r", write)
    with pytest.raises(Conflict, match="failed with CONSTRAINT_VIOLATION") as error:
        at(store).once("ann", "k", b"r", made("again"))
    assert ("confidential" in error.value.message, made.names) == (False, [])


def test_what_wrote_nothing_leaves_its_key(store: ObjectStore, made: Made) -> None:
    assert at(store).once("ann", "k", b"r", lambda: Done(b"rows", None)) == b"rows"
    assert at(store).once("ann", "k", b"r", made("now")) == b"now"


def test_the_first_write_of_a_day_leaves_the_keys_of_the_day_before(store: ObjectStore, made: Made) -> None:
    at(store).once("ann", "k", b"r", made("first"))
    for server, key in ((at(store, NOON + timedelta(days=1)), "other"), (at(store, NOON + timedelta(hours=35)), "another")):
        server.once("ann", key, b"r", made(key))
        assert server.once("ann", "k", b"r", made("again")) == b"first"
    at(store, NOON + timedelta(days=2)).once("ann", "last", b"r", made("last"))
    assert at(store, NOON + timedelta(days=2)).once("ann", "k", b"r", made("again")) == b"again", "two days later it is new"
    assert made.names == ["first", "other", "another", "last", "again"]
