"""A direct update against whatever else commits, at each of its steps; and killed there.

What another writer committed before it is seen by the update, which runs again if it has to; what comes behind it is on top.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakewarden import Lakehouse
from lakewarden.errors import Conflict
from lakewarden.tables.client import TableClient
from lakewarden.tables.direct.commit import DirectWrite
from lakewarden.tables.direct.revise import Revise
from lakewarden.tables.direct.run import DirectRun
from tests.fixtures.lakes import Rows, eventual, lake_fixture, notes, strong
from tests.maintenance.steps import Died, dies, then
from tests.tables.direct.boards import BOARD, board_path, flushed, make_board, once, removing, rows, setting

pytestmark = [pytest.mark.slow, pytest.mark.disk]

BEFORE = ("direct:written", "direct:drafted", "direct:announced", "direct:committing", "before-link")
BEHIND = ("direct:committed", "direct:synced", "direct:noted")
UPDATED = {1: "a", 2: "direct", 3: "c"}

Act = Callable[[Lakehouse, TableClient], object]


lake = lake_fixture()


def begun(lake: Lakehouse) -> TableClient:
    """The board as each race finds it."""
    board = make_board(lake)
    flushed(lake, board, {1: "a", 2: "b"}, {3: "c"})
    return board


def update(text: str = "direct") -> DirectWrite:
    return DirectWrite("UPDATE", Revise(setting(text, 2)), (), {"predicate": "id = 2"})


def raced(lake: Lakehouse, step: str, prepare: Act, act: Act) -> Rows:
    """What is left when `act` happens at the step, and everything is flushed."""
    board = begun(lake)
    prepare(lake, board)
    DirectRun(lake.warehouse, board.table, update(), then(step, once(lambda: act(lake, board)))).run()
    lake.flush(BOARD)
    assert strong(board, None) == eventual(board, None)
    assert not [finding for finding in lake.check() if not finding.passed]
    return strong(board, None)


def nothing(_lake: Lakehouse, _board: TableClient) -> None:
    return


def pending(_lake: Lakehouse, board: TableClient) -> None:
    board.write(notes({2: "pending"}))


def flush(lake: Lakehouse, _board: TableClient) -> None:
    assert [report.outcome for report in lake.flush(BOARD)] == ["done"]


def overwrite(_lake: Lakehouse, board: TableClient) -> None:
    board.direct.overwrite([rows({9: "over"})])


def optimize(lake: Lakehouse, _board: TableClient) -> None:
    assert [report.outcome for report in lake.optimize(BOARD)] == ["done"]


def append_as_a_stranger(lake: Lakehouse, _board: TableClient) -> None:
    row = pa.table({"id": pa.array([4], pa.int64()), "text": ["stranger"], "_seq": pa.array([None], pa.int64())})
    write_deltalake(str(board_path(lake)), row, mode="append")


def delete_directly(_lake: Lakehouse, board: TableClient) -> None:
    board.direct.edit(removing(1), operation="DELETE", predicate="id = 1")


@pytest.mark.parametrize("step", [*BEFORE, *BEHIND])
def test_a_flush_in_between_is_seen_or_lands_on_top(lake: Lakehouse, step: str) -> None:
    left = raced(lake, step, pending, flush)
    assert left == (UPDATED if step in BEFORE else {**UPDATED, 2: "pending"})


@pytest.mark.covering
@pytest.mark.parametrize("step", [*BEFORE, *BEHIND])
@pytest.mark.parametrize(
    ("act", "left"),
    [
        (overwrite, {9: "over"}),
        (optimize, UPDATED),
        (append_as_a_stranger, {**UPDATED, 4: "stranger"}),
        (delete_directly, {2: "direct", 3: "c"}),
        (pending, {**UPDATED, 2: "pending"}),
    ],
    ids=["overwrite", "optimize", "stranger", "delete", "keyed write"],
)
def test_what_else_comes_in_between_loses_nothing(lake: Lakehouse, step: str, act: Act, left: Rows) -> None:
    assert raced(lake, step, nothing, act) == left


@pytest.mark.parametrize("step", [*BEFORE, *BEHIND])
def test_a_killed_update_is_whole_or_not_there_and_pending_rows_stay(lake: Lakehouse, warehouse_uri: str, step: str) -> None:
    board = begun(lake)
    board.write(notes({3: "pending"}))
    with pytest.raises(Died):
        DirectRun(lake.warehouse, board.table, update(), dies(step)).run()
    with Lakehouse.open(warehouse_uri) as again:
        board = again.table(BOARD)
        assert eventual(board, None) == ({1: "a", 2: "b", 3: "c"} if step in BEFORE else UPDATED)
        assert strong(board, None)[3] == "pending"
        assert not [finding for finding in again.check() if not finding.passed]
        board.direct.edit(setting("again", 2), operation="UPDATE", predicate="id = 2")
        again.flush(BOARD)
        assert strong(board, None) == eventual(board, None) == {1: "a", 2: "again", 3: "pending"}


def test_an_update_that_loses_each_time_gives_up_and_leaves_no_file(lake: Lakehouse) -> None:
    board = begun(lake)
    count = iter(range(100))

    def another() -> None:
        board.write(notes({2: f"flushed {next(count)}"}))
        lake.flush(BOARD)

    with pytest.raises(Conflict, match="4 times"):
        DirectRun(lake.warehouse, board.table, update(), then("direct:committing", another)).run()
    assert strong(board, None)[2] == "flushed 3"
    assert not [finding.message for finding in lake.check() if "no commit names" in finding.message]
