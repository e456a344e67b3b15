"""Plans: what was previewed is what is done, scope by scope, and nothing else."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.clock import random_id
from lakewarden.base.connection import Location
from lakewarden.base.setting_sections import CompactionSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.operations import PLANNABLE, QUEUEABLE, SPECS, Operation, Plannable, Queueable
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import InvalidArgument, Moved, NotFound, Unsupported
from lakewarden.maintenance.flush.run import FlushJob, flush_scopes
from lakewarden.maintenance.move import procedure as move
from lakewarden.maintenance.move.run import Mover
from lakewarden.maintenance.plans import store as plan_store
from lakewarden.maintenance.plans.still_planned import PLAN
from lakewarden.maintenance.plans.store import PlanLog
from lakewarden.maintenance.plans.value import Plan, read_plans
from lakewarden.maintenance.request import new_request
from lakewarden.maintenance.restore import RestoreOptions
from lakewarden.maintenance.vacuum import VacuumOptions
from lakewarden.maintenance.vacuum.scope import replan_vacuum
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps, alone
from lakewarden.tables.fanout import SizedWork
from tests.fixtures.bucket import path_of
from tests.fixtures.lakes import NOTES, Rows, check_manifest, eventual, hot_ids, make_notes, notes, scope_path, strong
from tests.maintenance.steps import Died, dies, later

pytestmark = pytest.mark.both_stores("disk")
"""In the gate those run on MinIO too that are marked so: they are about how a store keeps plans, commits and times."""

_SMALL = Settings(compaction=CompactionSettings(min_eligible_segments=2))


class Clock:
    """The real time, moved on by so much."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lake(warehouse_uri: str, clock: Clock) -> Iterator[Lakehouse]:
    """Two users with three flushed versions each."""
    with Lakehouse.open(warehouse_uri, settings=_SMALL, clock=clock) as opened:
        table = make_notes(opened)
        for number in range(3):
            for user in ("ann", "bob"):
                table.write(notes({number: f"{user} {number}"}), user=user)
            opened.flush()
        yield opened


def _write(lake: Lakehouse, user: str, texts: Rows) -> None:
    lake.table(NOTES).write(notes(texts), user=user)


def _outcomes(reports: list[ScopeReport]) -> dict[str | None, str]:
    """`done`, or the code of the fault, by user."""
    return {report.scope.user: report.fault.code if report.fault else report.outcome for report in reports}


def _versions(lake: Lakehouse) -> dict[str, int]:
    return {user: lake.table(NOTES).history(user=user)[0].version for user in ("ann", "bob")}


# What moved is refused, the rest is done


def test_a_row_that_came_after_the_preview_is_not_restored_away(lake: Lakehouse) -> None:
    plan = lake.plan("restore", NOTES, user="ann", version=1)
    _write(lake, "ann", {9: "after the preview"})
    lake.flush()
    (report,) = lake.apply(plan)
    assert _outcomes([report]) == {"ann": "CONFLICT"}
    assert "planned at version 2 and is at version 3" in report.reason
    assert strong(lake.table(NOTES), "ann")[9] == "after the preview"


def test_a_pending_row_that_came_after_the_preview_stops_the_restore_too(lake: Lakehouse) -> None:
    plan = lake.plan("restore", NOTES, user="ann", version=1)
    _write(lake, "ann", {9: "after the preview"})
    assert _outcomes(lake.apply(plan)) == {"ann": "CONFLICT"}
    assert _versions(lake) == {"ann": 2, "bob": 2}
    assert hot_ids(lake.table(NOTES), "ann") == [9], "a refused scope is not flushed either"


def test_a_scope_that_cannot_be_restored_keeps_its_pending_rows(lake: Lakehouse) -> None:
    _write(lake, "ann", {9: "pending"})
    for discard in (False, True):
        (report,) = lake.restore(NOTES, user="ann", version=77, discard_pending=discard, dry_run=False)
        assert _outcomes([report]) == {"ann": "NOT_FOUND"}
        assert [one.scope.user for one in lake.pending()] == ["ann"]


def test_pending_rows_that_the_preview_saw_are_restored_away(lake: Lakehouse) -> None:
    _write(lake, "ann", {9: "pending"})
    plan = lake.plan("restore", NOTES, user="ann", version=1)
    (report,) = lake.apply(plan)
    assert (report.outcome, report.version) == ("done", 4)
    assert strong(lake.table(NOTES), "ann") == {0: "ann 0", 1: "ann 1"}
    assert [report.reason for report in lake.apply(plan)] == ["applied before, in version 4"]


def test_rows_of_another_user_do_not_stop_a_restore(lake: Lakehouse) -> None:
    plan = lake.plan("restore", NOTES, user="ann", version=1)
    _write(lake, "bob", {9: "after the preview"})
    assert _outcomes(lake.apply(plan)) == {"ann": "done"}
    assert strong(lake.table(NOTES), "bob")[9] == "after the preview"


def test_discarding_discards_what_the_preview_saw(lake: Lakehouse) -> None:
    _write(lake, "ann", {9: "pending"})
    plan = lake.plan("restore", NOTES, user="ann", version=2, discard_pending=True)
    assert _outcomes(lake.apply(plan)) == {"ann": "done"}
    lake.flush()
    assert strong(lake.table(NOTES), "ann") == {0: "ann 0", 1: "ann 1", 2: "ann 2"}
    _write(lake, "ann", {9: "pending"})
    plan = lake.plan("restore", NOTES, user="ann", version=2, discard_pending=True)
    _write(lake, "ann", {10: "later"})
    assert _outcomes(lake.apply(plan)) == {"ann": "CONFLICT"}
    assert hot_ids(lake.table(NOTES), "ann") == [9, 10]


def test_a_timestamp_is_resolved_when_it_is_planned(lake: Lakehouse, clock: Clock) -> None:
    moment = clock()
    _write(lake, "ann", {9: "later"})
    lake.flush()
    plan = lake.plan("restore", NOTES, timestamp=moment)
    assert [line.parameters["version"] for line in plan.scopes] == ["2"]
    clock.ahead = timedelta(hours=1)
    assert _outcomes(lake.apply(plan)) == {"ann": "done"}
    assert 9 not in strong(lake.table(NOTES), "ann")


@pytest.mark.both_stores
def test_a_commit_replaced_by_another_of_the_same_number_is_seen(lake: Lakehouse) -> None:
    plan = lake.plan("restore", NOTES, user="ann", version=1)
    newest = path_of(f"{scope_path(lake, 'ann')}") / "_delta_log" / f"{2:020d}.json"
    newest.write_text(newest.read_text() + "\n")
    (report,) = lake.apply(plan)
    assert _outcomes([report]) == {"ann": "CONFLICT"}
    assert "not the commit that was planned on" in report.reason


@pytest.mark.parametrize("operation", ["compact", "optimize"])
def test_a_replaced_input_is_refused_and_the_other_scope_done(lake: Lakehouse, operation: str) -> None:
    plan = lake.planned(operation, NOTES)
    _write(lake, "ann", {1: "new"})
    lake.flush()
    assert _outcomes(lake.apply(plan)) == {"ann": "CONFLICT", "bob": "done"}
    assert strong(lake.table(NOTES), "ann")[1] == "new"
    assert len(_live(lake, "bob")) == 1
    check_manifest(lake, "bob")


@pytest.mark.parametrize("operation", ["compact", "optimize"])
def test_a_file_that_was_added_stays_beside(lake: Lakehouse, operation: str) -> None:
    plan = lake.planned(operation, NOTES)
    _write(lake, "ann", {7: "new"})
    lake.flush()
    assert _outcomes(lake.apply(plan)) == {"ann": "done", "bob": "done"}
    assert len(_live(lake, "ann")) == 2
    assert eventual(lake.table(NOTES), "ann") == {0: "ann 0", 1: "ann 1", 2: "ann 2", 7: "new"}
    check_manifest(lake, "ann")


def test_a_z_order_takes_the_planned_files(lake: Lakehouse) -> None:
    plan = lake.plan("optimize", NOTES, user="ann", zorder=("text",))
    _write(lake, "ann", {7: "new"})
    lake.flush()
    assert _outcomes(lake.apply(plan)) == {"ann": "done"}
    assert len(_live(lake, "ann")) == 2
    newest = lake.table(NOTES).history(user="ann")[0]
    assert (newest.parameters["zorder_by"], newest.parameters["plan_id"]) == ("text", plan.plan_id)


def _live(lake: Lakehouse, user: str) -> list[str]:
    manifest = json.loads((scope_path(lake, user) / "manifest.json").read_text())
    return [segment["path"] for segment in manifest["segments"]]


def _data_files(lake: Lakehouse, user: str) -> set[str]:
    return {path.name for path in scope_path(lake, user).glob("*.parquet")}


@pytest.mark.both_stores
def test_a_vacuum_deletes_the_planned_files_and_no_others(lake: Lakehouse) -> None:
    lake.compact(NOTES)
    lake.tag(NOTES, "first", user="ann", version=0)
    plan = lake.plan("vacuum", NOTES, user="ann", retain_hours=0, force=True)
    planned = {path for line in plan.scopes for path in line.files if path.endswith(".parquet") and "/" not in path}
    assert len(planned) == 2
    lake.drop_tag(NOTES, "first", user="ann")  # so that a file more could go
    _write(lake, "ann", {0: "new"})
    lake.flush()  # replaces the compacted file, which another vacuum without retention would take too
    before = _data_files(lake, "ann")
    assert _outcomes(lake.apply(plan)) == {"ann": "done"}
    assert before - _data_files(lake, "ann") == planned
    assert [report.reason for report in lake.apply(plan)] == ["applied before, in version 6"]
    lake.vacuum(NOTES, user="ann", retain_hours=0, force=True, dry_run=False)
    assert len(_data_files(lake, "ann")) == 1


def test_a_vacuum_keeps_what_was_tagged_since(lake: Lakehouse) -> None:
    lake.compact(NOTES)
    plan = lake.plan("vacuum", NOTES, retain_hours=0, force=True)
    lake.tag(NOTES, "keep", user="ann", version=1)
    before = _data_files(lake, "ann")
    assert _outcomes(lake.apply(plan)) == {"ann": "CONFLICT", "bob": "done"}
    assert _data_files(lake, "ann") == before


def test_a_vacuum_does_not_follow_another(lake: Lakehouse) -> None:
    lake.compact(NOTES)
    plan = lake.plan("vacuum", NOTES, user="ann", retain_hours=0, force=True)
    lake.vacuum(NOTES, user="ann", retain_hours=0, force=True, dry_run=False)
    assert _outcomes(lake.apply(plan)) == {"ann": "CONFLICT"}


def test_a_longer_retention_is_kept(lake: Lakehouse, clock: Clock) -> None:
    lake.compact(NOTES)
    clock.ahead = timedelta(days=8)
    plan = lake.plan("vacuum", NOTES, user="ann")
    lake.sql(f"ALTER TABLE {NOTES} SET TBLPROPERTIES (DELETED_RETENTION_HOURS = '720')")
    before = _data_files(lake, "ann")
    assert _outcomes(lake.apply(plan)) == {"ann": "CONFLICT"}
    assert _data_files(lake, "ann") == before


# The log


def test_an_eviction_goes_up_to_the_planned_end(lake: Lakehouse, clock: Clock) -> None:
    columns = [Column("id", "BIGINT")]
    stream = lake.create_table("chat.typing", type="STREAM", columns=columns, primary_key=["id"], options={"TTL_SECONDS": "30"})
    stream.write([{"id": 1}], user="ann")
    clock.ahead = timedelta(seconds=31)
    plan = lake.plan("evict")
    stream.write([{"id": 2}], user="ann")
    clock.ahead = timedelta(seconds=70)
    assert _outcomes(lake.apply(plan)) == {"ann": "done"}
    assert [report.metrics["rows_evicted"] for report in lake.evict()] == [1], "the later row was left"
    assert _outcomes(lake.apply(plan)) == {"ann": "done"}


def test_a_flush_goes_up_to_the_planned_end(lake: Lakehouse) -> None:
    _write(lake, "ann", {5: "planned"})
    plan = lake.plan("flush", NOTES)
    assert [(line.user, line.metrics["rows_pending"]) for line in plan.scopes] == [("ann", 1)]
    _write(lake, "ann", {5: "later", 6: "later"})
    _write(lake, "bob", {5: "later"})
    assert _outcomes(lake.apply(plan)) == {"ann": "done"}
    assert eventual(lake.table(NOTES), "ann")[5] == "planned"
    assert strong(lake.table(NOTES), "ann")[5] == "later"
    assert hot_ids(lake.table(NOTES), "ann") == [5, 6]
    assert hot_ids(lake.table(NOTES), "bob") == [5]
    assert lake.table(NOTES).history(user="ann")[0].parameters["plan_id"] == plan.plan_id
    assert [report.reason for report in lake.apply(plan)] == ["its rows were already flushed"]
    lake.flush()
    assert eventual(lake.table(NOTES), "ann")[6] == "later"


# Once, and in time


def test_a_second_apply_reports_what_the_first_did(lake: Lakehouse) -> None:
    plan = lake.plan("compact", NOTES)
    first = lake.apply(plan)
    versions = _versions(lake)
    second = lake.apply(plan.plan_id)
    assert _outcomes(first) == _outcomes(second) == {"ann": "done", "bob": "done"}
    assert [report.version for report in second] == [report.version for report in first]
    assert _versions(lake) == versions


@pytest.mark.both_stores
def test_a_plan_expires_by_the_clock_and_by_the_store(lake: Lakehouse, clock: Clock, store: str) -> None:
    plan = lake.plan("compact", NOTES)
    clock.ahead = timedelta(hours=25)
    with pytest.raises(Moved, match="too old"):
        lake.apply(plan)
    clock.ahead = timedelta(hours=23)
    if store == "disk":
        _age(lake, plan.plan_id, timedelta(hours=25))
        with pytest.raises(Moved, match="too old"):
            lake.apply(plan)
    else:
        assert _outcomes(lake.apply(plan)) == {"ann": "done", "bob": "done"}


def _age(lake: Lakehouse, plan_id: str, by: timedelta) -> None:
    at = (datetime.now(UTC) - by).timestamp()
    os.utime(str(path_of(lake.warehouse.uri) / "_lakewarden" / "plans" / plan_id / "000000"), (at, at))


@pytest.mark.both_stores
def test_a_vacuum_removes_old_plans(lake: Lakehouse, clock: Clock) -> None:
    old = lake.plan("compact", NOTES)
    clock.ahead = timedelta(hours=49)
    lake.vacuum(NOTES, dry_run=False)
    clock.ahead = timedelta()
    with pytest.raises(NotFound, match=old.plan_id):
        lake.apply(old)


@pytest.mark.both_stores
def test_two_applies_at_once_do_it_once(lake: Lakehouse, warehouse_uri: str) -> None:
    plan = lake.plan("compact", NOTES)
    before = _versions(lake)
    start = threading.Barrier(2)

    def apply() -> list[ScopeReport]:
        with Lakehouse.open(warehouse_uri) as other:
            start.wait()
            return other.apply(plan)

    with ThreadPoolExecutor(2) as pool:
        applies = [pool.submit(apply) for _ in range(2)]
        assert [_outcomes(each.result()) for each in applies] == [{"ann": "done", "bob": "done"}] * 2
    assert _versions(lake) == {user: version + 1 for user, version in before.items()}


def test_a_vacuum_that_died_between_its_marks_is_ended(lake: Lakehouse) -> None:
    lake.compact(NOTES)
    plan = lake.plan("vacuum", NOTES, user="ann", retain_hours=0, force=True)
    (line,) = plan.scopes
    target, options = lake.warehouse.target(lake.warehouse.catalog.read(), line.scope), VacuumOptions(0, force=True)
    again = replan_vacuum(target, options, line, plan.plan_id, now=lake.warehouse.clock())
    again = replace(again, parameters={**again.parameters, PLAN: plan.plan_id})
    with pytest.raises(Died):
        alone(again.run(job_id="VA-1", clock=later(), new_id=random_id, reach=dies("during-deletes")))
    left = _data_files(lake, "ann")
    assert 1 < len(left) < 4
    assert _outcomes(lake.apply(plan)) == {"ann": "done"}
    assert len(_data_files(lake, "ann")) == 1
    assert [entry.operation for entry in lake.table(NOTES).history(user="ann")][:2] == ["VACUUM END", "VACUUM START"]


def test_a_restore_that_died_behind_its_flush_is_ended(lake: Lakehouse) -> None:
    _write(lake, "ann", {9: "pending"})
    plan = lake.plan("restore", NOTES, user="ann", version=1)
    (line,) = plan.scopes
    assert line.end is not None

    def run(work: Callable[[Any], Steps[Any]], items: Sequence[SizedWork[Any]]) -> list[Any]:
        return [alone(work(item.work)) for item in items]

    job = FlushJob("FL-1", None, plan.plan_id, {line.log_id: line.end})
    flush_scopes(lake.warehouse, run, lambda task: pytest.fail("too large"), {line.scope}.__contains__, job=job)
    assert _versions(lake)["ann"] == 3
    assert [(report.outcome, report.version) for report in lake.apply(plan)] == [("done", 4)]
    assert strong(lake.table(NOTES), "ann") == {0: "ann 0", 1: "ann 1"}


def test_plans_of_many_parts_are_kept_whole(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_store, "_PART_LINES", 1)
    odd = "o\u2028d\nd"
    lake.table(NOTES).write(notes({1: "x"}), user=odd)
    plan = lake.plan("flush", NOTES)
    _write(lake, "eve", {1: "x"})
    other = lake.plan("flush", NOTES)
    assert {line.user for line in other.scopes} == {"eve", odd}
    lake.erase("eve")
    assert Plan.from_json(plan.to_json()) == plan
    assert _outcomes(lake.apply(plan)) == {odd: "done"}
    assert _outcomes(lake.apply(other)) == {odd: "done", "eve": "CONFLICT"}


@pytest.mark.both_stores
@pytest.mark.parametrize("stored", [1, 2])
def test_a_plan_that_was_stored_in_part_cannot_be_applied(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch, stored: int) -> None:
    """Of three parts: a head and two scopes."""
    monkeypatch.setattr(plan_store, "_PART_LINES", 1)
    keys: list[str] = []
    create = type(lake.warehouse.state).create

    def dies_between(self: ObjectStore, key: str, data: bytes) -> None:
        if key.startswith("plans/"):
            if len(keys) == stored:
                raise Died(key)
            keys.append(key)
        create(self, key, data)

    with monkeypatch.context() as dying:
        dying.setattr(type(lake.warehouse.state), "create", dies_between)
        with pytest.raises(Died):
            lake.plan("compact", NOTES)
    before = _versions(lake)
    assert len(keys) == stored
    with pytest.raises(NotFound, match="there is no plan"):
        lake.apply(keys[0].split("/")[1])
    assert _versions(lake) == before


# A plan is not trusted


def test_a_changed_line_is_refused(lake: Lakehouse) -> None:
    plan = lake.plan("compact", NOTES)
    ann, bob = plan.scopes
    elsewhere = replace(plan, scopes=(replace(ann, uri=bob.uri), bob))
    assert _outcomes(lake.apply(elsewhere)) == {"ann": "CONFLICT", "bob": "done"}
    somebody = replace(plan, scopes=(replace(ann, user="eve"),))
    assert _outcomes(lake.apply(somebody)) == {"eve": "CONFLICT"}
    assert _versions(lake)["ann"] == 2
    plan = lake.plan("restore", NOTES, user="ann", version=1)
    further = replace(plan, scopes=(replace(plan.scopes[0], parameters={"version": "0"}),))
    assert _outcomes(lake.apply(further)) == {"ann": "CONFLICT"}
    assert _versions(lake)["ann"] == 2


def test_another_request_or_warehouse_is_refused(lake: Lakehouse) -> None:
    plan = lake.plan("vacuum", NOTES)
    with pytest.raises(InvalidArgument, match="something other than"):
        lake.apply(replace(plan, request=replace(plan.request, options=VacuumOptions(force=True))))
    with pytest.raises(InvalidArgument, match="made for warehouse 000"):
        lake.apply(replace(plan, warehouse="0" * 32))
    with pytest.raises(NotFound, match="PL-000000000000-00000000"):
        lake.apply("PL-000000000000-00000000")
    with pytest.raises(InvalidArgument, match="not the id of a plan"):
        lake.apply("../../etc/passwd")


def test_a_table_of_the_same_name_is_another(lake: Lakehouse) -> None:
    plan = lake.plan("compact", NOTES)
    lake.drop_table(NOTES)
    assert _outcomes(lake.apply(plan)) == {"ann": "CONFLICT", "bob": "CONFLICT"}
    table = make_notes(lake)
    for number in range(3):
        table.write(notes({number: "x"}), user="ann")
        lake.flush()
    assert _outcomes(lake.apply(plan)) == {"ann": "CONFLICT", "bob": "CONFLICT"}


@pytest.mark.disk
def test_a_scope_at_another_place_is_refused(lake: Lakehouse, tmp_path: Path) -> None:
    plans = [lake.plan("compact", NOTES), lake.plan("drop", NOTES), lake.plan("erase", user="ann")]
    lake.create_storage("other", type="filesystem", base=str(tmp_path / "other"))
    lake.move(NOTES, "other")
    outcomes = [_outcomes(lake.apply(plan)) for plan in plans]
    assert outcomes == [{"ann": "CONFLICT", "bob": "CONFLICT"}, {None: "CONFLICT"}, {"ann": "CONFLICT"}]
    assert strong(lake.table(NOTES), "ann") == {0: "ann 0", 1: "ann 1", 2: "ann 2"}


def test_a_shared_table_is_planned_as_one_scope(lake: Lakehouse) -> None:
    columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
    rooms = lake.create_table("chat.rooms", columns=columns, primary_key=["id"])
    rooms.write(notes({1: "first"}))
    assert _outcomes(lake.apply(lake.plan("flush", "chat.rooms"))) == {None: "done"}
    rooms.write(notes({1: "second"}))
    plan = lake.plan("restore", "chat.rooms", version=0)
    assert _outcomes(lake.apply(plan)) == {None: "done"}
    assert strong(rooms, None) == {1: "first"}
    with pytest.raises(InvalidArgument, match="SHARED"):
        lake.plan("flush", "chat.rooms", user="ann")


# Users


@pytest.mark.both_stores
def test_an_erased_user_is_in_no_plan(lake: Lakehouse) -> None:
    every, own = lake.plan("compact", NOTES), lake.plan("compact", NOTES, user="ann")
    lake.erase("ann")
    texts = [path.read_text() for path in (path_of(lake.warehouse.uri) / "_lakewarden" / "plans").rglob("*") if path.is_file()]
    assert texts
    assert not any(name in text for text in texts for name in ('"ann"', "/ann", "[ann]"))
    assert not lake.verify_erased("ann").findings
    assert _outcomes(lake.apply(every.plan_id)) == {"bob": "done"}
    assert _outcomes(lake.apply(every)) == {"ann": "CONFLICT", "bob": "done"}
    with pytest.raises(NotFound, match="removed"):
        lake.apply(own.plan_id)


def test_a_plan_that_was_made_during_an_erasure_does_not_name_the_user(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = PlanLog.keep

    def erase_first(log: PlanLog, plan: Plan, clock: Callable[[], datetime]) -> None:
        lake.erase("ann")
        keep(log, plan, clock)

    monkeypatch.setattr(PlanLog, "keep", erase_first)
    plan = lake.plan("compact", NOTES)
    assert [line.user for line in plan.scopes] == ["ann", "bob"]
    assert not lake.verify_erased("ann").findings
    assert _outcomes(lake.apply(plan.plan_id)) == {"bob": "done"}


def test_the_search_finds_a_plan_that_was_left(lake: Lakehouse) -> None:
    plan = lake.plan("compact", NOTES)
    kept = path_of(lake.warehouse.uri) / "_lakewarden" / "plans" / plan.plan_id / "000000"
    text = kept.read_text()
    lake.erase("ann")
    kept.write_text(text)
    assert [finding.what for finding in lake.verify_erased("ann").findings] == ["a plan that names the user"]


# What removes all


def test_a_drop_takes_later_rows_too_and_no_other_table(lake: Lakehouse) -> None:
    plan = lake.plan("drop", NOTES)
    assert plan.scopes[0].metrics == {"scopes": 2, "rows_pending": 0}
    _write(lake, "eve", {1: "later"})
    (report,) = lake.apply(plan)
    assert (report.outcome, lake.tables()) == ("done", [])
    assert _outcomes(lake.apply(plan)) == {None: "done"}, "what it did is reported"
    make_notes(lake)
    assert _outcomes(lake.apply(plan.plan_id)) == {None: "done"}
    assert [str(table.name) for table in lake.tables()] == [NOTES], "and not done again"


def test_a_drop_of_a_table_that_was_made_again_is_refused(lake: Lakehouse) -> None:
    plan = lake.plan("drop", NOTES)
    lake.drop_table(NOTES)
    assert _outcomes(lake.apply(plan)) == {None: "CONFLICT"}
    make_notes(lake)
    assert _outcomes(lake.apply(plan)) == {None: "CONFLICT"}
    assert len(lake.tables()) == 1


def test_lines_that_are_left_out_do_not_spare_a_drop_its_look(lake: Lakehouse) -> None:
    plan = lake.plan("drop", NOTES)
    lake.drop_table(NOTES)
    make_notes(lake)
    assert _outcomes(lake.apply(replace(plan, scopes=()))) == {None: "CONFLICT"}
    assert len(lake.tables()) == 1


def test_an_erasure_takes_later_rows_too_and_leaves_no_name(lake: Lakehouse) -> None:
    _write(lake, "ann", {8: "pending"})
    plan = lake.plan("erase", user="ann")
    assert [(line.table, line.metrics["hot_rows"]) for line in plan.scopes] == [(NOTES, 1)]
    assert plan.scopes[0].metrics["files"] > 0
    _write(lake, "ann", {9: "later"})
    (report,) = lake.apply(plan)
    (certificate,) = lake.erasures("ann")
    assert (report.outcome, report.reason) == ("done", f"certificate {certificate.id}")
    assert (certificate.result, certificate.asked_by) == ("complete", f"plan {plan.plan_id}")
    assert strong(lake.table(NOTES), "ann") == {}
    assert not lake.verify_erased("ann").findings
    _write(lake, "ann", {1: "a new start"})
    again = lake.apply(plan.plan_id)
    assert [(report.scope.user, report.outcome, report.reason) for report in again] == [
        (certificate.user, "done", f"certificate {certificate.id}")
    ]
    assert strong(lake.table(NOTES), "ann") == {1: "a new start"}


def test_an_erasure_from_a_table_that_was_made_again_is_refused(lake: Lakehouse) -> None:
    plan = lake.plan("erase", user="ann")
    lake.drop_table(NOTES)
    make_notes(lake)
    _write(lake, "ann", {1: "of another table"})
    assert _outcomes(lake.apply(plan)) == {"ann": "CONFLICT"}
    assert lake.erasures("ann") == []


# Requests


def _cold(lake: Lakehouse, base: Path) -> None:
    lake.create_storage("cold", type="s3" if str(base).startswith("s3://") else "filesystem", base=str(base))


def _is_at(lake: Lakehouse, user: str, place: Path) -> bool:
    return lake.table(NOTES).reader.target(user).uri.startswith(f"{place}/")


@pytest.mark.slow
def test_a_move_takes_later_rows_along_and_is_done_once(lake: Lakehouse, tmp_path: Path) -> None:
    _cold(lake, tmp_path / "cold")
    plan = lake.plan("move", NOTES, to="cold")
    assert (plan.scopes[0].metrics["scopes"], plan.scopes[0].user) == (2, None)
    _write(lake, "eve", {1: "later"})
    lake.flush()
    assert _outcomes(lake.apply(Plan.from_json(plan.to_json()))) == {None: "done"}
    assert all(_is_at(lake, user, tmp_path / "cold") for user in ("ann", "eve"))
    assert _outcomes(lake.apply(plan.plan_id)) == {None: "done"}, "what it did is reported"
    assert lake.plan("move", NOTES, to="cold").scopes == (), "it is there already"


@pytest.mark.both_stores
def test_a_move_that_died_is_continued_by_its_plan(lake: Lakehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _cold(lake, tmp_path / "cold")
    plan = lake.plan("move", NOTES, to="cold")
    for moment in ("move:closed", "move:switched"):
        with monkeypatch.context() as patched:
            patched.setattr(move, "Mover", partial(Mover, reach=dies(moment)))
            with pytest.raises(Died):
                lake.apply(plan)
    assert _outcomes(lake.apply(plan)) == {None: "done"}
    assert eventual(lake.table(NOTES), "ann")
    assert _is_at(lake, "ann", tmp_path / "cold")


def test_a_move_is_refused_where_the_table_or_the_storage_is_another(lake: Lakehouse, tmp_path: Path) -> None:
    _cold(lake, tmp_path / "one")
    moved = lake.plan("move", NOTES, to="cold")
    lake.drop_storage("cold")
    _cold(lake, tmp_path / "other")
    assert _outcomes(lake.apply(moved)) == {None: "CONFLICT"}
    plan = lake.plan("move", NOTES, to="cold")
    lake.drop_table(NOTES)
    assert _outcomes(lake.apply(plan)) == {None: "CONFLICT"}
    make_notes(lake)
    assert _outcomes(lake.apply(plan)) == {None: "CONFLICT"}
    assert lake.table(NOTES).table.options.storage_id == "local"


@pytest.mark.both_stores
def test_an_export_is_planned_table_by_table_and_done_once(lake: Lakehouse, tmp_path: Path) -> None:
    _write(lake, "ann", {9: "pending"})
    plan = lake.plan("export", user="ann", to=str(tmp_path / "out"))
    assert [(line.table, line.user, line.metrics["hot_rows"]) for line in plan.scopes] == [(NOTES, "ann", 1)]
    assert _outcomes(lake.apply(plan)) == {"ann": "done"}
    files = {found.key for found in open_store(Location(str(tmp_path / "out"))).list("")}
    assert "manifest.json" in files
    _write(lake, "ann", {10: "later"})
    assert _outcomes(lake.apply(plan)) == {"ann": "done"}, "what it did is reported"
    assert {found.key for found in open_store(Location(str(tmp_path / "out"))).list("")} == files, "and not done again"


def test_an_export_is_refused_where_a_table_is_another(lake: Lakehouse, tmp_path: Path) -> None:
    plan = lake.plan("export", user="ann", to=str(tmp_path / "out"))
    lake.drop_table(NOTES)
    make_notes(lake)
    assert _outcomes(lake.apply(plan)) == {"ann": "CONFLICT"}
    assert open_store(Location(str(tmp_path / "out"))).list("") == []


def test_what_an_operation_does_not_take_is_refused(lake: Lakehouse) -> None:
    with pytest.raises(InvalidArgument, match="compact does not take force, zorder"):
        lake.plan("compact", NOTES, zorder=("text",), force=True)
    with pytest.raises(InvalidArgument, match="restore takes one table"):
        lake.plan("restore", version=1)
    with pytest.raises(Unsupported, match="import cannot be planned"):
        lake.planned("import", NOTES)
    with pytest.raises(InvalidArgument, match="export takes no tables"):
        lake.plan("export", NOTES, user="ann", to="elsewhere")
    with pytest.raises(InvalidArgument, match=r"export: name the directory or URI to export to .* and the user"):
        lake.plan("export")
    with pytest.raises(InvalidArgument, match=r"name either a version .*--version 3; the history lists them\) or a time"):
        lake.plan("restore", NOTES, user="ann")
    with pytest.raises(InvalidArgument, match=r"move: name the storage to move to .*--to archive"):
        lake.plan("move", NOTES)
    with pytest.raises(InvalidArgument, match="no operation 'fold'"):
        lake.planned("fold", NOTES)


def test_without_an_operation_it_answers_as_before(lake: Lakehouse) -> None:
    reports = lake.plan(NOTES)
    assert {(report.operation, report.scope.user, report.plan_id) for report in reports} == {
        (operation, user, "") for operation in ("compact", "optimize") for user in ("ann", "bob")
    }


def test_a_dry_run_names_its_plan(lake: Lakehouse) -> None:
    reports = lake.restore(NOTES, user="ann", version=1, dry_run=True)
    (plan_id,) = {report.plan_id for report in reports}
    assert _outcomes(lake.apply(plan_id)) == {"ann": "done"}
    assert strong(lake.table(NOTES), "ann") == {0: "ann 0", 1: "ann 1"}


def test_what_is_due_becomes_plans_that_do_not_meet(lake: Lakehouse) -> None:
    plans = lake.plan_due(NOTES)
    assert [plan.operation for plan in plans] == ["compact"]
    assert [_outcomes(lake.apply(plan)) for plan in plans] == [{"ann": "done", "bob": "done"}]


# As text


def test_a_plan_is_the_same_after_its_text(lake: Lakehouse) -> None:
    for plan in (lake.plan("compact", NOTES), lake.plan("restore", NOTES, timestamp=datetime.now(UTC)), lake.plan("flush")):
        assert Plan.from_json(plan.to_json()) == plan


# Plans of earlier releases

_BEFORE = [*read_plans((Path(__file__).parent / "plans_kept_before.jsonl").read_text(encoding="utf-8").split("\n"))]
"""Of all operations, as the release before requests had their own options kept them: each head names the options of all."""

_ANN = {"user": "ann"}
_RESTORE = {"timestamp": _BEFORE[6].request.options_of(RestoreOptions).timestamp}


@pytest.mark.parametrize(
    ("plan", "tables", "options"),
    list(
        zip(
            _BEFORE,
            ((NOTES,), (NOTES,), ("chat.typing",), (NOTES,), (NOTES,), (NOTES,), (NOTES,), (NOTES,), (), (), (NOTES,), (NOTES,)),
            (
                _ANN,
                {"look": True, "ratio": 2.0},
                {},
                {"zorder": ("id",), "target_file_size": 64 << 20},
                {"retain_hours": 0.0, "force": True, "ignore_checks": True, "look": True},
                {"version": 2, "discard_pending": True, **_ANN},
                _RESTORE,
                {},
                {"deep": True, "even_if_unknown": True, **_ANN},
                {"to": "@PLACE@/export", **_ANN},
                {"to": "archive"},
                {"restored": True},
            ),
            strict=True,
        )
    ),
)
def test_a_plan_of_an_earlier_release_is_read(plan: Plan, tables: tuple[str, ...], options: dict[str, Any]) -> None:
    assert plan.request == new_request(plan.operation, tables, **options)
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("operation", ["flush", "compact", "restore"])
def test_a_plan_that_an_earlier_release_kept_is_applied(lake: Lakehouse, operation: Plannable) -> None:
    options: dict[str, Any] = {"user": "ann", "version": 0} if operation == "restore" else {}
    if operation == "flush":
        _write(lake, "ann", {9: "pending"})
    plan = lake.planned(operation, NOTES, **options)
    (key,) = [found.key for found in lake.warehouse.state.list(f"plans/{plan.plan_id}")]
    head, *lines = lake.warehouse.state.get(key).split(b"\n")
    stored = json.loads(head)
    of_all = dict.fromkeys(("version", "timestamp", "retain_hours", "where", "ratio", "to", "user", "target_file_size"))
    flags = dict.fromkeys(("discard_pending", "force", "ignore_checks", "look", "deep", "restored", "scheduled"), False)
    stored["request"] = {**of_all, **flags, "zorder": [], **stored["request"]}
    lake.warehouse.state.put(key, b"\n".join([json.dumps(stored).encode(), *lines]))
    assert {report.outcome for report in lake.apply(plan.plan_id)} == {"done"}


def test_a_plan_with_an_option_of_a_later_release_is_refused(lake: Lakehouse) -> None:
    plan = lake.plan("vacuum", NOTES)
    with pytest.raises(InvalidArgument, match="vacuum does not take careful"):
        Plan.from_json(plan.to_json().replace('"force":false', '"force":false,"careful":true'))


# The table of operations


def test_callers_types_are_those_of_the_table() -> None:
    assert (get_args(Plannable), get_args(Queueable)) == (PLANNABLE, QUEUEABLE)
    assert set(SPECS) == set(get_args(Operation))
    assert len({spec.prefix for spec in SPECS.values()}) == len(SPECS)
