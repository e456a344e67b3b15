"""Direct writes: one commit each, past the log, with a position of their own; and what they leave to the next flush."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from lakewarden import Column, Lakehouse
from lakewarden.catalog.evolution import AddColumn
from lakewarden.delta.reading.bounds import Bound
from lakewarden.errors import ConstraintViolation, Ended, InvalidArgument, NotFound, Unsupported
from lakewarden.log.position import end_of, position_of
from lakewarden.tables.client import TableClient
from lakewarden.tables.direct.commit import DirectWrite
from lakewarden.tables.direct.revise import Revise
from lakewarden.tables.direct.run import DirectRun
from lakewarden.tables.direct.value import Edit
from tests.fixtures.lakes import NOTES, eventual, lake_fixture, make_notes, notes, strong
from tests.maintenance.steps import then
from tests.tables.direct.boards import BOARD, flushed, make_board, once, removing, rows, setting, stranger

lake = lake_fixture()


@pytest.fixture
def board(lake: Lakehouse) -> TableClient:
    return make_board(lake)


def test_an_update_changes_the_files_that_hold_its_rows_in_one_commit(lake: Lakehouse, board: TableClient) -> None:
    flushed(lake, board, {1: "a", 2: "b"}, {3: "c"})
    before = set(stranger(lake).file_uris())
    did = board.direct.edit(setting("new", 2), operation="UPDATE", predicate="id = 2")
    assert (did.version, did.rows_updated, did.rows_deleted, did.committed) == (2, 1, 0, True)
    assert strong(board, None) == eventual(board, None) == {1: "a", 2: "new", 3: "c"}
    assert len(set(stranger(lake).file_uris()) & before) == 1, "the file without the row stays"
    entry = board.history(limit=1)[0]
    assert (entry.operation, entry.parameters) == ("UPDATE", {"predicate": "id = 2"})
    assert entry.operation_metrics["numUpdatedRows"] == entry.operation_metrics["numTargetRowsUpdated"] == 1
    assert (entry.operation_metrics["numCopiedRows"], entry.operation_metrics["numRemovedFiles"]) == (1, 1)


def test_small_files_that_change_become_one_and_the_others_stay(lake: Lakehouse, board: TableClient) -> None:
    flushed(lake, board, {1: "a", 2: "b"}, {3: "c"}, {4: "d", 5: "e"}, {6: "f"}, {7: "g"})
    before = set(stranger(lake).file_uris())
    did = board.direct.edit(setting("new", 2, 4, 7), operation="UPDATE", predicate="id IN (2, 4, 7)")
    assert (did.rows_updated, did.rows_deleted) == (3, 0)
    after = set(stranger(lake).file_uris())
    assert (len(after - before), len(after & before)) == (1, 2), "those with 3 and 6 stay"
    expected = {1: "a", 2: "new", 3: "c", 4: "new", 5: "e", 6: "f", 7: "new"}
    assert strong(board, None) == eventual(board, None) == expected
    metrics = board.history(limit=1)[0].operation_metrics
    assert [metrics[name] for name in ("numUpdatedRows", "numCopiedRows", "numRemovedFiles", "numAddedFiles")] == [3, 2, 3, 1]
    did = board.direct.edit(removing(1, 3), operation="DELETE", predicate="id IN (1, 3)")
    assert (did.rows_deleted, len(stranger(lake).file_uris())) == (2, 2)
    assert strong(board, None) == {key: value for key, value in expected.items() if key not in (1, 3)}
    assert not [finding for finding in lake.check() if not finding.passed]


def test_changed_rows_have_the_seq_of_the_writes_own_position_and_the_others_keep_theirs(
    lake: Lakehouse, board: TableClient
) -> None:
    flushed(lake, board, {1: "a", 2: "b"})
    old = {row["id"]: row["_seq"] for row in stranger(lake).to_pyarrow_table().to_pylist()}
    did = board.direct.edit(setting("new", 2), operation="UPDATE", predicate="id = 2")
    new = {row["id"]: row["_seq"] for row in stranger(lake).to_pyarrow_table().to_pylist()}
    assert new[1] == old[1]
    assert old[2] < new[2] <= did.last_seq == end_of(position_of(new[2]))
    assert board.write(notes({4: "d"})).last_seq > did.last_seq, "no row of the log has the position"
    assert not [finding for finding in lake.check() if not finding.passed]


def test_a_run_that_lost_gives_its_rows_numbers_above_those_that_came_between(lake: Lakehouse, board: TableClient) -> None:
    flushed(lake, board, {1: "a", 2: "b"})

    def seqs() -> dict[int, int]:
        return {row["id"]: row["_seq"] for row in stranger(lake).to_pyarrow_table().to_pylist()}

    between: dict[int, int] = {}

    def other() -> None:
        flushed(lake, board, {2: "between"})
        between.update(seqs())

    write = DirectWrite("UPDATE", Revise(setting("new", 2)), (), {"predicate": "id = 2"})
    did = DirectRun(lake.warehouse, board.table, write, then("direct:committing", once(other))).run()
    assert between[2] < seqs()[2] <= did.last_seq
    assert strong(board, None) == eventual(board, None) == {1: "a", 2: "new"}


@pytest.mark.parametrize("step", ["direct:drafted", "direct:committing", "before-link"])
def test_a_file_that_was_brought_together_with_others_meanwhile_is_read_again(
    lake: Lakehouse, board: TableClient, step: str
) -> None:
    """That is not a change of rows, and yet the file that the draft removes is gone."""
    flushed(lake, board, {1: "a", 2: "b"}, {3: "c"})
    write = DirectWrite("UPDATE", Revise(setting("new", 2)), (), {"predicate": "id = 2"})
    DirectRun(lake.warehouse, board.table, write, then(step, once(lambda: lake.optimize(BOARD)))).run()
    assert stranger(lake).to_pyarrow_table().num_rows == 3
    assert strong(board, None) == eventual(board, None) == {1: "a", 2: "new", 3: "c"}
    assert [entry.operation for entry in board.history(limit=2)] == ["UPDATE", "OPTIMIZE"]


def test_a_delete_without_a_match_makes_no_commit_and_takes_no_position(lake: Lakehouse, board: TableClient) -> None:
    flushed(lake, board, {1: "a"})
    end = board.log.view().last_position
    did = board.direct.edit(removing(7), operation="DELETE", predicate="id = 7")
    assert (did.committed, did.version) == (False, 0)
    assert board.log.view().last_position == end


def test_a_delete_of_all_rows_of_a_file_writes_none(lake: Lakehouse, board: TableClient) -> None:
    flushed(lake, board, {1: "a", 2: "b"}, {3: "c"})
    did = board.direct.edit(removing(1, 2), operation="DELETE", predicate="id < 3")
    assert (did.rows_deleted, len(stranger(lake).file_uris())) == (2, 1)
    assert strong(board, None) == {3: "c"}
    assert board.history(limit=1)[0].operation_metrics["numTargetRowsDeleted"] == 2


def test_a_flush_puts_rows_that_were_pending_on_top_of_a_direct_write(lake: Lakehouse, board: TableClient) -> None:
    flushed(lake, board, {1: "a"})
    board.write(notes({1: "pending"}))
    board.direct.edit(setting("direct", 1), operation="UPDATE", predicate="true")
    assert eventual(board, None) == {1: "direct"}
    assert strong(board, None) == {1: "pending"}
    lake.flush(BOARD)
    assert strong(board, None) == eventual(board, None) == {1: "pending"}


def test_a_direct_write_behind_a_flush_survives_the_next_one(lake: Lakehouse, board: TableClient) -> None:
    flushed(lake, board, {1: "a", 2: "b"})
    board.write(notes({1: "pending"}))
    lake.flush(BOARD)
    board.direct.edit(setting("direct", 1), operation="UPDATE", predicate="true")
    board.write(notes({2: "later"}))
    lake.flush(BOARD)
    assert strong(board, None) == {1: "direct", 2: "later"}


def test_an_overwrite_flushes_first_and_replaces_all_rows_in_one_commit(lake: Lakehouse, board: TableClient) -> None:
    flushed(lake, board, {1: "a", 2: "b"})
    board.write(notes({1: "pending", 3: "pending"}))
    did = board.direct.overwrite([rows({2: "x"}), rows({4: "y"})])
    assert (did.version, did.rows_inserted, did.rows_deleted) == (2, 2, 3)
    assert strong(board, None) == {2: "x", 4: "y"}
    lake.flush(BOARD)
    assert strong(board, None) == {2: "x", 4: "y"}
    entry = board.history(limit=1)[0]
    assert (entry.operation, entry.parameters["mode"]) == ("WRITE", "Overwrite")


def test_an_overwrite_begins_a_table_that_nothing_was_flushed_into(lake: Lakehouse, board: TableClient) -> None:
    assert board.direct.overwrite([rows({1: "a"})]).version == 0
    assert strong(board, None) == {1: "a"}
    board.write(notes({1: "b"}))
    lake.flush(BOARD)
    assert strong(board, None) == {1: "b"}


def test_an_overwrite_refuses_a_key_that_comes_twice_and_changes_nothing(lake: Lakehouse, board: TableClient) -> None:
    flushed(lake, board, {1: "a"})
    with pytest.raises(ConstraintViolation, match="twice"):
        board.direct.overwrite([rows({2: "x"}), rows({2: "y"})])
    assert strong(board, None) == {1: "a"}
    assert len(stranger(lake).file_uris()) == 1
    assert not [finding.message for finding in lake.check() if "no commit names" in finding.message]


def test_truncate_is_an_overwrite_without_rows(lake: Lakehouse, board: TableClient) -> None:
    flushed(lake, board, {1: "a"})
    assert board.direct.overwrite((), operation="TRUNCATE").rows_deleted == 1
    assert strong(board, None) == {}
    assert board.history(limit=1)[0].operation == "TRUNCATE"


def test_a_file_outside_of_the_bounds_is_not_read(lake: Lakehouse, board: TableClient) -> None:
    flushed(lake, board, {1: "a"}, {2: "b"}, {3: "c"})
    seen: list[object] = []

    def decide(found: pa.Table) -> Edit:
        seen.extend(found.column("id").to_pylist())
        return setting("new", 2)(found)

    board.direct.edit(decide, operation="UPDATE", predicate="id = 2", bounds=[Bound("id", 2, 2)])
    assert seen == [2]


def test_a_direct_write_brings_the_table_to_the_newest_columns(lake: Lakehouse, board: TableClient) -> None:
    flushed(lake, board, {1: "a"}, {2: "b"})
    lake.alter_table(BOARD, AddColumn(Column("n", "INT", nullable=False, default="7")))
    board = lake.table(BOARD)

    board.direct.edit(removing(2), operation="DELETE", predicate="id = 2")
    assert board.read(freshness="eventual").to_pylist() == [{"id": 1, "text": "a", "n": 7}]
    assert stranger(lake).to_pyarrow_table().column("n").to_pylist() == [7]


@pytest.mark.parametrize(
    "write",
    [
        lambda board: board.direct.edit(setting("new", 1), operation="UPDATE", predicate="id = 1"),
        lambda board: board.direct.overwrite([rows({5: "e"})]),
    ],
    ids=["update", "overwrite"],
)
def test_changed_rows_end_subscriptions(lake: Lakehouse, board: TableClient, write: Callable[[TableClient], object]) -> None:
    flushed(lake, board, {1: "a"})
    query = f"SELECT * FROM {BOARD}"
    with lake.subscribe(query) as one:
        one.poll()
        place = one.seq
        write(board)
        with pytest.raises(Ended):
            one.poll()
    with pytest.raises(InvalidArgument, match="no longer holds"):
        lake.subscribe(query, from_seq=place)
    with lake.subscribe(query) as again:
        assert [event.row["id"] for event in again.poll()] == sorted(strong(board, None))
        again_from = again.seq
    board.write(notes({9: "z"}))
    with lake.subscribe(query, from_seq=again_from) as third:
        assert [event.row["id"] for event in third.poll()] == [9]


def test_a_user_table_and_an_append_to_a_keyed_one_are_refused(lake: Lakehouse, board: TableClient) -> None:
    make_notes(lake)
    with pytest.raises(Unsupported, match="USER"):
        lake.table(NOTES).direct.edit(removing(1), operation="DELETE", predicate="true")
    with pytest.raises(Unsupported, match="primary key"):
        board.direct.append([rows({1: "a"})])


def test_a_direct_write_into_a_dropped_table_is_refused(lake: Lakehouse, board: TableClient) -> None:
    flushed(lake, board, {1: "a"})
    lake.drop_table(BOARD)
    with pytest.raises(NotFound):
        board.direct.edit(removing(1), operation="DELETE", predicate="true")
