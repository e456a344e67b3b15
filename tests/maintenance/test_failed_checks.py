"""A failed check keeps a scope from a vacuum, whatever starts it, until a check passes or an operator says so."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from lakewarden import Lakehouse
from lakewarden.base.clock import system_clock
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.failed_checks import CheckResult
from lakewarden.cli.main import main
from tests.fixtures.lakes import NOTES, make_notes, notes, scope_path

pytestmark = pytest.mark.disk

DAY_AFTER_NEXT = timedelta(hours=40)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "warehouse")


@pytest.fixture
def lake(uri: str) -> Iterator[Lakehouse]:
    """Two users, each with a file that a vacuum may delete; of ann, another writer repeats a key."""
    with Lakehouse.open(uri) as lake:
        table = make_notes(lake, options={"DELETED_RETENTION_HOURS": "0"})
        for text in ("a", "b"):
            for user in ("ann", "bob"):
                table.write(notes({1: text}), user=user)
            lake.flush()
        ann = str(scope_path(lake, "ann"))
        write_deltalake(ann, DeltaTable(ann).to_pyarrow_table(), mode="append")
        yield lake


def vacuumed(uri: str, *, dry_run: bool = False, ignore_checks: bool = False) -> dict[str | None, ScopeReport]:
    with Lakehouse.open(uri, clock=lambda: system_clock() + DAY_AFTER_NEXT) as later:
        reports = later.vacuum(NOTES, force=True, look=True, dry_run=dry_run, ignore_checks=ignore_checks)
    return {report.scope.user: report for report in reports}


def status(uri: str, *arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_:
        main(["--warehouse", uri, *arguments])
    return int(exit_.value.code or 0)


def failed(lake: Lakehouse) -> list[str]:
    return [finding.check for finding in lake.check() if not finding.passed]


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_failed_check_blocks_the_vacuum_of_its_scope_alone(lake: Lakehouse, uri: str, dry_run: bool) -> None:
    assert failed(lake) == ["one_row_per_key"]
    reports = vacuumed(uri, dry_run=dry_run)
    assert reports["bob"].outcome == ("planned" if dry_run else "done")
    fault = reports["ann"].fault
    assert fault is not None
    assert (fault.code, fault.transient) == ("CONFLICT", False)
    assert f"{NOTES}[ann] failed the check one_row_per_key in version 2" in fault.message


@pytest.mark.slow
def test_the_command_line_and_sql_are_refused_too(lake: Lakehouse, uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert failed(lake) == ["one_row_per_key"]
    vacuum = ["vacuum", NOTES, "--user", "ann", "--retain", "0", "--force"]
    assert status(uri, *vacuum) == 1
    assert "CONFLICT" in capsys.readouterr().err
    assert status(uri, "sql", f"VACUUM {NOTES} RETAIN 0 HOURS FORCE FOR ALL USERS") == 1
    assert "one_row_per_key" in capsys.readouterr().err
    assert status(uri, *vacuum, "--ignore-checks") == 0


def test_a_passing_check_lifts_it(lake: Lakehouse, uri: str) -> None:
    assert failed(lake) == ["one_row_per_key"]
    lake.table(NOTES).write(notes({1: "c"}), user="ann")
    lake.flush()
    assert vacuumed(uri)["ann"].fault is not None, "mended, and not checked yet"
    assert failed(lake) == []
    assert vacuumed(uri)["ann"].outcome == "done"


def test_an_operator_may_ignore_it(lake: Lakehouse, uri: str) -> None:
    assert failed(lake) == ["one_row_per_key"]
    assert vacuumed(uri, ignore_checks=True)["ann"].outcome == "done"


def test_only_the_same_check_of_that_version_or_a_later_one_lifts_it(lake: Lakehouse) -> None:
    kept, table_id = lake.warehouse.failed_checks, lake.table(NOTES).table.id
    kept.record(
        table_id, [CheckResult("ann", "one_row_per_key", 7, passed=False), CheckResult("bob", "one_row_per_key", 7, passed=False)]
    )
    kept.record(table_id, [CheckResult("ann", "one_row_per_key", 6, passed=True), CheckResult("ann", "another", 8, passed=True)])
    assert len(kept.of(table_id)) == 2
    kept.record(table_id, [CheckResult("ann", "one_row_per_key", 7, passed=True)])
    ((failure,),) = kept.of(table_id).values()
    assert (failure.check, failure.version) == ("one_row_per_key", 7)


def test_who_is_erased_starts_again_without_it(lake: Lakehouse) -> None:
    assert failed(lake) == ["one_row_per_key"]
    table_id = lake.table(NOTES).table.id
    lake.erase("ann")
    assert lake.warehouse.failed_checks.of(table_id) == {}


def test_a_dropped_table_leaves_none(lake: Lakehouse) -> None:
    assert failed(lake) == ["one_row_per_key"]
    lake.drop_table(NOTES)
    assert lake.warehouse.state.list("failed-checks") == []
