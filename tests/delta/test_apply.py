"""What a flush does to one scope's table."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lakewarden.base.connection import Location
from lakewarden.delta.change import TooLarge
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict, Corrupt
from lakewarden.storage.steps import alone
from tests.delta.scopes import APP, PEOPLE, flush, hot, opened, paths, people, rows_of, schema, table_of, target


def test_the_first_flush_makes_the_table(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    applied = flush(scope, people(1, 2), first_seq=10, end=99).applied
    assert applied is not None
    assert (applied.version, applied.operation, applied.state.rows, applied.state.last_seq) == (0, "WRITE", 2, 99)
    assert rows_of(scope) == people(1, 2)
    assert table_of(scope).watermark(APP) == 99


def test_keys_outside_every_file_are_appended_without_reading_any(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1, 2))
    (first,) = paths(scope)
    (tmp_path / "t" / first).rename(tmp_path / "away")
    flush(scope, people(3, 4), first_seq=2)
    (tmp_path / "away").rename(tmp_path / "t" / first)
    assert rows_of(scope) == people(1, 2, 3, 4)
    assert first in paths(scope)


def test_keys_inside_a_range_that_no_file_holds_are_appended(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1, 9))
    applied = flush(scope, people(5), first_seq=2).applied
    assert applied is not None
    assert (applied.operation, applied.metrics["files_removed"]) == ("WRITE", 0)
    assert rows_of(scope) == people(1, 5, 9)


def test_only_files_that_hold_a_key_are_replaced(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1, 2))
    flush(scope, people(11, 12), first_seq=2)
    flush(scope, people(5, 21), first_seq=4)  # its range meets that of the second
    untouched = {path for path in paths(scope) if path.startswith(("batch-0", "batch-2"))}
    applied = flush(scope, people(12, 13, name="new"), first_seq=6).applied
    assert applied is not None
    assert (applied.operation, applied.metrics["files_removed"]) == ("MERGE", 1)
    assert (applied.metrics["rows_inserted"], applied.metrics["rows_updated"]) == (1, 1)
    assert untouched < paths(scope)
    assert rows_of(scope) == [*people(1, 2, 5, 11), *people(12, 13, name="new"), *people(21)]


def test_the_newest_row_of_a_key_wins_within_a_batch(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 1, "name": "c"}])
    assert rows_of(scope) == [{"id": 1, "name": "c"}, {"id": 2, "name": "b"}]


def test_a_tombstone_removes_and_is_never_written(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1, 2, 3))
    applied = flush(scope, people(4), first_seq=3, deletes=[{"id": 2}, {"id": 7}]).applied
    assert applied is not None
    assert applied.metrics["rows_deleted"] == 1
    assert rows_of(scope) == people(1, 3, 4)
    assert "_op" not in pq.read_schema(tmp_path / "t" / next(iter(paths(scope)))).names


def test_tombstones_without_a_match_commit_the_watermark_alone(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1, 2))
    before = paths(scope)
    cold = flush(scope, deletes=[{"id": 7}], first_seq=2, end=50)
    assert (table_of(scope).version, table_of(scope).watermark(APP), paths(scope)) == (1, 50, before)
    assert cold.state() == table_of(scope).state(APP)


def test_tombstones_alone_make_an_empty_table(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, deletes=[{"id": 7}], end=50)
    assert (rows_of(scope), table_of(scope).watermark(APP)) == ([], 50)


def test_deleting_every_row_leaves_no_file(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1, 2))
    flush(scope, deletes=[{"id": 1}, {"id": 2}], first_seq=2)
    assert (rows_of(scope), paths(scope)) == ([], set())
    flush(scope, people(3), first_seq=4)
    assert rows_of(scope) == people(3)


def test_of_two_flushes_from_one_snapshot_one_wins(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))
    one, other = opened(scope), opened(scope, job_id="FL-2")
    alone(one.commit(hot(PEOPLE, people(2), 1), 1))
    with pytest.raises(Conflict):
        alone(other.commit(hot(PEOPLE, people(2), 1), 1))
    assert rows_of(scope) == people(1, 2)
    assert {path.name for path in (tmp_path / "t").glob("*.parquet")} == paths(scope), "the loser's file is gone"


def test_a_flush_is_refused_when_any_commit_came_between(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))
    cold = opened(scope)
    DeltaTable(scope.uri).alter.set_table_description("of somebody else")
    with pytest.raises(Conflict):
        alone(cold.commit(hot(PEOPLE, people(2), 1), 1))


def test_of_two_first_flushes_one_wins(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    one, other = opened(scope), opened(scope)
    alone(one.commit(hot(PEOPLE, people(1)), 0))
    with pytest.raises(Conflict):
        alone(other.commit(hot(PEOPLE, people(1)), 0))
    assert rows_of(scope) == people(1)


def test_a_rewrite_above_the_bound_is_refused_before_it_reads(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1, 2))
    with pytest.raises(TooLarge) as refused:
        alone(opened(scope, large_bytes=10).commit(hot(PEOPLE, people(2), 2), 2))
    assert refused.value.bytes > 10
    assert table_of(scope).version == 0
    alone(opened(scope, large_bytes=10).commit(hot(PEOPLE, people(3), 2), 2))
    assert rows_of(scope) == people(1, 2, 3)


def test_batch_numbers_go_on_whatever_is_lost(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    for number in range(3):
        flush(scope, people(number), first_seq=number)
    DeltaTable(scope.uri).optimize.compact()
    (tmp_path / "t" / "manifest.json").unlink()
    flush(scope, people(9), first_seq=3)
    assert {path.split("-")[1] for path in paths(scope) if path.startswith("batch-")} == {"3"}


def test_a_composite_key_is_matched_whole(tmp_path: Path) -> None:
    pair = schema("a TEXT NOT NULL", "b BIGINT NOT NULL", "c DATE NOT NULL", "v INT", key=("a", "b", "c"))
    day = date(2024, 1, 1)
    rows = [{"a": a, "b": b, "c": day, "v": 0} for a in ("x", "y") for b in (1, 2, 3)]
    scope = target(tmp_path / "t", pair)
    flush(scope, rows)
    changed = [{"a": "x", "b": 3, "c": day, "v": 1}, {"a": "y", "b": 1, "c": day, "v": 1}, {"a": "z", "b": 2, "c": day, "v": 1}]
    flush(scope, changed, first_seq=6, deletes=[{"a": "x", "b": 1, "c": day}])
    found = {(row["a"], row["b"]): row["v"] for row in rows_of(scope)}
    assert found == {("x", 2): 0, ("x", 3): 1, ("y", 1): 1, ("y", 2): 0, ("y", 3): 0, ("z", 2): 1}


def test_a_large_rewrite_becomes_files_of_the_target_size(tmp_path: Path) -> None:
    scope = target(tmp_path / "t", target_file_size=4096)
    ids = list(range(4000))
    flush(scope, people(*ids))
    flush(scope, people(0, name="new"), first_seq=4000)
    files = table_of(scope).files()
    assert len(files) > 5
    assert sum(file.rows or 0 for file in files) == 4000
    assert rows_of(scope)[0]["name"] == "new0"


def test_a_missing_data_file_is_said_by_name(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1, 2))
    (first,) = paths(scope)
    (tmp_path / "t" / first).unlink()
    with pytest.raises(Corrupt, match=first):
        flush(scope, people(2), first_seq=2)


@pytest.mark.parametrize("point", ["after-read", "after-data-file", "after-commit", "after-manifest"])
def test_a_crash_at_any_point_and_a_retry_apply_once(tmp_path: Path, point: str) -> None:
    class Killed(BaseException):
        pass

    def reach(name: str) -> None:
        if name == point:
            raise Killed

    scope = target(tmp_path / "t")
    flush(scope, people(1, 2))
    batch = hot(PEOPLE, people(2, 3, name="new"), 2)
    with pytest.raises(Killed):
        alone(opened(scope, reach=reach).commit(batch, 3))
    again = opened(scope)
    if again.watermark() != 3:
        alone(again.commit(batch, 3))
    assert rows_of(scope) == [*people(1), *people(2, 3, name="new")]


def test_no_table_is_none_and_other_things_there_are_errors(tmp_path: Path) -> None:
    assert ScopeTable.open(Location(str(tmp_path / "nothing"))) is None
    assert ScopeTable.open(Location(str(tmp_path))) is None
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text('{"commitInfo":{}}')
    with pytest.raises(Corrupt):
        ScopeTable.open(Location(str(tmp_path / "t")))
