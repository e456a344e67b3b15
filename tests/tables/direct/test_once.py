"""A direct write with an identity is made once, whoever repeats it and whatever happened to its first attempt and the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakewarden import Lakehouse
from lakewarden.base.clock import random_id
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import NewFile, direct_name, write_files
from lakewarden.delta.parquet.schema import SEQ
from lakewarden.errors import InvalidArgument
from lakewarden.log.once import WriterBatch
from lakewarden.log.position import position_of
from lakewarden.tables.client import TableClient
from lakewarden.tables.direct.commit import DirectWrite
from lakewarden.tables.direct.effects import Keep
from lakewarden.tables.direct.identities import transaction_app
from lakewarden.tables.direct.revise import Revise
from lakewarden.tables.direct.run import DirectRun
from lakewarden.tables.direct.value import DirectResult, Reserve, TaskFiles
from tests.fixtures.bucket import path_of
from tests.fixtures.clock import Clock
from tests.fixtures.lakes import eventual, notes, strong
from tests.maintenance.steps import Died, dies, then
from tests.tables.direct.boards import ALL_EVENTS, BOARD, EVENTS, ids, make_board, make_events, once, removing, rows

APP = "pl_1"
DAY = 24 * 3600
STEPS = ("direct:written", "direct:committing", "before-link", "direct:committed", "direct:synced", "direct:noted")


def batch(table: TableClient, number: int, text: str = "a") -> DirectResult:
    return table.direct.append([rows({number: text})], once=WriterBatch(APP, number))


def there(table: TableClient) -> list[int]:
    return sorted(row["id"] for row in table.read().to_pylist())


def clean(lake: Lakehouse) -> bool:
    return not [finding for finding in lake.check() if not finding.passed]


def test_a_repeated_write_reads_and_adds_nothing_and_says_so(lake: Lakehouse, events: TableClient) -> None:
    def read() -> Iterator[pa.Table]:
        yield from [pytest.fail("the rows are not needed")]

    first = batch(events, 1)
    again = events.direct.append(read(), once=WriterBatch(APP, 1))
    assert (first.committed, first.repeated) == (True, False)
    assert (again.committed, again.repeated, again.version, again.rows_inserted) == (False, True, first.version, 0)
    assert batch(events, 0).repeated, "a later one stands for it"
    assert batch(events, 2).committed
    assert events.direct.append([rows({9: "other"})], once=WriterBatch("pl_2", 1)).committed
    assert events.direct.append([rows({3: "later attempt"})], once=WriterBatch(APP, 7, above=1)).repeated
    assert there(events) == [1, 2, 9]
    assert (events.direct.last_once(APP), events.direct.last_once("pl_3")) == (2, None)
    assert clean(lake)


def test_a_write_without_rows_counts(events: TableClient) -> None:
    assert events.direct.append([], once=WriterBatch(APP, 1)).committed
    assert events.direct.edit(removing(7), operation="MERGE", predicate="id = 7", once=WriterBatch(APP, 2)).committed
    assert events.direct.last_once(APP) == 2


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_a_killed_write_is_made_by_the_next_or_was(lake: Lakehouse, events: TableClient, warehouse_uri: str, step: str) -> None:
    with lake.subscribe(ALL_EVENTS) as one:
        one.poll()
        with pytest.raises(Died):
            DirectRun(lake.warehouse, events.table, appending(events), dies(step)).run()
        with Lakehouse.open(warehouse_uri) as other:
            did = batch(other.table(EVENTS), 1)
            assert did.repeated == (step in STEPS[3:])
            assert there(other.table(EVENTS)) == [1]
            assert clean(other)
        assert ids(one.poll()) == [1], "the one that died holds nobody back"


@pytest.mark.parametrize("step", ["direct:written", "direct:committing"])
def test_of_two_at_once_one_is_made_and_the_other_leaves_no_file(lake: Lakehouse, events: TableClient, step: str) -> None:
    def other() -> None:
        assert batch(events, 1).committed

    did = DirectRun(lake.warehouse, events.table, appending(events), then(step, once(other))).run()
    assert (did.repeated, there(events)) == (True, [1])
    assert not [finding.message for finding in lake.check() if "no commit names" in finding.message]


def test_rows_are_removed_and_added_in_one_commit(lake: Lakehouse, events: TableClient) -> None:
    batch(events, 1, "old")
    batch(events, 2)
    before = events.history(limit=1)[0].version
    did = events.direct.edit(
        removing(1), operation="MERGE", predicate="id = 1", added=[rows({1: "new", 3: "new"})], once=WriterBatch(APP, 3)
    )
    assert (did.version, did.rows_deleted, did.rows_inserted) == (before + 1, 1, 2)
    assert {row["id"]: row["text"] for row in events.read().to_pylist()} == {1: "new", 2: "a", 3: "new"}
    metrics = events.history(limit=1)[0].operation_metrics
    assert (metrics["numTargetRowsInserted"], metrics["numTargetRowsDeleted"]) == (2, 1)
    assert clean(lake)


def test_a_replacement_that_lost_removes_what_came_in_between_too(lake: Lakehouse, events: TableClient) -> None:
    batch(events, 1, "old")

    def other() -> None:
        events.direct.append([rows({1: "between"})])

    write = DirectWrite("MERGE", Revise(removing(1)), [rows({1: "new"})], {"predicate": "id = 1"}, identity(events, 2))
    DirectRun(lake.warehouse, events.table, write, then("direct:committing", once(other))).run()
    assert events.read().column("text").to_pylist() == ["new"]


def test_rows_of_a_keyed_table_are_replaced_with_those_that_were_pending(lake: Lakehouse) -> None:
    board = make_board(lake)
    board.write(notes({1: "old", 2: "b"}))
    did = board.direct.edit(removing(1), operation="MERGE", predicate="id = 1", added=[rows({1: "new"})])
    assert (did.rows_deleted, did.rows_inserted) == (1, 1)
    lake.flush(BOARD)
    assert strong(board, None) == eventual(board, None) == {1: "new", 2: "b"}


@pytest.mark.slow
def test_the_identity_survives_maintenance_and_restores(lake: Lakehouse, events: TableClient, clock: Clock) -> None:
    for number in range(12):  # past a checkpoint
        batch(events, number)
    lake.optimize(EVENTS)
    lake.restore(EVENTS, version=3, dry_run=False)
    assert there(events) == [0, 1, 2]
    assert batch(events, 11).repeated, "what a restore removed does not come back by itself"
    clock.forward(60 * DAY)
    lake.vacuum(EVENTS, dry_run=False)
    with Lakehouse.open(lake.warehouse.uri, clock=clock) as other:
        assert other.table(EVENTS).direct.last_once(APP) == 11
        assert batch(other.table(EVENTS), 11).repeated
        assert batch(other.table(EVENTS), 12).committed


def test_the_identity_goes_along_when_a_table_is_moved(lake: Lakehouse, events: TableClient) -> None:
    batch(events, 5)
    lake.create_storage(
        "other", type="s3" if lake.warehouse.uri.startswith("s3") else "filesystem", base=f"{lake.warehouse.uri}-other"
    )
    assert [report.outcome for report in lake.move(EVENTS, "other")] == ["done"]
    assert lake.table(EVENTS).direct.last_once(APP) == 5
    assert batch(lake.table(EVENTS), 5).repeated


def test_a_table_that_is_made_again_in_a_dropped_ones_place_starts_anew(lake: Lakehouse, events: TableClient) -> None:
    batch(events, 5)
    lake.drop_table(EVENTS)
    again = make_events(lake)
    assert again.direct.last_once(APP) is None
    assert batch(again, 0).committed


def test_others_see_the_identity_in_delta(lake: Lakehouse, events: TableClient) -> None:
    batch(events, 5)
    path = path_of(lake.warehouse.uri) / "data" / "chat" / "events"
    assert DeltaTable(str(path)).transaction_version(f"lakewarden/once/{events.table.id}/{APP}") == 5


def test_tasks_write_files_that_one_commit_adds(lake: Lakehouse, events: TableClient) -> None:
    did = events.direct.append(TaskFiles(two_files), once=WriterBatch(APP, 1))
    assert did.rows_inserted == 3
    found = events.read().to_pylist()
    assert sorted(row["id"] for row in found) == [1, 2, 3]
    assert clean(lake)
    assert events.direct.append(TaskFiles(two_files), once=WriterBatch(APP, 1)).repeated
    assert there(events) == [1, 2, 3]


def test_files_of_tasks_are_deleted_where_the_write_is_refused(lake: Lakehouse, events: TableClient) -> None:
    def other() -> None:
        batch(events, 1)

    write = DirectWrite("WRITE", Keep(), TaskFiles(two_files), {"mode": "Append"}, identity(events, 1))
    DirectRun(lake.warehouse, events.table, write, then("direct:committing", once(other))).run()
    assert not [finding.message for finding in lake.check() if "no commit names" in finding.message]


def test_numbers_are_reserved_apart_and_never_twice(events: TableClient) -> None:
    firsts: list[int] = []

    def write(_target: ScopeTarget, reserve: Reserve) -> Sequence[NewFile]:
        firsts.extend((reserve(1 << 28), reserve(1), reserve(5)))
        raise InvalidArgument("that is all")

    with pytest.raises(InvalidArgument):
        events.direct.append(TaskFiles(write))
    whole, one, five = firsts
    assert one >= whole + (1 << 28)
    assert five == one + 1
    assert position_of(whole) < position_of(one) <= events.log.view().last_position, "the log has both positions"


def identity(table: TableClient, version: int) -> WriterBatch:
    return WriterBatch(transaction_app(table.table.id, APP), version)


def appending(table: TableClient) -> DirectWrite:
    """The first batch."""
    return DirectWrite("WRITE", Keep(), [rows({1: "a"})], {"mode": "Append"}, identity(table, 1))


def two_files(target: ScopeTarget, reserve: Reserve) -> Sequence[NewFile]:
    made: list[NewFile] = []
    for texts in ({1: "a", 2: "b"}, {3: "c"}):
        first = reserve(len(texts) + 10)
        numbered = rows(texts).append_column(SEQ, pa.array(range(first, first + len(texts)), pa.int64()))
        made += write_files(target, numbered, partial(direct_name, random_id))
    return made
