"""Compaction of real tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from lakewarden.base.clock import CarriedClock, random_id
from lakewarden.catalog.kept_settings import TailRule
from lakewarden.errors import Conflict, Unsupported
from lakewarden.maintenance.compact import CompactOptions
from lakewarden.maintenance.compact.procedure import PROCEDURE as COMPACT
from lakewarden.maintenance.compact.procedure import plan_compact
from lakewarden.maintenance.maintain import MaintenanceRun, maintain_scope
from lakewarden.storage.steps import alone
from tests.delta.scopes import APP, PEOPLE, flush, paths, people, rows_of, schema, table_of, target
from tests.maintenance.steps import (
    Died,
    batches,
    compact,
    data_files,
    dies,
    later,
    manifest_paths,
    operations,
    restore,
    ruled,
    then,
)

pytestmark = pytest.mark.both_stores("disk")


@pytest.mark.both_stores
def test_small_files_become_one(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 5)
    before = rows_of(scope)
    report = compact(scope)
    (made,) = paths(scope)
    assert made.startswith("compact-")
    assert rows_of(scope) == before
    assert (report.outcome, report.version) == ("done", 5)
    assert report.state is not None
    assert (report.state.files, report.state.rows, report.state.last_seq) == (1, 10, 9)
    assert report.metrics["files_added"] == 1
    assert report.metrics["files_removed"] == 5
    assert report.metrics["rows_rewritten"] == 10
    assert report.metrics["bytes_added"] == (tmp_path / "t" / made).stat().st_size
    assert manifest_paths(scope) == {made}
    assert operations(scope)[0] == "COMPACT"


def test_it_changes_no_data_and_no_watermark(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 3)
    watermark = table_of(scope).watermark(APP)
    compact(scope)
    log = (tmp_path / "t" / "_delta_log" / f"{3:020d}.json").read_text()
    assert '"dataChange":true' not in log
    assert log.count('"dataChange":false') == 4
    assert table_of(scope).watermark(APP) == watermark
    assert flush(scope, people(100), first_seq=50).applied is not None


def test_rows_lie_in_the_order_they_came(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 4)
    compact(scope)
    (made,) = paths(scope)
    assert pq.read_table(tmp_path / "t" / made).column("_seq").to_pylist() == list(range(8))


def test_too_few_files_are_left(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 4)
    report = compact(scope, TailRule())
    assert report.outcome == "skipped"
    assert report.reason == "its 4 newest files are small (fewer than 10000 rows), and 5 are needed"
    assert report.version == 3
    assert len(paths(scope)) == 4


def test_a_scope_without_a_table(tmp_path: Path) -> None:
    assert compact(target(tmp_path / "t")).reason == "nothing was flushed yet"
    assert not (tmp_path / "t").exists()


def test_as_many_rows_as_its_rule_says(tmp_path: Path) -> None:
    for rows, left in [(4, 3), (100, 1)]:
        scope = target(tmp_path / f"t-{rows}")
        batches(scope, 4)
        compact(scope, TailRule(2, 8, rows))
        assert len(paths(scope)) == left


def test_a_large_file_is_not_passed(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 2)
    flush(scope, people(*range(100, 120)), first_seq=100)
    batches(scope, 2, first=100)
    old = paths(scope)
    compact(scope, TailRule(2, 8, 10))
    assert len(paths(scope) & old) == 3
    assert len(paths(scope)) == 4


_WIDER = schema("id BIGINT NOT NULL", "name TEXT", "age INT", version=2)


def test_a_table_that_no_flush_has_widened_yet_keeps_its_columns(tmp_path: Path) -> None:
    first, wider = target(tmp_path / "t", PEOPLE), target(tmp_path / "t", PEOPLE, _WIDER)
    batches(first, 3)
    assert compact(wider).outcome == "done"
    assert rows_of(wider) == [row | {"age": None} for row in people(*range(6))]
    assert table_of(first).schema_version((PEOPLE,)) is PEOPLE


def test_files_of_an_older_schema_are_left(tmp_path: Path) -> None:
    first, wider = target(tmp_path / "t", PEOPLE), target(tmp_path / "t", PEOPLE, _WIDER)
    batches(first, 3)
    flush(wider, [{"id": 100, "name": "x", "age": 1}], first_seq=100)
    restore(wider, 2)
    assert compact(wider).reason == "0 of its 3 newest small files are of the current schema, and 2 are needed"


def test_files_of_others_are_left(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 1)
    for id_ in (50, 51):
        write_deltalake(scope.uri, _foreign(id_), mode="append")
    batches(scope, 3, first=100)
    theirs = {path for path in paths(scope) if path.startswith("part-")}
    assert compact(scope).metrics["files_removed"] == 4
    assert theirs < paths(scope)


def test_the_plan_prints_itself_and_touches_nothing(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 3)
    plan = plan_compact(ruled(scope), CompactOptions(), now=later()())
    assert str(plan).startswith("compact chat.people[u_1] at version 2: the 3 newest files, 6 rows in ")
    report = plan.report()
    assert (report.outcome, set(report.files)) == ("planned", paths(scope))
    assert len(operations(scope)) == 3


def test_a_plan_is_refused_when_the_table_moved_on(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 3)
    plan = plan_compact(ruled(scope), CompactOptions(), now=later()())
    batches(scope, 1, first=3)
    with pytest.raises(Conflict, match="planned at version 2, and there is version 3 now"):
        alone(plan.run(job_id="CO-1", clock=later(), new_id=random_id))


@pytest.mark.both_stores
@pytest.mark.parametrize("step", ["after-read", "after-data-file"])
def test_a_flush_meanwhile_wins(tmp_path: Path, step: str) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 3)
    report = compact(scope, reach=then(step, lambda: batches(scope, 1, first=3)))
    assert report.outcome == "skipped"
    assert report.reason == "discarded: the tail moved: a newer file was flushed meanwhile"
    assert rows_of(scope) == people(*range(8))
    assert data_files(scope) == paths(scope)
    assert compact(scope).outcome == "done"


def test_a_flush_that_replaces_an_input_wins(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 3)
    report = compact(scope, reach=then("after-data-file", lambda: flush(scope, people(1, name="new"), first_seq=10)))
    assert report.reason == "discarded: another commit replaced 1 of its files meanwhile"
    assert rows_of(scope)[1] == {"id": 1, "name": "new1"}


def test_a_commit_that_leaves_the_tail_alone_is_no_hindrance(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 3)
    report = compact(scope, reach=then("after-data-file", lambda: DeltaTable(scope.uri).alter.set_table_description("theirs")))
    assert (report.outcome, report.version) == ("done", 4)


@pytest.mark.both_stores
@pytest.mark.parametrize("step", ["after-read", "after-data-file", "after-commit", "after-manifest"])
def test_killed_at_any_step_and_run_again(tmp_path: Path, step: str) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 3)
    with pytest.raises(Died):
        compact(scope, reach=dies(step))
    assert rows_of(scope) == people(*range(6))
    compact(scope)
    assert rows_of(scope) == people(*range(6))
    assert len(paths(scope)) == 1


def test_columns_of_others_are_refused(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 3)
    DeltaTable(scope.uri).alter.add_columns(Field("extra", PrimitiveType("long")))
    with pytest.raises(Unsupported, match="another writer"):
        compact(scope)


def _foreign(id_: int) -> pa.Table:
    return pa.table({"id": pa.array([id_], pa.int64()), "name": ["theirs"], "_seq": pa.array([None], pa.int64())})


@pytest.mark.both_stores
def test_a_later_run_mends_the_manifest_that_a_crash_left_behind(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 3)
    with pytest.raises(Died):
        compact(scope, reach=dies("after-commit"))
    assert manifest_paths(scope) != paths(scope)
    task = (ruled(scope), MaintenanceRun(COMPACT, CompactOptions(), "CO-2"))
    assert alone(maintain_scope(task, clock=CarriedClock.of(later()))).outcome == "skipped"
    assert manifest_paths(scope) == paths(scope)
