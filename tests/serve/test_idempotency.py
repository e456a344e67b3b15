"""Keyed writes, whoever sends them: of requests that meet, one writes; an end is known; keys work for a day at least."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.base.clock import random_id
from lakewarden.base.connection import Location
from lakewarden.base.scope import TableName
from lakewarden.base.write_key import begin_statement
from lakewarden.errors import (
    Conflict,
    ConstraintViolation,
    Corrupt,
    Internal,
    LakewardenError,
    NotDurable,
    StorageUnavailable,
)
from lakewarden.serve.idempotency import Fate, KeyedRequest, StatementOutcome, StoredAnswer, Writes
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.open import open_store

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.fixture
def store() -> ObjectStore:
    return open_store(Location(f"memory://{random_id()}-writes"))


class Made:
    """What was written, in order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, name: str) -> Callable[[], StoredAnswer]:
        def write() -> StoredAnswer:
            self.names.append(name)
            return StoredAnswer(name.encode(), name.encode())

        return write


@pytest.fixture
def made() -> Made:
    return Made()


class Found:
    """What is found of each statement: the last one of all further ones."""

    def __init__(self, *outcomes: StatementOutcome) -> None:
        self.outcomes = outcomes
        self.outcome = outcomes[0]

    def of(self, key: str, place: TableName | None, since: datetime, *, over: bool) -> StatementOutcome:
        number = int(key.rpartition(".")[2])
        return self.outcomes[number] if len(self.outcomes) > 1 else self.outcome


R = KeyedRequest(b"r", lambda: [None], lambda _outcome: None)


def at(store: ObjectStore) -> Writes:
    return Writes(store, Found(StatementOutcome(Fate.OPEN)))


def before_create(store: ObjectStore, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Something that happens between the next request's look and its claim."""
    create, acts = type(store).create, [act]

    def created(self: ObjectStore, key: str, data: bytes) -> None:
        if acts:
            acts.pop()()
        create(self, key, data)

    monkeypatch.setattr(type(store), "create", created)


def test_of_two_at_the_same_moment_one_writes(store: ObjectStore, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    before_create(store, monkeypatch, lambda: at(store).once("ann", "k", R, made("other")))
    assert at(store).once("ann", "k", R, made("mine")) == b"other"
    assert made.names == ["other"]


def test_while_the_first_writes_the_second_is_refused(store: ObjectStore, made: Made) -> None:
    def write() -> StoredAnswer:
        with pytest.raises(Conflict, match="still be under way"):
            at(store).once("ann", "k", R, made("second"))
        return made("first")()

    assert at(store).once("ann", "k", R, write) == b"first"
    assert made.names == ["first"]


def test_two_that_meet_at_midnight_write_once(store: ObjectStore, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the store's time: the first request begins before it, and the second comes, and the first is sent again, behind it."""
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    now = [midnight - timedelta(seconds=1)]
    monkeypatch.setattr(Writes, "_now", lambda _self, _claimed: now[0])

    def write() -> StoredAnswer:
        now[0] = midnight + timedelta(seconds=1)
        with pytest.raises(Conflict, match="still be under way"):
            at(store).once("ann", "k", R, made("second"))
        return made("first")()

    assert at(store).once("ann", "k", R, write) == at(store).once("ann", "k", R, made("again")) == b"first"
    assert made.names == ["first"]


def test_a_write_that_failed_has_ended(store: ObjectStore, made: Made) -> None:
    def write() -> StoredAnswer:
        raise ConstraintViolation("id = 'confidential' is there")

    with pytest.raises(ConstraintViolation):
        at(store).once("ann", "k", R, write)
    with pytest.raises(Conflict, match="failed with CONSTRAINT_VIOLATION") as error:
        at(store).once("ann", "k", R, made("again"))
    assert ("confidential" in error.value.message, made.names) == (False, [])


def test_what_wrote_nothing_leaves_its_key(store: ObjectStore, made: Made) -> None:
    assert at(store).once("ann", "k", R, lambda: StoredAnswer(b"rows", None)) == b"rows"
    assert at(store).once("ann", "k", R, made("now")) == b"now"


def test_no_servers_clock_removes_a_key_and_the_stores_does_after_two_days(
    tmp_path: Path, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each `Writes` is another server's. It has no clock: a server that is days ahead removes nothing."""
    store = open_store(Location(str(tmp_path / "state")))
    at(store).once("ann", "k", R, made("first"))
    monkeypatch.setattr("lakewarden.base.clock.system_clock", lambda: NOON + timedelta(days=400))
    for key in ("other", "another"):
        at(store).once("ann", key, R, made(key))
        assert at(store).once("ann", "k", R, made("again")) == b"first"
    (mine,) = [path for path in tmp_path.rglob("*.answer") if b"first" in path.read_bytes()]
    for path in (mine, mine.with_suffix("")):
        os.utime(path, (time.time() - 47 * 3600,) * 2)
    assert at(store).once("ann", "k", R, made("again")) == b"first"
    for path in (mine, mine.with_suffix("")):
        os.utime(path, (time.time() - 49 * 3600,) * 2)
    assert at(store).once("ann", "k", R, made("again")) == b"again", "two days later it is new"
    assert made.names == ["first", "other", "another", "again"]


@pytest.mark.parametrize("error", [StorageUnavailable("lost"), NotDurable("lost"), Corrupt("?"), Internal("?")])
def test_an_unknown_outcome_stays_unknown_and_is_found_out(store: ObjectStore, made: Made, error: LakewardenError) -> None:
    def write() -> StoredAnswer:
        raise error

    request = KeyedRequest(b"r", lambda: [TableName("app", "t")], lambda outcome: str(outcome.rows).encode())
    with pytest.raises(type(error)):
        at(store).once("ann", "k", request, write)
    finder = Found(StatementOutcome(Fate.OPEN))
    with pytest.raises(Conflict, match="same key") as said:
        Writes(store, finder).once("ann", "k", request, made("again"))
    assert "new key" not in said.value.message
    finder.outcome = StatementOutcome(Fate.DONE, 3)
    assert Writes(store, finder).once("ann", "k", request, made("again")) == b"3"
    finder.outcome = StatementOutcome(Fate.UNKNOWN)
    assert Writes(store, finder).once("ann", "k", request, made("again")) == b"3", "it is kept"
    assert made.names == []


def test_what_is_proven_not_done_may_be_sent_with_a_new_key(store: ObjectStore, made: Made) -> None:
    def write() -> StoredAnswer:
        raise StorageUnavailable("lost")

    with pytest.raises(StorageUnavailable):
        at(store).once("ann", "k", R, write)
    for finder in (Found(StatementOutcome(Fate.NOT_DONE)), Found(StatementOutcome(Fate.OPEN))):
        with pytest.raises(Conflict, match="a new key may try again"):
            Writes(store, finder).once("ann", "k", R, made("again"))
    assert made.names == []


@pytest.mark.parametrize(
    ("fates", "says"),
    [
        ((Fate.DONE, Fate.OPEN, Fate.OPEN), "1 of its 3 statements are done.*same key"),
        ((Fate.UNKNOWN, Fate.DONE, Fate.NOT_DONE), "2 of its 3 statements are done.*new key may"),
        ((Fate.DONE, Fate.DONE, Fate.DONE), "3 of its 3 statements are done.*do not send"),
        ((Fate.UNKNOWN, Fate.UNKNOWN, Fate.UNKNOWN), "0 of its 3 statements are done.*look whether"),
        ((Fate.DONE, Fate.PARTLY, Fate.NOT_DONE), "1 of its 3 statements are done.*in part.*look at the table"),
    ],
)
def test_of_several_statements_it_says_how_many_are_done(
    store: ObjectStore, made: Made, fates: tuple[Fate, ...], says: str
) -> None:
    def write() -> StoredAnswer:
        raise StorageUnavailable("lost")

    request = KeyedRequest(b"r", lambda: [None] * len(fates), lambda _outcome: b"no")
    with pytest.raises(StorageUnavailable):
        at(store).once("ann", "k", request, write)
    with pytest.raises(Conflict, match=says):
        Writes(store, Found(*map(StatementOutcome, fates))).once("ann", "k", request, made("again"))
    assert made.names == []


def test_an_error_behind_some_statements_says_how_many_are_done(store: ObjectStore, made: Made) -> None:
    def write() -> StoredAnswer:
        begin_statement(2)
        raise ConstraintViolation("x")

    with pytest.raises(ConstraintViolation):
        at(store).once("ann", "k", R, write)
    with pytest.raises(Conflict, match="2 of its statements are done, the others are not: send those again with a new key"):
        at(store).once("ann", "k", R, made("again"))
