"""The ledger: what is known stays known, numbers are used once, and a look-up costs by what is asked."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lakewarden.base.clock import random_id
from lakewarden.base.connection import Location
from lakewarden.catalog.state import ledger_runs
from lakewarden.catalog.state.ledger import Attempt, Ledger, ObjectBatch, ObjectFate, OfferedObject
from lakewarden.catalog.state.ledger_faults import faults_of, give_up
from lakewarden.catalog.state.ledger_runs import RunName
from lakewarden.errors import Corrupt
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.open import open_store
from lakewarden.storage.sources import SourceObject

NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture
def store() -> ObjectStore:
    return open_store(Location(f"memory://{random_id()}-ledger"))


def batch(number: int, *keys: str, etag: str = "1") -> ObjectBatch:
    return ObjectBatch(number, "IN-1", NOW, tuple(OfferedObject(SourceObject(key, 1, etag, NOW)) for key in keys))


def take(ledger: Ledger, *keys: str, etag: str = "1", left: tuple[str, ...] = ()) -> None:
    made = batch(ledger.look().next, *keys, etag=etag)
    assert ledger.add(made)
    taken = tuple(ObjectFate("left" if key in left else "ingested") for key in keys)
    attempt = Attempt(made.number + 1, made.number, "IN-1", NOW, taken)
    assert ledger.add(attempt)
    ledger.settle(made, attempt)


def known(ledger: Ledger, *keys: str) -> dict[str, int | None]:
    return {key: found.etag for key, found in ledger.known(ledger.look(), keys).items()}


def test_what_was_taken_is_known_with_its_newest_etag(store: ObjectStore) -> None:
    ledger = Ledger(store, "pl_1")
    take(ledger, "a", "b", "c", left=("c",))
    take(ledger, "a", etag="2")
    assert known(ledger, "a", "b", "c", "d") == {"a": ledger_runs.etag_digest("2"), "b": ledger_runs.etag_digest("1")}
    assert known(Ledger(store, "pl_2"), "a") == {}


@pytest.mark.slow
def test_runs_are_merged_and_their_number_stays_small(store: ObjectStore) -> None:
    ledger = Ledger(store, "pl_1")
    for number in range(300):
        take(ledger, f"{number}", "again", etag=str(number))
        if number == 15:
            assert [name.level for name in ledger.look().runs] == [1]
            assert known(Ledger(store, "pl_1"), "again") == {"again": ledger_runs.etag_digest("15")}
    view = ledger.look()
    assert sorted(name.level for name in view.runs) == [0] * 12 + [1] * 2 + [2]
    assert (view.settled, view.open) == (600, ())
    assert sum(name.count for name in view.runs) == 300 + 12 + 2 + 1, "of each object one record in a run"
    other = Ledger(store, "pl_1")
    assert known(other, "again", "0", "299") == {
        "again": ledger_runs.etag_digest("299"),
        "0": ledger_runs.etag_digest("0"),
        "299": ledger_runs.etag_digest("299"),
    }
    assert store.keys("pipelines/pl_1/entries") == []


def test_an_open_batch_is_found_and_attempts_at_settled_ones_are_passed_over(store: ObjectStore) -> None:
    ledger = Ledger(store, "pl_1")
    take(ledger, "a")
    assert ledger.add(Attempt(3, 1, "IN-2", NOW, (ObjectFate("ingested"),))), "a slow attempt at the batch that is settled"
    assert ledger.open_batch(ledger.look()) is None
    made = batch(4, "b")
    assert ledger.add(made)
    assert ledger.open_batch(ledger.look()) == made
    assert not ledger.add(batch(4, "c")), "the number is taken"


def test_a_number_that_was_settled_is_not_used_again(store: ObjectStore) -> None:
    """A process is paused between its look and its entry, and finds the number free again."""
    ledger, slow = Ledger(store, "pl_1"), Ledger(store, "pl_1")
    view = slow.look()
    take(ledger, "a")
    assert not slow.add(batch(view.next, "a"))
    assert ledger.open_batch(ledger.look()) is None
    assert store.keys("pipelines/pl_1/entries") == []


def test_settling_twice_changes_nothing(store: ObjectStore) -> None:
    ledger = Ledger(store, "pl_1")
    made, attempt = batch(1, "a"), Attempt(2, 1, "IN-1", NOW, (ObjectFate("ingested"),))
    for _ in range(2):
        ledger.settle(made, attempt)
    assert ledger.look().runs == (RunName(0, 1, 2, 1),)


@pytest.mark.slow
def test_a_few_of_a_million_are_found_by_a_few_small_reads(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 1_000_000
    rows = ledger_runs.merged([_random(count), ledger_runs.records_of([(f"k{number}", "e") for number in range(20)], 7)])
    name = RunName(5, 1, 9, len(rows))
    store.create(f"pipelines/pl_1/known/{name}", rows.tobytes())
    read: list[int] = []
    real = type(store).get_range

    def counted(self: ObjectStore, key: str, start: int, length: int) -> bytes:
        read.append(length)
        return real(self, key, start, length)

    monkeypatch.setattr(type(store), "get_range", counted)
    monkeypatch.setattr(type(store), "get", None)
    ledger = Ledger(store, "pl_1")
    found = known(ledger, *(f"k{number}" for number in range(20)), "new")
    assert found == {f"k{number}": ledger_runs.etag_digest("e") for number in range(20)}
    assert (len(read), max(read) <= 150_000) == (21, True)


def _random(count: int) -> ledger_runs.Records:
    import numpy as np

    made = np.zeros(count, ledger_runs.RECORD)
    made["high"] = np.random.default_rng(1).integers(0, 1 << 64, count, dtype="u8", endpoint=False)
    return made


def begun(ledger: Ledger, *keys: str) -> tuple[ObjectBatch, Attempt]:
    made = batch(ledger.look().next, *keys)
    assert ledger.add(made)
    attempt = Attempt(made.number + 1, made.number, "IN-1", NOW, tuple(ObjectFate("ingested") for _ in keys))
    assert ledger.add(attempt)
    return made, attempt


def test_a_landed_number_that_the_ledger_lacks_is_corrupt(store: ObjectStore) -> None:
    ledger = Ledger(store, "pl_1")
    made, attempt = begun(ledger, "a")
    assert ledger.attempt(attempt.number, made) == attempt
    with pytest.raises(Corrupt, match="number 3"):
        ledger.attempt(3, made)
    other = Attempt(3, 9, "IN-1", NOW, ())
    assert ledger.add(other)
    with pytest.raises(Corrupt):
        ledger.attempt(3, made)
    ledger.settle(made, attempt)
    assert ledger.attempt(attempt.number, made) is None, "another process settled it"


def test_runs_follow_each_other_where_attempts_were_lost(store: ObjectStore) -> None:
    ledger = Ledger(store, "pl_1")
    for number in range(40):
        made, attempt = begun(ledger, f"{number}")
        assert ledger.add(Attempt(attempt.number + 1, made.number, "IN-2", NOW, (ObjectFate("left"),)))
        ledger.settle(made, attempt)
        ledger.settle(made, attempt)
        assert not faults_of(ledger, attempt.number, ledger.cut_off())
    assert ledger_runs.gaps(ledger.look().runs) == []
    assert known(ledger, *map(str, range(40))).keys() == set(map(str, range(40)))


@pytest.mark.parametrize("which", range(4))
def test_each_lost_entry_or_run_is_missed(store: ObjectStore, which: int) -> None:
    ledger = Ledger(store, "pl_1")
    take(ledger, "a")
    take(ledger, "b")
    made, attempt = begun(ledger, "c")
    keys = sorted(store.keys("pipelines/pl_1"))
    assert len(keys) == 4
    store.delete([keys[which]])
    faults = faults_of(ledger, attempt.number, ledger.cut_off())
    assert faults
    give_up(ledger, faults)
    assert not faults_of(ledger, attempt.number, ledger.cut_off())
    assert ledger.look().next > made.number
    assert set(known(ledger, "a", "b", "z").values()) == {None}
    assert ledger.open_batch(ledger.look()) is None


def test_what_a_lost_run_may_have_known_is_not_certain(store: ObjectStore) -> None:
    ledger = Ledger(store, "pl_1")
    take(ledger, "a")
    take(ledger, "b")
    ledger.give_up(1, ledger.look().settled)
    take(ledger, "b")
    assert known(ledger, "a", "b", "new") == {"a": None, "b": ledger_runs.etag_digest("1"), "new": None}
    ledger.pass_over(ledger.look())
    assert known(ledger, "a", "b", "new") == {"a": ledger_runs.etag_digest("1"), "b": ledger_runs.etag_digest("1")}
    assert not faults_of(ledger, 0, ledger.cut_off())


def test_behind_a_number_that_is_certain_only_later_ones_are_unknown(store: ObjectStore) -> None:
    ledger = Ledger(store, "pl_1")
    take(ledger, "a")
    certain = ledger.look().settled
    take(ledger, "b")
    ledger.give_up(certain + 1, ledger.look().settled)
    assert known(ledger, "a", "b") == {"a": ledger_runs.etag_digest("1"), "b": None}
