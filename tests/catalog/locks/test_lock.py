"""The catalog lock: one at a time, taken over from the dead, and no commit by a holder that lost it."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from lakewarden.base.clock import system_clock
from lakewarden.base.connection import Location
from lakewarden.base.setting_sections import LockSettings
from lakewarden.catalog.changes.leases import grant, under
from lakewarden.catalog.changes.objects import add_namespace
from lakewarden.catalog.locks import CatalogLock, LockFactory, turns_of
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.store import CatalogStore
from lakewarden.client import Lakehouse
from lakewarden.errors import Conflict, NotFound
from lakewarden.storage.open import open_store
from tests.fixtures.children import KILLED, ended, exit_statuses, start
from tests.fixtures.lakes import NOTES, make_notes, notes
from tests.fixtures.patience import PATIENCE
from tests.fixtures.postgres import PostgresServer

QUICK = LockSettings(lease_seconds=0.3, acquire_seconds=PATIENCE)
"""The lease of a holder that died is soon over; a live one may lose it on a busy machine: with rivals, CALM."""
CALM = LockSettings(lease_seconds=PATIENCE, acquire_seconds=PATIENCE)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def state(warehouse_uri: str) -> str:
    """A place for a catalog."""
    return f"{warehouse_uri}/_lakewarden"


@pytest.fixture
def on_postgres(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in {"HOST": postgres.host, "PORT": str(postgres.port), "USER": postgres.user}.items():
        monkeypatch.setenv(f"PG{name}", value)
    monkeypatch.setenv("PGDATABASE", postgres.database)
    return iter([None])


def catalog_at(state: str) -> CatalogStore:
    return CatalogStore(open_store(Location(state)), system_clock)


def count_up(factory: LockFactory, counter: Path, times: int) -> None:
    """Reads, waits and writes: two at once would lose a step."""

    def step() -> None:
        seen = int(counter.read_text())
        time.sleep(0.002)
        counter.write_text(str(seen + 1))

    lock = factory.create()
    for _ in range(times):
        lock.run_with_lock("chat", "messages", step)


def _count_in_processes(factory: LockFactory, counter: Path) -> int:
    counter.write_text("0")
    assert exit_statuses([(count_up, factory, counter, 10)] * 3) == [0, 0, 0]
    return int(counter.read_text())


@pytest.mark.slow
@pytest.mark.both_stores
def test_processes_take_turns(state: str, tmp_path: Path) -> None:
    assert _count_in_processes(LockFactory(state, CALM), tmp_path / "counter") == 30
    assert catalog_at(state).read().leases == {}


@pytest.mark.usefixtures("on_postgres")
def test_processes_take_turns_by_postgres(tmp_path: Path) -> None:
    factory = LockFactory(str(tmp_path / "state"), replace(CALM, kind="postgres"))
    assert _count_in_processes(factory, tmp_path / "counter") == 30


@pytest.mark.slow
def test_threads_take_turns_in_one_process(tmp_path: Path) -> None:
    factory = LockFactory(str(tmp_path / "state"), replace(CALM, kind="process"))
    counter = tmp_path / "counter"
    counter.write_text("0")
    threads = [threading.Thread(target=count_up, args=(factory, counter, 20)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.read_text() == "80"


def die_holding(factory: LockFactory) -> None:
    with factory.create().hold("chat", "messages"):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.both_stores
def test_the_lock_of_a_killed_process_is_taken_over(state: str) -> None:
    factory = LockFactory(state, QUICK)
    assert ended(start(die_holding, factory)) == KILLED
    left = catalog_at(state).read().leases["chat.messages"]
    with factory.create().hold("chat", "messages") as lease:
        assert lease.token > left.token


@pytest.mark.usefixtures("on_postgres")
def test_postgres_knows_at_once_that_a_holder_died(tmp_path: Path) -> None:
    slow = LockSettings(kind="postgres", lease_seconds=3600.0, acquire_seconds=PATIENCE)
    factory = LockFactory(str(tmp_path / "state"), slow)
    assert ended(start(die_holding, factory)) == KILLED
    assert factory.create().run_with_lock("chat", "messages", lambda: "done") == "done"


@pytest.mark.both_stores
def test_a_holder_that_lost_its_lease_cannot_commit(state: str) -> None:
    """It slept through its lease: whatever it does now is refused, while the next one holds the lock and after."""
    catalog = catalog_at(state)
    asleep = catalog.change(grant("chat.messages", "sleeper", 0.2, None)).leases["chat.messages"]

    def its_change(before: Catalog) -> Catalog:
        return add_namespace(before, "late", NOW)

    with LockFactory(state, QUICK).create().hold("chat", "messages") as lease:
        with pytest.raises(Conflict, match=f"taken over by {lease.owner} while sleeper worked"):
            catalog_at(state).change(under(asleep, its_change))
        catalog.change(under(lease, lambda before: add_namespace(before, "good", NOW)))
    with pytest.raises(Conflict, match="was given up while sleeper worked"):
        catalog_at(state).change(under(asleep, its_change))
    assert list(catalog.read().namespaces) == ["good"]


@pytest.mark.slow
@pytest.mark.both_stores
def test_a_lease_is_renewed_for_as_long_as_the_work_takes(state: str) -> None:
    """Who waits looks again at every beat, less than a lease later by a clock of its own."""
    hasty = LockSettings(lease_seconds=0.3, acquire_seconds=1.2)
    lock, catalog, now = LockFactory(state, hasty).create(), catalog_at(state), [0.0]

    def until_it_beats(_seconds: float) -> None:
        seen = catalog.read().leases["chat.messages"].beat
        while catalog.read().leases["chat.messages"].beat == seen:
            time.sleep(0.01)
        now[0] += 0.2

    other = CatalogLock(catalog_at(state), turns_of("objects", state), hasty, monotonic=lambda: now[0], pause=until_it_beats)
    with lock.hold("chat", "messages") as lease:
        with pytest.raises(Conflict, match=f"within 1.2 seconds: {lease.owner} holds it"):
            other.run_with_lock("chat", "messages", lambda: None)
        assert now[0] >= 1.2
        assert lock.run_with_lock("chat", "rooms", lambda: "another table's") == "another table's"


def test_what_the_work_raises_comes_out_and_frees_the_lock(tmp_path: Path) -> None:
    def fail() -> None:
        raise NotFound("no such thing")

    lock = LockFactory(str(tmp_path / "state"), QUICK).create()
    with pytest.raises(NotFound, match="no such thing"):
        lock.run_with_lock("chat", "messages", fail)
    assert catalog_at(str(tmp_path / "state")).read().leases == {}, "nobody has to wait for the lease to run out"
    assert lock.run_with_lock("chat", "messages", lambda: 1) == 1


def test_the_factory_pickles(tmp_path: Path) -> None:
    factory = pickle.loads(pickle.dumps(LockFactory(str(tmp_path / "state"), QUICK)))
    lock = factory.create()
    assert isinstance(lock, CatalogLock)
    assert lock.run_with_lock("chat", "messages", lambda: 42) == 42


def _drop(uri: str, start_file: Path) -> None:
    with Lakehouse.open(uri) as lake:
        while not start_file.exists():
            time.sleep(0.001)
        try:
            lake.drop_table(NOTES)
        except NotFound:
            start_file.with_suffix(f".{os.getpid()}").touch()


@pytest.mark.slow
def test_of_two_drops_at_once_one_finds_nothing(tmp_path: Path) -> None:
    uri, go = str(tmp_path / "lake"), tmp_path / "go"
    with Lakehouse.open(uri) as lake:
        make_notes(lake).write(notes({1: "a"}), user="ann")
        lake.flush()
        children = [start(_drop, uri, go) for _ in range(2)]
        go.touch()
        assert [ended(child) for child in children] == [0, 0]
        assert len(list(tmp_path.glob("go.*"))) == 1
        assert lake.tables() == []
