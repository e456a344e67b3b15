"""Calls that share a segment: each has its own fate, and the segment one form."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from lakewarden.base.clock import HELD_AT_MOST, random_id
from lakewarden.base.setting_sections import LogSettings
from lakewarden.catalog.model import TableSchema
from lakewarden.errors import BeingErased, Conflict, LakewardenError, NotFound, StorageUnavailable
from lakewarden.log.objects.cuts.closing import close_user
from lakewarden.log.objects.put import WriterTerms
from lakewarden.log.objects.writer import LogWriter
from lakewarden.log.position import NOTHING, Receipt, end_of, seq_of
from lakewarden.log.record import UPSERT, Batch, PlainRow, log_batch
from lakewarden.log.touches import Touched
from tests.fixtures.patience import PATIENCE
from tests.log.build import LOG, NOTES, Store, column, notes, pending_ids, view_of, writer


class Interrupted(BaseException):
    """The thread that leads is interrupted."""


Outcome = Receipt | LakewardenError | Interrupted


@dataclass(frozen=True)
class Behind:
    """A conditional append: what it puts, what it read up to, and of which keys."""

    batch: Batch
    after: int
    keys: Touched | None = None


def shared(
    store: Store,
    batches: Sequence[Batch | Behind],
    meanwhile: Callable[[], None] = lambda: None,
    first: Batch | None = None,
    settings: LogSettings | None = None,
) -> list[Outcome]:
    """What becomes of calls that wait for the segment of a first one; `meanwhile` is done when all of them wait."""
    common, entered, go_on = writer(store, settings), threading.Event(), threading.Event()

    def hold(call: str, _key: str) -> None:
        if call == "create":
            store.before = lambda call, key: None
            entered.set()
            assert go_on.wait(PATIENCE)

    def outcome(call: Batch | Behind) -> Outcome:
        try:
            return common.append(call.batch, call.after, call.keys) if isinstance(call, Behind) else common.append(call)
        except (LakewardenError, Interrupted) as error:
            return error

    store.before = hold
    with ThreadPoolExecutor(len(batches) + 1) as pool:
        leader = pool.submit(outcome, first or notes("first", 0))
        assert entered.wait(PATIENCE)
        rest = []
        for number, batch in enumerate(batches, 1):
            rest.append(pool.submit(outcome, batch))
            while len(common.gathering._waiting) < number:
                threading.Event().wait(0.001)
        meanwhile()
        go_on.set()
        assert isinstance(leader.result(PATIENCE), Receipt)
        return [each.result(PATIENCE) for each in rest]


def test_calls_of_two_schema_versions_share_no_segment(store: Store) -> None:
    newer = TableSchema(2, (*NOTES.columns, column(3, "more", "TEXT")), ("id",))
    later = log_batch(newer, pa.table({"id": [2], "text": ["t"], "more": ["m"]}), "u", UPSERT)
    outcomes = shared(store, [notes("u", 1), later, notes("u", 3)])
    assert all(isinstance(each, Receipt) for each in outcomes)
    assert [[each.schema_version for each in header.ranges] for header in view_of(store).run] == [[1], [1], [2], [1]]


def note(user: str, number: int) -> PlainRow:
    return PlainRow(NOTES, user, {"id": number, "text": f"{user} {number}"})


def test_plain_rows_of_a_user_become_one_chunk(store: Store) -> None:
    outcomes = shared(store, [note("u", 1), note("v", 2), notes("u", 3, 4), note("u", 5), note("v", 6)], first=note("u", 0))
    assert [[(each.user, each.rows) for each in header.ranges] for header in view_of(store).run] == [
        [("u", 1)],
        [("u", 2), ("u", 2), ("v", 2)],
    ]
    assert pending_ids(store, "u") == [0, 3, 4, 1, 5]
    assert pending_ids(store, "v") == [2, 6]
    assert outcomes == [
        Receipt(1, seq_of(1, 2)),
        Receipt(1, seq_of(1, 4)),
        Receipt(2, seq_of(1, 1)),
        Receipt(1, seq_of(1, 3)),
        Receipt(1, seq_of(1, 5)),
    ], "each knows the place of its own rows"
    assert view_of(store).end == end_of(1)


def test_plain_rows_of_two_schema_versions_share_no_segment(store: Store) -> None:
    newer = TableSchema(2, (*NOTES.columns, column(3, "more", "TEXT")), ("id",))
    later = PlainRow(newer, "u", {"id": 2, "text": "t", "more": "m"})
    assert all(isinstance(each, Receipt) for each in shared(store, [note("u", 1), later, note("u", 3)]))
    assert [[each.schema_version for each in header.ranges] for header in view_of(store).run] == [[1], [1], [2], [1]]


def test_plain_rows_share_a_segment_as_far_as_it_goes(store: Store) -> None:
    large = PlainRow(NOTES, "u", {"id": 1, "text": "x" * 600})
    outcomes = shared(store, [large, large, note("u", 2)], settings=LogSettings(segment_max_bytes=1 << 10))
    assert all(isinstance(each, Receipt) for each in outcomes)
    assert [len(header.ranges) for header in view_of(store).run] == [1, 1, 1]


def test_of_plain_rows_those_of_a_closed_user_are_refused(store: Store) -> None:
    outcomes = shared(store, [note("u", 1), note("v", 1)], lambda: close_user(store, LOG, "U"))
    assert [type(each) for each in outcomes] == [BeingErased, Receipt]
    assert pending_ids(store, "v") == [1]


def test_a_plain_row_conflicts_with_what_touches_its_user(store: Store) -> None:
    calls = [Behind(notes("u", 2), NOTHING), Behind(note("v", 3), NOTHING)]
    assert [type(each) for each in shared(store, calls, first=note("u", 3))] == [Conflict, Receipt]


def keys(user: str, *ids: int) -> Touched:
    return {user: frozenset((each,) for each in ids)}


def test_conditional_calls_that_touch_nothing_of_each_other_share_a_segment(store: Store) -> None:
    calls = [Behind(notes(user, 1), NOTHING) for user in ("u", "v", "w")]
    assert all(isinstance(each, Receipt) for each in shared(store, calls))
    assert [len(header.ranges) for header in view_of(store).run] == [1, 3], "behind the first one's put, which touches none"


def test_conditional_calls_of_one_user_share_a_segment_if_their_keys_differ(store: Store) -> None:
    calls = [Behind(notes("u", each), NOTHING, keys("u", each)) for each in (1, 2, 1)]
    outcomes = shared(store, calls)
    assert [type(each) for each in outcomes] == [Receipt, Receipt, Conflict]
    assert pending_ids(store, "u") == [1, 2]


def test_of_conditional_calls_that_read_all_rows_of_a_user_one_is_taken(store: Store) -> None:
    outcomes = shared(store, [Behind(notes("u", 1), NOTHING), Behind(notes("u", 2), NOTHING)])
    assert [type(each) for each in outcomes] == [Receipt, Conflict]


def test_a_conditional_call_comes_behind_no_own_put_that_touches_what_it_read(store: Store) -> None:
    calls = [Behind(notes("u", 2), NOTHING), Behind(notes("u", 3), NOTHING, keys("u", 3)), Behind(notes("v", 1), NOTHING)]
    assert [type(each) for each in shared(store, calls, first=notes("u", 3))] == [Conflict, Conflict, Receipt]


def test_a_conditional_call_comes_behind_no_put_of_another_process(store: Store) -> None:
    first = writer(store)
    first.append(notes("first", 1))
    writer(store).append(notes("other", 1))
    with pytest.raises(Conflict):
        first.append(notes("u", 1), NOTHING)
    first.append(notes("first", 2))
    with pytest.raises(Conflict):
        first.append(notes("u", 1), NOTHING)
    first.append(notes("u", 1), 1)


def test_a_conditional_call_shares_no_segment_with_others_that_read_nothing(store: Store) -> None:
    calls: list[Batch | Behind] = [notes("v", 1), Behind(notes("u", 1), NOTHING), notes("w", 1)]
    assert all(isinstance(each, Receipt) for each in shared(store, calls))
    assert [len(header.ranges) for header in view_of(store).run] == [1, 1, 1, 1]


def test_who_shares_a_segment_with_a_closed_user_is_taken(store: Store) -> None:
    outcomes = shared(store, [notes("u", 1), notes("v", 1)], lambda: close_user(store, LOG, "U"))
    assert [type(each) for each in outcomes] == [BeingErased, Receipt]
    assert pending_ids(store, "v") == [1]
    assert pending_ids(store, "u") in ([], [1]), "an erasure takes what was put before it knew"


def test_who_waits_for_a_leader_that_is_interrupted_is_told(store: Store) -> None:
    def interrupt(call: str, _key: str) -> None:
        if call == "create":
            store.before = lambda call, key: None
            raise Interrupted

    def next_put() -> None:
        store.before = interrupt

    outcomes = shared(store, [notes("u", 1), notes("v", 1)], next_put)
    assert [type(each) for each in outcomes] == [Interrupted, StorageUnavailable]
    assert isinstance(writer(store).append(notes("v", 2)), Receipt)


def test_who_is_closed_while_the_segment_is_put_is_told(store: Store) -> None:
    def close(call: str, _key: str) -> None:
        if call == "create":
            store.before = lambda call, key: None
            close_user(store, LOG, "U")

    store.before = close
    with pytest.raises(BeingErased):
        writer(store).append(notes("u", 1))


@pytest.mark.parametrize("sleeps", ["before", "within"])
def test_who_slept_for_long_asks_whether_the_table_is_there(store: Store, sleeps: str) -> None:
    now, asked = [datetime(2026, 11, 21, 12, tzinfo=UTC)], [0]

    def sleep(call: str, _key: str) -> None:
        if call == "create":
            now[0] += HELD_AT_MOST + timedelta(seconds=1)

    def still_there() -> None:
        asked[0] += 1
        raise NotFound("it was dropped")

    late = LogWriter.of(store, LOG, LogSettings(), lambda: now[0], random_id, str.upper, WriterTerms(still_there=still_there))
    late.append(notes("u", 1))
    assert asked == [0]
    if sleeps == "within":
        store.before = sleep
    else:
        sleep("create", "")
    with pytest.raises(NotFound, match="it was dropped"):
        late.append(notes("u", 2))
    assert asked == [1]


# Waiting for who is announced


class Announced(threading.Thread):
    """A thread that announces an append, and goes on when it may."""

    def __init__(self, log: LogWriter, call: Batch | Behind | None) -> None:
        super().__init__(daemon=True)
        self._log = log
        self._call = call
        self._there, self._go_on = threading.Event(), threading.Event()
        self._outcome: Receipt | LakewardenError | None = None
        self.start()
        assert self._there.wait(PATIENCE)

    def run(self) -> None:
        with self._log.gathering.announced():
            self._there.set()
            assert self._go_on.wait(PATIENCE)
            self._outcome = outcome_of(self._log, self._call) if self._call else None

    def go_on(self) -> None:
        self._go_on.set()

    def ended(self) -> Receipt | LakewardenError | None:
        self.join(PATIENCE)
        assert not self.is_alive()
        return self._outcome


FOREVER = LogSettings(gather_seconds=10 * PATIENCE)


def outcome_of(log: LogWriter, call: Batch | Behind) -> Receipt | LakewardenError:
    try:
        return log.append(call.batch, call.after, call.keys) if isinstance(call, Behind) else log.append(call)
    except LakewardenError as error:
        return error


def led(log: LogWriter, call: Batch | Behind, pool: ThreadPoolExecutor) -> Future[Receipt | LakewardenError]:
    """A call that leads, and waits for who is announced; or is through, if it does not."""
    leader = pool.submit(outcome_of, log, call)
    while not (log.gathering._expected or leader.done()):
        threading.Event().wait(0.001)
    return leader


def segments(store: Store) -> list[list[str]]:
    return [[each.user for each in header.ranges] for header in view_of(store).run]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def test_a_segment_waits_for_who_is_announced(store: Store, pool: ThreadPoolExecutor) -> None:
    log = writer(store, FOREVER)
    coming = [Announced(log, notes(f"v{number}", number)) for number in range(3)]
    leader = led(log, notes("u", 1), pool)
    for each in coming:
        each.go_on()
    assert isinstance(leader.result(PATIENCE), Receipt)
    assert all(isinstance(each.ended(), Receipt) for each in coming)
    assert sorted(segments(store)[0]) == ["u", "v0", "v1", "v2"]
    assert len(segments(store)) == 1


def test_it_does_not_wait_for_who_is_announced_later(store: Store, pool: ThreadPoolExecutor) -> None:
    log = writer(store, FOREVER)
    first = Announced(log, notes("v", 1))
    leader = led(log, notes("u", 1), pool)
    later = Announced(log, notes("w", 1))
    first.go_on()
    assert isinstance(leader.result(PATIENCE), Receipt)
    later.go_on()
    assert (isinstance(later.ended(), Receipt), len(segments(store))) == (True, 2)


def test_it_goes_on_when_who_is_announced_gives_up(store: Store, pool: ThreadPoolExecutor) -> None:
    log = writer(store, FOREVER)
    refused = Announced(log, None)
    leader = led(log, notes("u", 1), pool)
    refused.go_on()
    assert isinstance(leader.result(PATIENCE), Receipt)
    assert refused.ended() is None


def test_it_waits_for_no_longer_than_the_settings_say(store: Store, pool: ThreadPoolExecutor) -> None:
    log = writer(store, LogSettings(gather_seconds=0.001))
    slow = Announced(log, notes("v", 1))
    assert isinstance(pool.submit(log.append, notes("u", 1)).result(PATIENCE), Receipt)
    slow.go_on()
    assert (isinstance(slow.ended(), Receipt), segments(store)) == (True, [["u"], ["v"]])


def test_who_is_alone_or_may_not_wait_does_not_wait(store: Store, pool: ThreadPoolExecutor) -> None:
    log = writer(store, FOREVER)
    alone = Announced(log, notes("u", 1))
    alone.go_on()
    assert isinstance(alone.ended(), Receipt)
    at_once = writer(store, LogSettings(gather_seconds=0))
    other = Announced(at_once, None)
    assert isinstance(pool.submit(at_once.append, notes("v", 1)).result(PATIENCE), Receipt)
    other.go_on()


def test_it_goes_on_when_the_segment_is_full(store: Store, pool: ThreadPoolExecutor) -> None:
    log = writer(store, LogSettings(gather_seconds=10 * PATIENCE, segment_max_rows=2))
    never, second = Announced(log, None), Announced(log, notes("v", 1, 2))
    leader = led(log, notes("u", 1), pool)
    second.go_on()
    assert isinstance(leader.result(PATIENCE), Receipt)
    never.go_on()
    assert (isinstance(second.ended(), Receipt), segments(store)) == (True, [["u"], ["v"]])


def test_who_is_interrupted_while_it_waits_writes_nothing_and_hands_over(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    log = writer(store, FOREVER)
    never, second = Announced(log, None), Announced(log, notes("v", 1))
    gathered = log.gathering._gathered

    def interrupted(*_: object) -> None:
        monkeypatch.undo()
        second.go_on()
        while len(log.gathering._waiting) < 2:
            gathered.wait(0.001)
        never.go_on()
        raise Interrupted

    monkeypatch.setattr(gathered, "wait_for", interrupted)
    with pytest.raises(Interrupted):
        log.append(notes("u", 1))
    assert (isinstance(second.ended(), Receipt), segments(store)) == (True, [["v"]])


def test_conditional_calls_share_the_segment_that_waits_for_them_where_they_touch_other_rows(
    store: Store, pool: ThreadPoolExecutor
) -> None:
    log = writer(store, FOREVER)
    same = Announced(log, Behind(notes("u", 1), NOTHING, keys("u", 1)))
    other = Announced(log, Behind(notes("u", 2), NOTHING, keys("u", 2)))
    leader = led(log, Behind(notes("u", 1), NOTHING, keys("u", 1)), pool)
    other.go_on()
    while len(log.gathering._waiting) < 2:
        threading.Event().wait(0.001)
    same.go_on()
    assert isinstance(leader.result(PATIENCE), Receipt)
    assert isinstance(other.ended(), Receipt)
    assert isinstance(same.ended(), Conflict)
    assert (segments(store), pending_ids(store, "u")) == ([["u", "u"]], [1, 2])
