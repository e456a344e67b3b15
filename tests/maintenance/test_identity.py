"""A storage that is not there is never taken for an empty one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.connection import Location
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.erasures import certificates
from lakewarden.cli.main import main
from lakewarden.errors import BeingErased, Conflict, Corrupt, InUse, LakewardenError, StorageUnavailable
from lakewarden.maintenance.flush.run import flush_scopes
from lakewarden.maintenance.flush_task import FlushTask
from lakewarden.maintenance.plans.select import FAILED
from lakewarden.storage.open import open_store
from lakewarden.storage.owner import MARKER
from lakewarden.storage.steps import Steps
from lakewarden.tables.client import TableClient
from lakewarden.tables.fanout import R, SizedWork, T, in_process
from tests.fixtures.lakes import NOTES, eventual, make_notes, notes, strong
from tests.fixtures.minio import MinioServer
from tests.fixtures.mounts import Disk, disk
from tests.maintenance.erase.test_erase import run_erase
from tests.maintenance.steps import then

pytestmark = pytest.mark.disk


@pytest.fixture(autouse=True)
def _a_minute_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Since this process confirmed a storage."""
    monkeypatch.setattr("lakewarden.delta.scope.RECENT_SECONDS", 0.0)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Disk]:
    with disk(tmp_path / "mounts") as found:
        yield found


@pytest.fixture
def lake(tmp_path: Path, mounted: Disk) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "lake")) as lake:
        lake.create_storage("cold", type="filesystem", base=str(mounted.where))
        yield lake


@pytest.fixture
def table(lake: Lakehouse) -> TableClient:
    table = make_notes(lake, options={"STORAGE_ID": "cold"})
    table.write(notes({1: "first"}), user="u")
    assert [report.outcome for report in lake.flush()] == ["done"]
    table.write(notes({2: "second"}), user="u")
    return table


def _codes(reports: list[ScopeReport]) -> list[str]:
    return [report.fault.code if report.fault else report.outcome for report in reports]


def _is_empty(mounted: Disk) -> bool:
    return not list(mounted.where.iterdir())


def test_a_flush_into_an_empty_mount_point_is_refused_and_the_log_kept(
    lake: Lakehouse, table: TableClient, mounted: Disk
) -> None:
    mounted.unmount()
    (report,) = lake.flush()
    assert report.fault is not None
    assert report.fault.code == "STORAGE_UNAVAILABLE"
    assert "is it mounted" in report.fault.message
    assert _is_empty(mounted)
    mounted.mount()
    assert strong(table, "u") == {1: "first", 2: "second"}
    assert _codes(lake.flush()) == ["done"]
    assert eventual(table, "u") == {1: "first", 2: "second"}


@pytest.mark.usefixtures("table")
def test_other_storages_go_on(lake: Lakehouse, mounted: Disk) -> None:
    here = lake.create_table("chat.here", columns=[Column("id", "BIGINT"), Column("text", "TEXT")], primary_key=["id"])
    here.write(notes({1: "x"}))
    mounted.unmount()
    reports = lake.flush()
    found = dict(zip([str(report.scope) for report in reports], _codes(reports), strict=True))
    assert found == {"chat.here": "done", "chat.notes[u]": "STORAGE_UNAVAILABLE"}


def _large(_: FlushTask) -> ScopeReport:
    raise AssertionError("no scope is large here")


def _run(work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]:
    return in_process(work, items, lambda done: None)


@pytest.mark.parametrize("marked", [False, True], ids=["empty", "marked"])
def test_a_disk_that_goes_away_during_a_flush_settles_nothing(
    lake: Lakehouse, table: TableClient, mounted: Disk, *, marked: bool
) -> None:
    """Also where the mount point has a copy of the marker: it is on another device."""

    def away() -> None:
        mounted.unmount()
        if marked:
            shutil.copy(mounted.content / MARKER, mounted.where / MARKER)

    reports = flush_scopes(lake.warehouse, _run, _large, lambda scope: True, reach=then("after-commits", away))
    assert _codes(reports) == ["STORAGE_UNAVAILABLE"]
    assert [one.rows for one in lake.pending()] == [1]
    if not marked:
        mounted.mount()
        assert strong(table, "u") == {1: "first", 2: "second"}
        assert _codes(lake.flush()) == ["skipped"], "the rows were flushed meanwhile"
        assert not lake.pending()


@pytest.mark.usefixtures("table")
def test_a_disk_that_goes_away_before_the_commits_settles_nothing(lake: Lakehouse, mounted: Disk) -> None:
    """They go into the mount point, and are there when the flush looks at them."""

    def away() -> None:
        shutil.copytree(mounted.content, mounted.content.parent / "copy")
        mounted.unmount()
        shutil.copytree(mounted.content.parent / "copy", mounted.where, dirs_exist_ok=True)
        (mounted.where / MARKER).unlink()

    reports = flush_scopes(lake.warehouse, _run, _large, lambda scope: True, reach=then("drain:opened", away))
    assert _codes(reports) == ["STORAGE_UNAVAILABLE"]
    assert [one.rows for one in lake.pending()] == [1]


def test_a_disk_that_was_away_in_the_middle_of_a_flush_settles_nothing(
    lake: Lakehouse, table: TableClient, mounted: Disk
) -> None:
    """Its marker and its device are the same again; the commit went into the mount point."""

    def reach(step: str) -> None:
        if step == "planned":
            shutil.copytree(mounted.content, mounted.content.parent / "copy")
        if step == "drain:opened":
            mounted.unmount()
            shutil.copytree(mounted.content.parent / "copy", mounted.where, dirs_exist_ok=True)
        if step == "after-commits":
            mounted.mount()

    reports = flush_scopes(lake.warehouse, _run, _large, lambda scope: True, reach=reach)
    assert _codes(reports) == ["STORAGE_UNAVAILABLE"]
    assert strong(table, "u") == {1: "first", 2: "second"}
    assert _codes(lake.flush()) == ["done"]


@pytest.mark.parametrize("listed", [2, 100])
def test_the_scopes_of_a_storage_that_is_away_fail_in_one_report_where_they_are_many(
    lake: Lakehouse, table: TableClient, mounted: Disk, monkeypatch: pytest.MonkeyPatch, listed: int
) -> None:
    monkeypatch.setattr("lakewarden.maintenance.plans.select._LISTED", listed)
    for user in ("v", "w"):
        table.write(notes({1: "first"}), user=user)
    lake.flush()
    mounted.unmount()
    for reports in (lake.compact(), lake.optimize(dry_run=True), lake.vacuum(dry_run=False)):
        assert {*_codes(reports)} == {"STORAGE_UNAVAILABLE"}
        shown = [(report.scope.user, report.metrics.get(FAILED)) for report in reports]
        assert shown == ([(None, 3)] if listed == 2 else [(user, None) for user in "uvw"])
    assert _is_empty(mounted)
    mounted.mount()
    assert {*_codes(lake.compact())} == {"skipped"}


def test_nothing_is_certified_of_a_storage_that_is_away(lake: Lakehouse, table: TableClient, mounted: Disk) -> None:
    mounted.unmount()
    with pytest.raises(StorageUnavailable, match="'cold'"):
        lake.erase("u")
    assert certificates(lake.warehouse.state) == []
    assert _is_empty(mounted)
    mounted.mount()
    assert strong(table, "u") == {1: "first", 2: "second"}
    assert lake.erase("u").result == "complete"
    assert strong(table, "u") == {}


@pytest.mark.slow
@pytest.mark.parametrize("marked", [False, True], ids=["empty", "marked"])
def test_nothing_is_certified_of_a_storage_that_went_away_before_it_was_searched(
    lake: Lakehouse, table: TableClient, mounted: Disk, *, marked: bool
) -> None:
    """A copy lies there that the search would find."""
    copy = mounted.where / "chat" / "notes" / "backup" / "u"
    shutil.copytree(Path(table.reader.target("u").uri), copy)

    def away() -> None:
        mounted.unmount()
        if marked:
            shutil.copy(mounted.content / MARKER, mounted.where / MARKER)

    with pytest.raises(StorageUnavailable, match="'cold'"):
        run_erase(lake, "u", then("erase:removed", away))
    assert certificates(lake.warehouse.state) == []
    with pytest.raises(BeingErased):
        table.write(notes({3: "x"}), user="u")
    if marked:
        (mounted.where / MARKER).unlink()
    mounted.mount()
    with pytest.raises(Conflict, match="not everything is gone"):
        run_erase(lake, "u", job_id="UC-2")
    shutil.rmtree(copy)
    assert run_erase(lake, "u", job_id="UC-3").result == "complete"


@pytest.mark.parametrize(
    "act",
    [
        lambda lake: lake.drop_table(NOTES),
        lambda lake: lake.move(NOTES, "local"),
        lambda lake: lake.table(NOTES).read(user="u"),
        lambda lake: lake.table(NOTES).read(user="u", freshness="eventual"),
        lambda lake: lake.table(NOTES).read(user="nobody", freshness="eventual"),
        lambda lake: lake.table(NOTES).history(user="u"),
        lambda lake: lake.table(NOTES).lease(user="u", seconds=60),
    ],
    ids=["drop", "move", "read", "eventual read", "read of a new scope", "history", "lease"],
)
def test_what_needs_the_storage_is_refused(
    lake: Lakehouse, table: TableClient, mounted: Disk, act: Callable[[Lakehouse], object]
) -> None:
    assert strong(table, "u") == {1: "first", 2: "second"}
    mounted.unmount()
    with pytest.raises(StorageUnavailable, match="is it mounted"):
        act(lake)
    assert _is_empty(mounted)
    mounted.mount()
    assert strong(table, "u") == {1: "first", 2: "second"}


@pytest.mark.usefixtures("table")
def test_maintenance_is_refused_scope_by_scope(lake: Lakehouse, mounted: Disk) -> None:
    mounted.unmount()
    operations = (lake.compact, lake.optimize, partial(lake.vacuum, dry_run=False), partial(lake.compact, dry_run=True))
    assert [_codes(operation(NOTES)) for operation in operations] == [["STORAGE_UNAVAILABLE"]] * 4
    assert _is_empty(mounted)


@pytest.mark.usefixtures("table")
def test_check_and_health_name_the_storage(lake: Lakehouse, mounted: Disk) -> None:
    assert all(finding.passed for finding in lake.check())
    mounted.unmount()
    bad = [(finding.subject, finding.check, finding.code) for finding in lake.check() if not finding.passed]
    assert bad == [("storage cold", "identity", "STORAGE_UNAVAILABLE")], "one line for all of its scopes"
    (ill,) = lake.health("cold")
    assert (ill.status, "is it mounted" in (ill.error or "")) == ("unreachable", True)
    assert _is_empty(mounted)


def test_a_bucket_that_was_made_again_is_another_one(minio: MinioServer, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    bucket = minio.prefix_for(request.node.name)
    with Lakehouse.open(str(tmp_path / "lake")) as lake:
        lake.create_storage("cold", type="s3", base=bucket)
        table = make_notes(lake, options={"STORAGE_ID": "cold"})
        table.write(notes({1: "first"}), user="u")
        assert _codes(lake.flush()) == ["done"]
        store = open_store(Location(bucket))
        store.delete([found.key for found in store.list("")])
        table.write(notes({2: "second"}), user="u")
        assert _codes(lake.flush()) == ["STORAGE_UNAVAILABLE"]
        assert store.list("") == []
        with pytest.raises(LakewardenError, match="is it mounted"):
            table.read(user="u")


def test_a_storage_that_is_lost_for_good_is_adopted_on_request(
    lake: Lakehouse, table: TableClient, mounted: Disk, capsys: pytest.CaptureFixture[str]
) -> None:
    mounted.unmount()
    with pytest.raises(SystemExit) as left:
        main(["storage", "adopt", "cold", "--warehouse", lake.warehouse.uri, "--format", "json"])
    assert not left.value.code
    assert '"cold"' in capsys.readouterr().out
    with pytest.raises(Corrupt, match="there is no table"):
        table.read(user="u")
    lake.drop_table(NOTES)
    assert lake.drop_storage("cold")


def test_another_storage_is_not_adopted(lake: Lakehouse, mounted: Disk) -> None:
    (mounted.where / MARKER).unlink()
    lake.create_storage("other", type="filesystem", base=str(mounted.where))
    with pytest.raises(InUse, match="marker of another storage"):
        lake.adopt_storage("cold")


def test_data_without_its_warehouse_is_not_taken_over(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    Lakehouse.open(str(place)).close()
    shutil.rmtree(place / "_lakewarden")
    with pytest.raises(InUse, match="restore that from a backup"):
        Lakehouse.open(str(place))


def test_a_warehouse_whose_making_was_cut_off_is_made_on(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    with Lakehouse.open(str(place)) as lake:
        id_ = lake.warehouse.id
    (place / "_lakewarden" / "warehouse.json").unlink()
    with Lakehouse.open(str(place)) as lake:
        assert lake.warehouse.id == id_
        assert all(finding.passed for finding in lake.check())
