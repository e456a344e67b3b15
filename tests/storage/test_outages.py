"""A store that cannot be reached is waited for once, and not by each who asks it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from lakewarden.base.connection import Connection, Location
from lakewarden.errors import StorageUnavailable, Unreachable
from lakewarden.storage import remote
from lakewarden.storage.clients import Outages
from lakewarden.storage.open import open_store
from tests.fixtures.line import Line, line_to
from tests.fixtures.minio import MinioServer

FAR = Location("s3://lake/far", Connection("http://127.0.0.1:9"))


@dataclass
class Watch:
    """A clock that stands until it is moved."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def outages(watch: Watch) -> Outages:
    return Outages(watch)


def ask(outages: Outages, watch: Watch, seconds: float, error: StorageUnavailable) -> None:
    with outages.requesting(FAR, "cannot read a"):
        watch.now += seconds
        raise error


def fails(outages: Outages, watch: Watch, seconds: float) -> None:
    error = Unreachable("cannot read a: nothing listens there")
    with pytest.raises(Unreachable) as failed:
        ask(outages, watch, seconds, error)
    assert failed.value is error


def is_asked(outages: Outages, location: Location = FAR) -> bool:
    try:
        with outages.requesting(location, "cannot read b"):
            return True
    except Unreachable:
        return False


def test_a_request_that_was_not_made_says_why(outages: Outages, watch: Watch) -> None:
    fails(outages, watch, 5)
    watch.now += 2
    why = "nothing listens there; that was 2 s ago, and it is tried again in 3 s"
    with pytest.raises(Unreachable, match=f"^cannot read b: {why}$"), outages.requesting(FAR, "cannot read b"):
        pass


@pytest.mark.parametrize(("waited", "spared"), [(1, 1), (8, 8), (120, 10)])
def test_it_is_not_asked_for_as_long_as_it_was_waited_for(outages: Outages, watch: Watch, waited: float, spared: float) -> None:
    fails(outages, watch, waited)
    watch.now += spared - 0.5
    assert not is_asked(outages)
    assert not is_asked(outages, FAR.below("another/scope"))
    watch.now += 1
    assert is_asked(outages)


def test_another_endpoint_or_bucket_is_asked(outages: Outages, watch: Watch) -> None:
    fails(outages, watch, 5)
    assert is_asked(outages, Location(FAR.uri, Connection("http://127.0.0.1:10")))
    assert is_asked(outages, Location("s3://lake2/far", FAR.connection))
    assert not is_asked(outages)


def test_an_answer_ends_it(outages: Outages, watch: Watch) -> None:
    with outages.requesting(FAR, "cannot read c"):  # on its way when another gives up
        fails(outages, watch, 5)
    assert is_asked(outages)


def test_what_is_answered_with_an_error_is_no_outage(outages: Outages, watch: Watch) -> None:
    with pytest.raises(StorageUnavailable):
        ask(outages, watch, 5, StorageUnavailable("cannot read a: it keeps failing"))
    assert is_asked(outages)


@pytest.fixture
def line(minio: MinioServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    with line_to(minio.endpoint) as line:
        monkeypatch.setattr(remote, "OUTAGES", Outages())
        yield line


@pytest.mark.slow
def test_thousands_of_requests_wait_once(line: Line) -> None:
    store = open_store(Location("s3://lake/outages", Connection(line.endpoint)))
    store.put("a", b"x")
    with line.cut("silent"):
        messages = set()
        for number in range(2_000):
            with pytest.raises(Unreachable) as failed:
                store.get(f"a{number}")
            messages.add(failed.value.message.partition(": ")[2].partition(";")[0])
        assert messages == {f"it does not answer ({line.endpoint})"}
        assert line.connections <= 2
        for write in (store.create, store.put):
            with pytest.raises(Unreachable, match="tried again in"):
                write("b", b"x")


def test_the_state_is_asked_each_time(line: Line) -> None:
    state = open_store(Location("s3://lake/outages/_lakewarden", Connection(line.endpoint)))
    with line.cut("refused"):
        for _ in range(2):
            with pytest.raises(Unreachable, match=r"nothing listens there \(http://[0-9.:]+\)$"):
                state.get("a")
