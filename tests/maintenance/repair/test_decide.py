"""What comes back and what is set apart, against a model that knows every write and delete that ever happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.log.position import NOTHING
from lakewarden.log.record import DELETE, UPSERT
from lakewarden.maintenance.repair.decide import decide, doubt_after, with_survival

_COLUMNS: list[pa.Field[Any]] = [pa.field("id", pa.int64()), pa.field("text", pa.string()), pa.field("_seq", pa.int64())]
BASE = pa.schema(_COLUMNS)
FOUND = BASE.append(pa.field("_op", pa.int8()))
EVERYTHING = 1 << 60


@dataclass(frozen=True)
class Act:
    """One write of the scope's life; `_seq` is its place in it."""

    key: int
    deletes: bool


def base(*rows: tuple[int, str, int | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(BASE.names, row, strict=True)) for row in rows], schema=BASE)


def found(*rows: tuple[int, str | None, int, int], survived: int | None = None) -> pa.Table:
    return with_survival(pa.Table.from_pylist([dict(zip(FOUND.names, row, strict=True)) for row in rows], schema=FOUND), survived)


def ids(rows: pa.Table) -> list[int]:
    return sorted(row["id"] for row in rows.to_pylist())


def test_the_newest_row_of_a_key_wins_wherever_it_was_found() -> None:
    decided = decide(base((1, "old", 1), (2, "newer", 9)), found((1, "new", 5, UPSERT), (2, "older", 4, UPSERT)), ["id"], NOTHING)

    assert {row["id"]: row["text"] for row in decided.rows.to_pylist()} == {1: "new", 2: "newer"}
    assert not decided.doubtful.num_rows


def test_a_tombstone_hides_what_is_older_and_nothing_that_is_newer() -> None:
    decided = decide(base((1, "a", 1), (2, "b", 2)), found((1, None, 5, DELETE), (2, None, 1, DELETE)), ["id"], NOTHING)

    assert ids(decided.rows) == [2]


def test_a_row_that_was_found_twice_comes_once() -> None:
    decided = decide(base((1, "a", 1)), found((1, "a", 1, UPSERT), (1, "a", 1, UPSERT), (2, "b", 3, UPSERT)), ["id"], NOTHING)

    assert ids(decided.rows) == [1, 2]


def test_rows_of_other_programs_stay_unless_a_key_of_ours_replaces_them() -> None:
    decided = decide(base((1, "theirs", None), (2, "theirs", None)), found((2, "ours", 3, UPSERT)), ["id"], NOTHING)

    assert {row["id"]: row["text"] for row in decided.rows.to_pylist()} == {1: "theirs", 2: "ours"}


def test_rows_older_than_a_deletion_that_left_no_trace_are_set_apart() -> None:
    decided = decide(base((1, "a", 1), (9, "theirs", None)), found((2, "b", 5, UPSERT), (3, "c", 8, UPSERT)), ["id"], 8)

    assert ids(decided.rows) == [3]
    assert ids(decided.doubtful) == [1, 2, 9]


def test_rows_that_survived_the_deletion_come_back() -> None:
    """The flush that deleted wrote them."""
    decided = decide(base((1, "a", 1)), found((2, "b", 5, UPSERT), survived=8), ["id"], 8)

    assert (ids(decided.rows), ids(decided.doubtful)) == ([2], [1])


def test_of_a_row_that_was_found_twice_the_one_that_survived_longer_tells() -> None:
    twice = [found((2, "b", 5, UPSERT), survived=upto) for upto in (6, 8, 7)]
    decided = decide(base((1, "a", 1)), pa.concat_tables(twice), ["id"], 8)

    assert (ids(decided.rows), ids(decided.doubtful)) == ([2], [1])


def test_deletions_are_in_doubt_only_where_they_are_neither_readable_nor_in_the_log() -> None:
    assert doubt_after(base_watermark=10, last_delete=20, complete_after=15, undone_upto=NOTHING) == 15
    assert doubt_after(base_watermark=10, last_delete=12, complete_after=30, undone_upto=NOTHING) == 12
    assert doubt_after(base_watermark=10, last_delete=20, complete_after=10, undone_upto=NOTHING) == NOTHING
    assert doubt_after(base_watermark=10, last_delete=10, complete_after=30, undone_upto=NOTHING) == NOTHING
    assert doubt_after(base_watermark=10, last_delete=10, complete_after=10, undone_upto=25) == 25


@given(
    acts=st.lists(st.builds(Act, st.integers(0, 4), st.booleans()), max_size=30),
    base_at=st.integers(0, 30),
    complete_after=st.integers(-1, 30),
    lost=st.sets(st.integers(0, 30)),
)
def test_no_deleted_row_comes_back_and_no_row_is_lost_that_was_found(
    acts: list[Act], base_at: int, complete_after: int, lost: set[int]
) -> None:
    """The base is the life's rows up to a moment; of what came after, the log holds all beyond another moment, and files hold
    the rows (never the tombstones) that are not lost."""
    end = len(acts)
    base_at = min(base_at, end) - 1
    truth = _after(acts, end)
    seen = _after(acts, base_at + 1)
    last_delete = max((seq for seq, act in enumerate(acts) if act.deletes), default=NOTHING)
    in_log = [(act.key, str(seq), seq, DELETE if act.deletes else UPSERT) for seq, act in enumerate(acts) if seq > complete_after]
    in_files = [
        (act.key, str(seq), seq, UPSERT) for seq, act in enumerate(acts) if seq > base_at and not act.deletes and seq not in lost
    ]

    decided = decide(
        base(*((key, str(seq), seq) for key, seq in seen.items())),
        found(*in_log, *in_files),
        ["id"],
        doubt_after(base_at, last_delete, complete_after, NOTHING),
    )

    back = {row["id"]: row["_seq"] for row in decided.rows.to_pylist()}
    apart = {row["id"]: row["_seq"] for row in decided.doubtful.to_pylist()}
    deleted = {act.key for act in acts} - truth.keys()
    assert not deleted & back.keys(), "a deleted row came back"
    known = {*(seq for _, _, seq, _ in (*in_log, *in_files)), *seen.values()}
    assert {key: seq for key, seq in truth.items() if seq in known}.items() <= {**apart, **back}.items(), "a row was dropped"
    if not lost:
        assert not (back.keys() | apart.keys()) - {act.key for act in acts}


def _after(acts: list[Act], count: int) -> dict[int, int]:
    """The `_seq` of each live key after so many acts."""
    live: dict[int, int] = {}
    for seq, act in enumerate(acts[:count]):
        if act.deletes:
            live.pop(act.key, None)
        else:
            live[act.key] = seq
    return live


def test_nothing_decides_nothing() -> None:
    assert decide(base(), found(), ["id"], EVERYTHING).rows.num_rows == 0
