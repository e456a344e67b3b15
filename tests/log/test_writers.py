"""Writers with an identity behind a repair of the log: uncertain where parts are lost, until they are resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.errors import FailedPrecondition, InvalidArgument
from lakewarden.log.log_reader import LogReader
from lakewarden.log.logs import doubt_writers
from lakewarden.log.objects import names
from lakewarden.log.objects.cut import WRITERS_REMEMBERED, newest_cut, remember_published
from lakewarden.log.objects.header import BatchIdentity
from lakewarden.log.once import ANY, UNTAKEN, LastBatch, Resume, WriterBatch, check_resume, writer_key
from lakewarden.log.position import end_of
from tests.log.build import LOG, Store, notes
from tests.log.test_batches import log_of, settle_all


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Batches 0 and 1 are settled, 2 and 3 are not."""
    store = Store(tmp_path)
    for number in range(4):
        assert publish(store, number)
        if number == 1:
            settle_all(store)
    return store


def publish(store: Store, number: int, writer: str = "stream") -> bool:
    return log_of(store).append_once(notes("a", number), WriterBatch(writer, number)) is not None


def lose(store: Store, position: int) -> None:
    store.delete([names.segment_key(LOG, position)])
    log = log_of(store)
    log.give_up(log.faults())


def jump(store: Store, *, lost: bool = True) -> None:
    log_of(store).jump(100, {"a": end_of(100)}, lost=lost)


def stops(store: Store, *numbers: int, writer: str = "stream") -> None:
    for number in numbers:
        with pytest.raises(FailedPrecondition, match=writer):
            publish(store, number, writer)
    with pytest.raises(FailedPrecondition, match=writer):
        log_of(store).published(writer)


@pytest.mark.parametrize("number", [None, 0, 1, 1 << 40])
def test_a_number_is_kept_as_certain_or_uncertain(number: int | None) -> None:
    for last in (LastBatch(number), LastBatch(number, certain=False)):
        assert LastBatch.of(last.kept) == last
    assert LastBatch.of(None) == LastBatch.of(UNTAKEN) == LastBatch(None)
    assert LastBatch(number).kept >= UNTAKEN > LastBatch(number, certain=False).kept


def test_only_two_ways_to_go_on() -> None:
    assert [check_resume(one) for one in ("repeat", "skip")] == ["repeat", "skip"]
    with pytest.raises(InvalidArgument, match="repeat or skip"):
        check_resume("again")


def test_a_lost_segment_makes_every_writer_uncertain(store: Store) -> None:
    lose(store, 2)
    stops(store, 1, 2, 3, 4)
    stops(store, 0, writer="new")
    assert LogReader(store, LOG).last_batches() == {writer_key("stream"): LastBatch(None, certain=False)}
    settle_all(store)
    stops(store, 3, 4)
    stops(store, 0, writer="new")


def test_a_log_behind_a_backup_makes_every_writer_uncertain(store: Store) -> None:
    jump(store)
    stops(store, 3, 4)
    stops(store, 0, writer="new")


def test_a_log_that_only_ends_its_subscriptions_keeps_its_writers(store: Store) -> None:
    jump(store, lost=False)
    assert not publish(store, 3)
    assert publish(store, 4)
    assert publish(store, 0, "new")


def test_rows_that_left_the_log_make_the_known_writers_uncertain(store: Store) -> None:
    doubt_writers(store, LOG)
    stops(store, 3, 4)
    assert publish(store, 0, "new")
    assert LogReader(store, LOG).last_batches()[writer_key("stream")] == LastBatch(3, certain=False)
    before = newest_cut(store, LOG)
    doubt_writers(store, LOG)
    assert newest_cut(store, LOG).published[writer_key("stream")] == before.published[writer_key("stream")]


def test_lost_history_leaves_writers_certain(store: Store) -> None:
    log = log_of(store)
    log.give_up(log.faults())
    assert not publish(store, 3)
    assert publish(store, 4)


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize(("how", "last"), [("repeat", 1), ("skip", 9)])
def test_a_resumed_writer_repeats_or_skips(store: Store, how: Resume, last: int, settled: bool) -> None:
    """`repeat` goes on behind what was settled before the loss; `skip` where it is told, as the last one is not known."""
    lose(store, 2)
    log_of(store).resume("stream", how, 9)
    if settled:
        settle_all(store)
    assert log_of(store).published("stream") == last
    assert not publish(store, last)
    assert publish(store, last + 1)
    settle_all(store)
    assert not publish(store, last + 1)
    log_of(store).resume("stream", "skip", 100)
    assert log_of(store).published("stream") == last + 1, "it goes on by itself"
    log_of(store).resume("new", how, 5)
    assert log_of(store).published("new") == (None if how == "repeat" else 5)


@pytest.mark.parametrize(("how", "last"), [("repeat", None), ("skip", 3)])
def test_a_writer_whose_rows_are_gone_repeats_all_or_goes_on(store: Store, how: Resume, last: int | None) -> None:
    doubt_writers(store, LOG)
    log_of(store).resume("stream", how, 9)
    assert log_of(store).published("stream") == last


def test_a_resumed_writer_that_is_lost_again_stops_again(store: Store) -> None:
    lose(store, 2)
    log_of(store).resume("stream", "skip", 9)
    assert publish(store, 10)
    assert publish(store, 11)
    lose(store, 4)
    stops(store, 11, 12)


def test_an_uncertain_writer_is_not_forgotten_for_others() -> None:
    uncertain = LastBatch(7, certain=False).kept
    many = (BatchIdentity(str(number), number) for number in range(WRITERS_REMEMBERED))
    found = remember_published({ANY: uncertain, "s": uncertain}, [*many, BatchIdentity("s", 9)])
    assert (found[ANY], found["s"]) == (uncertain, uncertain)
