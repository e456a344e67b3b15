"""Packing and clustering of real tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakewarden.base.clock import random_id
from lakewarden.base.quantities import in_units
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.stats import Bounds
from lakewarden.errors import Conflict, InvalidArgument, Unsupported
from lakewarden.maintenance.optimize import OptimizeOptions
from lakewarden.maintenance.optimize.procedure import plan_optimize
from lakewarden.storage.steps import alone
from tests.delta.scopes import APP, flush, paths, people, rows_of, schema, table_of, target
from tests.maintenance.steps import (
    Died,
    batches,
    data_files,
    dies,
    later,
    manifest_paths,
    operations,
    optimize,
    restore,
    then,
    vacuum,
)

_GRID = schema("id BIGINT NOT NULL", "x INT", "y INT")


def _grid(path: Path, side: int = 16, target_file_size: int = 128 << 20) -> ScopeTarget:
    scope = target(path, _GRID, target_file_size=target_file_size)
    rows = [{"id": number, "x": number % side, "y": number // side} for number in range(side * side)]
    for start in range(0, len(rows), side):
        flush(scope, rows[start : start + side], first_seq=start)
    return scope


def test_small_files_are_packed(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 6)
    before, size = rows_of(scope), sum(file.size for file in table_of(scope).files())
    report = optimize(scope)
    assert report.outcome == "done"
    assert rows_of(scope) == before
    assert len(paths(scope)) == 1
    assert manifest_paths(scope) == paths(scope)
    assert report.reason == f"6 files of {in_units(size)} become 1"
    assert (report.metrics["files_added"], report.metrics["files_removed"], report.metrics["bytes_removed"]) == (1, 6, size)
    assert operations(scope)[0] == "OPTIMIZE"
    assert '"dataChange":true' not in (tmp_path / "t" / "_delta_log" / f"{6:020d}.json").read_text()


def test_several_outputs_of_about_the_target(tmp_path: Path) -> None:
    one = target(tmp_path / "one")
    batches(one, 1)
    size = table_of(one).files()[0].size
    scope = target(tmp_path / "t", target_file_size=int(size * 3.5))
    batches(scope, 7)
    report = optimize(scope)
    assert (report.metrics["files_removed"], report.metrics["files_added"]) == (6, 2)
    assert report.reason.endswith("become 2; left: 1 without a partner that fits")
    assert len(rows_of(scope)) == 14


def test_work_that_is_not_worth_it_is_skipped_and_says_why(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 1)
    assert (optimize(scope).outcome, optimize(scope).reason) == ("skipped", "it has 1 file")
    batches(scope, 3, first=1)
    plan = plan_optimize(scope, OptimizeOptions(min_gain=0.8), now=later()())
    assert "would save 3 of 4 files (75%), below the 80% that make it worth while" in str(plan)
    assert len(operations(scope)) == 4


def test_a_second_run_has_nothing_to_do(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 6)
    assert [optimize(scope).outcome, optimize(scope).outcome] == ["done", "skipped"]


def test_a_scope_without_a_table(tmp_path: Path) -> None:
    assert optimize(target(tmp_path / "t")).reason == "nothing was flushed yet"


def test_z_order_lets_files_exclude_by_every_column(tmp_path: Path) -> None:
    scope = _grid(tmp_path / "t")
    before, size = rows_of(scope), sum(file.size for file in table_of(scope).files())
    narrow = target(tmp_path / "t", _GRID, target_file_size=size // 16 + 1)
    report = optimize(narrow, "x", "y")
    assert report.metrics["files_added"] == 16
    assert rows_of(scope) == before
    table = table_of(scope)
    for name in ("x", "y"):
        bounds = table.bounds(name)
        assert bounds is not None
        assert sum(low <= 5 <= high for low, high in _whole_numbers(bounds)) == 4


def _whole_numbers(bounds: Bounds) -> list[tuple[int, int]]:
    return [(low, high) for low, high in zip(*bounds, strict=True) if isinstance(low, int) and isinstance(high, int)]


def test_z_order_is_not_done_twice(tmp_path: Path) -> None:
    scope = _grid(tmp_path / "t", side=4)
    assert optimize(scope, "x", "y").outcome == "done"
    again = optimize(scope, "x", "y")
    assert (again.outcome, again.reason) == ("skipped", "its files are already clustered by x, y, and none were added since")
    vacuum(scope, 40)
    assert optimize(scope, "x", "y").outcome == "skipped"
    assert optimize(scope, "y", "x").outcome == "done"
    flush(scope, [{"id": 1000, "x": 1, "y": 1}], first_seq=100)
    assert optimize(scope, "y", "x").outcome == "done"


def test_z_order_again_for_what_came_while_it_was_done(tmp_path: Path) -> None:
    scope = _grid(tmp_path / "t", side=4)
    optimize(scope, "x", reach=then("after-data-file", lambda: flush(scope, [{"id": 1000, "x": 1, "y": 1}], first_seq=100)))
    assert optimize(scope, "x").metrics["files_removed"] == 2


def test_z_order_again_after_a_restore(tmp_path: Path) -> None:
    scope = _grid(tmp_path / "t", side=4)
    optimize(scope, "x")
    restore(scope, 1)
    assert optimize(scope, "x").outcome == "done"


def test_one_row_is_not_clustered(tmp_path: Path) -> None:
    scope = target(tmp_path / "t", _GRID)
    flush(scope, [{"id": 1, "x": 1, "y": 1}])
    assert optimize(scope, "x").reason == "it has 1 row, which no order can cluster"


def test_columns_that_can_not_be_ordered_by(tmp_path: Path) -> None:
    scope = target(tmp_path / "t", schema("id BIGINT NOT NULL", "body JSON"))
    with pytest.raises(InvalidArgument, match="no such column"):
        optimize(scope, "nope")
    with pytest.raises(InvalidArgument, match="no order"):
        optimize(scope, "body")


def test_column_mapping_is_refused(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 4)
    log = tmp_path / "t" / "_delta_log"
    first = [json.loads(line) for line in (log / f"{0:020d}.json").read_text().splitlines()]
    (metadata,) = (action for action in first if "metaData" in action)
    metadata["metaData"]["configuration"]["delta.columnMapping.mode"] = "name"
    (log / f"{4:020d}.json").write_text(json.dumps(metadata))
    with pytest.raises(Unsupported, match="column mapping"):
        optimize(scope)


def test_a_flush_that_adds_is_no_hindrance(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 4)
    report = optimize(scope, reach=then("after-data-file", lambda: batches(scope, 1, first=4)))
    assert (report.outcome, report.version) == ("done", 5)
    assert rows_of(scope) == people(*range(10))
    assert len(paths(scope)) == 2
    assert manifest_paths(scope) == paths(scope)
    assert table_of(scope).watermark(APP) == 9


def test_a_flush_that_replaces_an_input_wins(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 4)
    report = optimize(scope, reach=then("after-data-file", lambda: flush(scope, people(1, name="new"), first_seq=10)))
    assert (report.outcome, report.reason) == ("skipped", "discarded: another commit replaced 1 of its files meanwhile")
    assert rows_of(scope)[1] == {"id": 1, "name": "new1"}
    assert data_files(scope) == paths(scope) | paths(scope, 3)


def test_a_vacuum_meanwhile_wins(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 4)
    flush(scope, people(1, name="new"), first_seq=20)
    report = optimize(scope, reach=then("after-data-file", lambda: vacuum(scope, 8)))
    assert (report.outcome, report.reason) == ("skipped", "discarded: a vacuum started meanwhile")
    assert len(rows_of(scope)) == 8


def test_a_plan_is_refused_when_the_table_moved_on(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 3)
    plan = plan_optimize(scope, OptimizeOptions(), now=later()())
    batches(scope, 1, first=3)
    with pytest.raises(Conflict, match="planned at version 2, and there is version 3 now"):
        alone(plan.run(job_id="OP-1", clock=later(), new_id=random_id))


@pytest.mark.parametrize("step", ["after-data-file", "after-commit", "after-manifest"])
@pytest.mark.parametrize("columns", [(), ("name",)])
def test_killed_at_any_step_and_run_again(tmp_path: Path, step: str, columns: tuple[str, ...]) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 3)
    with pytest.raises(Died):
        optimize(scope, *columns, reach=dies(step))
    assert rows_of(scope) == people(*range(6))
    optimize(scope, *columns)
    assert rows_of(scope) == people(*range(6))
    assert len(paths(scope)) == 1
