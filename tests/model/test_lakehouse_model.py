"""Any sequence of writes, flushes, maintenance and restores over a few scopes equals a dictionary.

Under strong freshness it is the dictionary now, under eventual the one as of the scope's last commit.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lakewarden import Column, Lakehouse
from lakewarden.base.scope import Scope, TableName
from lakewarden.base.setting_sections import CompactionSettings, LogSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta import manifest
from lakewarden.delta.commit_log.kept_versions import KEPT_VERSIONS, NAME
from lakewarden.delta.commit_log.version import Snapshot
from lakewarden.errors import ConstraintViolation, NotFound
from lakewarden.maintenance.plans.select import QUIET
from lakewarden.storage.open import open_store
from tests.delta.scopes import remember
from tests.fixtures.bucket import STORE, fresh_place
from tests.fixtures.examples import examples
from tests.fixtures.lakes import Rows, eventual, keys, notes, strong

_USER_TABLE = "chat.notes"
_SHARED_TABLE = "chat.rooms"
_USERS = ("ann", "bob/..", "Ünï")
_SCOPES: tuple[tuple[str, str | None], ...] = (*((_USER_TABLE, user) for user in _USERS), (_SHARED_TABLE, None))

_scopes = st.sampled_from(_SCOPES)
_tables = st.sampled_from([_USER_TABLE, _SHARED_TABLE])
_ids = st.integers(0, 9)
_rows = st.dictionaries(_ids, st.text("abcdef", max_size=4), min_size=1, max_size=5)

_SMALL = Settings(compaction=CompactionSettings(min_eligible_segments=2), log=LogSettings(segment_max_rows=4))
"""Compactions after two flushes, and several segments a write."""


@dataclass
class Model:
    """One scope: its rows now, those of every version by its moment, and what is pending."""

    hot: Rows = field(default_factory=dict)
    versions: list[Rows] = field(default_factory=list)
    pending: bool = False
    flushed: bool = False
    """Since its table was made; `versions` may begin with those of a dropped one."""
    vacuumed_to: int = 0
    """The oldest version that must still be restorable."""
    fence: int | None = None
    """The version that keeps late writers of a dropped table away."""

    @property
    def cold(self) -> Rows:
        return self.versions[-1] if self.versions else {}


class LakehouseMachine(RuleBasedStateMachine):
    store = STORE

    def __init__(self) -> None:
        super().__init__()
        self._places = ExitStack()
        self._uri = str(self._places.enter_context(fresh_place(self.store)))
        self._ahead = timedelta()
        self.lake = Lakehouse.open(self._uri, settings=_SMALL, clock=self._now)
        self.models: dict[tuple[str, str | None], Model] = {}
        self._fenced: dict[tuple[str, str | None], list[timedelta]] = {scope: [] for scope in _SCOPES}
        """When fences were made that no vacuum has looked after yet."""
        self._known: dict[tuple[str, str | None], list[bytes]] = {scope: [] for scope in _SCOPES}
        """What was ever kept of each scope."""
        self._remembered: dict[tuple[str, str | None], list[Snapshot]] = {scope: [] for scope in _SCOPES}
        """What the process remembered of it, since its manifest had too many files to list."""
        self._places.enter_context(patch.object(manifest, "MOST_LISTED", manifest.MOST_LISTED))
        self._old_state: dict[str, bytes] = {}

    def teardown(self) -> None:
        self.lake.close()
        self._places.close()

    def _now(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    @initialize()
    def create(self) -> None:
        self.lake.create_namespace("chat")
        for table in (_USER_TABLE, _SHARED_TABLE):
            self._create(table)

    def _create(self, table: str) -> None:
        kind: Any = "USER" if table == _USER_TABLE else "SHARED"
        columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
        self.lake.create_table(table, type=kind, columns=columns, primary_key=["id"])
        self.models |= {scope: Model() for scope in _SCOPES if scope[0] == table}

    # Writing

    @rule(scope=_scopes, rows=_rows)
    def upsert(self, scope: tuple[str, str | None], rows: Rows) -> None:
        self.lake.table(scope[0]).write(notes(rows), user=scope[1])
        self._wrote(scope, rows)

    @rule(scope=_scopes, rows=_rows)
    def insert(self, scope: tuple[str, str | None], rows: Rows) -> None:
        table = self.lake.table(scope[0])
        if rows.keys() & self.models[scope].hot.keys():
            with pytest.raises(ConstraintViolation, match="already"):
                table.write(notes(rows), user=scope[1], mode="insert")
            return
        table.write(notes(rows), user=scope[1], mode="insert")
        self._wrote(scope, rows)

    @rule(rows=st.dictionaries(st.tuples(st.sampled_from(_USERS), _ids), st.text("xyz", max_size=3), min_size=1, max_size=6))
    def upsert_of_many_users(self, rows: dict[tuple[str, int], str]) -> None:
        given = [{"owner": user, "id": key, "text": text} for (user, key), text in rows.items()]
        self.lake.table(_USER_TABLE).write(given, user_column="owner")
        for (user, key), text in rows.items():
            self._wrote((_USER_TABLE, user), {key: text})

    @rule(scope=_scopes, ids=st.sets(_ids, min_size=1, max_size=4))
    def delete(self, scope: tuple[str, str | None], ids: set[int]) -> None:
        self.lake.table(scope[0]).delete(keys(ids), user=scope[1])
        model = self.models[scope]
        model.hot = {key: text for key, text in model.hot.items() if key not in ids}
        model.pending = True

    def _wrote(self, scope: tuple[str, str | None], rows: Rows) -> None:
        model = self.models[scope]
        model.hot = model.hot | rows
        model.pending = True

    # What the state knows of scopes may be lost, in whole or in part, or be older than it was

    @rule(families=st.sampled_from([("known",), ("whole",), ("known", "whole")]), every=st.integers(1, 3))
    def lose_the_state(self, families: tuple[str, ...], every: int) -> None:
        state = self.lake.warehouse.state
        state.delete([found.key for family in families for found in state.list(family)][::every])

    @rule()
    def copy_the_state(self) -> None:
        state = self.lake.warehouse.state
        self._old_state = {found.key: state.get(found.key) for family in ("known", "whole") for found in state.list(family)}

    @precondition(lambda self: bool(self._old_state))
    @rule()
    def put_the_old_state_back(self) -> None:
        self.lose_the_state(("known", "whole"), 1)
        for key, data in self._old_state.items():
            self.lake.warehouse.state.put(key, data)

    @rule(table=_tables)
    def maintenance_misses_nothing(self, table: str) -> None:
        for operation in (self.lake.compact, self.lake.optimize):
            found, looked = (operation(table, dry_run=True, look=look) for look in (False, True))
            assert _planned(found) == _planned(looked)

    # Flushing

    @rule()
    def flush(self) -> None:
        self._flushed(self.lake.flush())

    @rule(scope=_scopes)
    def flush_one(self, scope: tuple[str, str | None]) -> None:
        reports = self.lake.flush_scopes([Scope(TableName.parse(scope[0]), scope[1])])
        assert len(reports) == int(self.models[scope].pending)
        self._flushed(reports)

    def _flushed(self, reports: list[ScopeReport]) -> None:
        for report in reports:
            assert report.outcome == "done", report
            model = self._model(report)
            assert model.pending
            assert report.version == len(model.versions)
            model.versions.append(model.hot)
            model.pending, model.flushed = False, True
            scope = (str(report.scope.table), report.scope.user)
            target = self._target(scope)
            self._known[scope].append(open_store(target.location).get(NAME))
            if (version := KEPT_VERSIONS.get(target.manifest_key)) is not None:
                self._remembered[scope].append(version)

    # What is kept of a scope may be lost, or be older than it is: in the store, and in the memory of a process

    @rule(scope=_scopes)
    def forget_what_is_known(self, scope: tuple[str, str | None]) -> None:
        target = self._target(scope)
        open_store(target.location).delete([NAME])
        KEPT_VERSIONS.forget(target.manifest_key)

    @rule(most=st.sampled_from([1, 1000]))
    def list_so_many_files(self, most: int) -> None:
        manifest.MOST_LISTED = most

    @precondition(lambda self: any(self._remembered.values()))
    @rule(scope=_scopes, choice=st.integers(0, 30))
    def remember_something_old(self, scope: tuple[str, str | None], choice: int) -> None:
        target, known = self._target(scope), self._remembered[scope]
        if known and self.models[scope].versions:
            KEPT_VERSIONS.put(target.manifest_key, known[choice % len(known)], 1)

    @precondition(lambda self: any(self._known.values()))
    @rule(scope=_scopes, choice=st.integers(0, 30), where=st.sampled_from(["store", "memory", "both"]))
    def know_something_old(self, scope: tuple[str, str | None], choice: int, where: str) -> None:
        target, known = self._target(scope), self._known[scope]
        if not known or not self.models[scope].versions:
            return
        text = known[choice % len(known)]
        if where != "memory":
            open_store(target.location).replace(NAME, text)
        KEPT_VERSIONS.forget(target.manifest_key)
        if where != "store":
            remember(target, text)

    def _target(self, scope: tuple[str, str | None]) -> ScopeTarget:
        warehouse = self.lake.warehouse
        return warehouse.target(warehouse.catalog.read(), Scope(TableName.parse(scope[0]), scope[1]))

    # Maintenance

    @rule(table=_tables)
    def compact(self, table: str) -> None:
        self._same_rows(self.lake.compact(table))

    @rule(table=_tables, zorder=st.sampled_from([(), ("text",), ("id", "text")]))
    def optimize(self, table: str, zorder: tuple[str, ...]) -> None:
        self._same_rows(self.lake.optimize(table, zorder=zorder))

    @rule(table=_tables, dry_run=st.booleans())
    def vacuum(self, table: str, dry_run: bool) -> None:
        self._vacuumed(self.lake.vacuum(table, dry_run=dry_run))
        if not dry_run:
            self._swept()

    @rule(table=_tables)
    def vacuum_at_once(self, table: str) -> None:
        self._vacuumed(self.lake.vacuum(table, retain_hours=0, force=True, dry_run=False))
        self._swept()

    @rule(days=st.integers(1, 10))
    def wait(self, days: int) -> None:
        self._ahead += timedelta(days=days)

    def _same_rows(self, reports: list[ScopeReport]) -> None:
        for report in _opened(reports):
            assert report.fault is None, report
            model = self._model(report)
            if report.outcome == "done":
                self._catch_up(report, model)

    def _vacuumed(self, reports: list[ScopeReport]) -> None:
        for report in _opened(reports):
            assert report.fault is None, report
            model = self._model(report)
            if report.outcome == "done":
                model.vacuumed_to = len(model.versions) - 1  # at most: what lies before may be gone
                if report.metrics["files_deleted"]:
                    self._catch_up(report, model)
                else:  # expired entries of the log alone: no commit
                    assert report.version == len(model.versions) - 1

    def _swept(self) -> None:
        """A vacuum removes the fences of every table that are old enough and below no new rows."""
        stay = timedelta(hours=_SMALL.maintenance.fence_retention_hours)
        for scope, moments in self._fenced.items():
            later = [moment for moment in moments if moment + stay > self._ahead]
            model = self.models[scope]
            if later != moments and model.fence == len(model.versions) - 1:
                self.models[scope] = Model(hot=model.hot, pending=model.pending)
            self._fenced[scope] = later

    def _catch_up(self, report: ScopeReport, model: Model) -> None:
        """Versions that changed no row."""
        assert report.version is not None
        assert report.version >= len(model.versions)
        model.versions += [model.cold] * (report.version + 1 - len(model.versions))

    # Restoring

    @rule(scope=_scopes, choice=st.integers(0, 30), discard=st.booleans())
    def restore(self, scope: tuple[str, str | None], choice: int, discard: bool) -> None:
        model = self.models[scope]
        if not model.versions:
            return
        version = choice % len(model.versions)
        plan = self._restore(scope, version, discard, dry_run=True)
        assert plan.fault or plan.version == len(model.versions) - 1
        report = self._restore(scope, version, discard, dry_run=False)
        if plan.fault or report.fault:
            assert version < model.vacuumed_to
            assert {plan.fault.code if plan.fault else "NOT_FOUND", report.fault.code if report.fault else ""} == {"NOT_FOUND"}
            return
        wanted = model.versions[version]
        self._restored(model, wanted, discard, report)

    def _restored(self, model: Model, wanted: Rows, discard: bool, report: ScopeReport) -> None:
        if model.pending and not discard:
            model.versions.append(model.hot)
            model.flushed = True
        model.hot, model.pending = wanted, False
        assert report.version is not None
        model.versions += [wanted] * (report.version + 1 - len(model.versions))

    def _restore(self, scope: tuple[str, str | None], version: int, discard: bool, *, dry_run: bool) -> ScopeReport:
        (report,) = self.lake.restore(scope[0], user=scope[1], version=version, discard_pending=discard, dry_run=dry_run)
        return report

    # Dropping

    @precondition(lambda self: any(model.versions for model in self.models.values()))
    @rule(table=_tables, reopen=st.booleans())
    def drop_and_create(self, table: str, reopen: bool) -> None:
        self.lake.drop_table(table)
        with pytest.raises(NotFound):
            self.lake.table(table)
        if reopen:
            self.open_again()
        dropped = {scope: model for scope, model in self.models.items() if scope[0] == table and model.versions}
        self._create(table)
        for scope, model in dropped.items():
            # the fence is the new table's first version
            if model.flushed or table == _SHARED_TABLE:  # of users, those that were ever flushed are known
                self._fenced[scope].append(self._ahead)
                model.fence = len(model.versions)
                model.versions.append({})
            first = len(model.versions) - 1
            self.models[scope] = Model(versions=[{}] * (first + 1), vacuumed_to=first, fence=model.fence)

    @rule()
    def open_again(self) -> None:
        self.lake.close()
        self.lake = Lakehouse.open(self._uri, settings=_SMALL, clock=self._now)

    # What always holds

    @invariant()
    def reads_equal_the_dictionary(self) -> None:
        for (name, user), model in self.models.items():
            table = self.lake.table(name)
            assert strong(table, user) == model.hot
            assert eventual(table, user) == model.cold

    @invariant()
    def pending_is_what_was_written(self) -> None:
        pending = {(str(one.table), one.user) for one in self.lake.pending()}
        assert pending == {scope for scope, model in self.models.items() if model.pending}

    @invariant()
    def versions_have_no_gap(self) -> None:
        for (name, user), model in self.models.items():
            if not model.versions:
                with pytest.raises(NotFound, match="nothing was ever flushed"):
                    self.lake.table(name).history(user=user)
                continue
            shown = [entry.version for entry in self.lake.table(name).history(user=user, limit=None)]
            newest = len(model.versions) - 1
            assert shown == list(range(newest, newest - len(shown), -1))
            assert shown[-1] <= model.vacuumed_to

    def _model(self, report: ScopeReport) -> Model:
        return self.models[(str(report.scope.table), report.scope.user)]


def _opened(reports: list[ScopeReport]) -> list[ScopeReport]:
    return [report for report in reports if QUIET not in report.metrics]


def _planned(reports: list[ScopeReport]) -> set[tuple[Scope, int | None]]:
    return {(report.scope, report.version) for report in reports if report.outcome == "planned"}


_TORTURE = settings.get_current_profile_name() == "torture"

TestLakehouseModel = pytest.mark.campaign(LakehouseMachine.TestCase)
_EXAMPLES = 300 if _TORTURE else examples(40, gate=15) if STORE == "disk" else 5
TestLakehouseModel.settings = settings(max_examples=_EXAMPLES, stateful_step_count=40 if _TORTURE else 25)


class AzuriteMachine(LakehouseMachine):
    store = "azurite"


@pytest.mark.usefixtures("azurite")
class TestLakehouseModelOnAzurite(AzuriteMachine.TestCase):  # type: ignore[misc, valid-type]  # the class is made by hypothesis
    settings = settings(max_examples=50 if _TORTURE else 2, stateful_step_count=40 if _TORTURE else 15)


class MinioMachine(LakehouseMachine):
    store = "minio"


@pytest.mark.campaign
@pytest.mark.usefixtures("minio")
class TestLakehouseModelOnMinio(MinioMachine.TestCase):  # type: ignore[misc, valid-type]  # the class is made by hypothesis
    settings = settings(max_examples=100 if _TORTURE else examples(4, gate=2), stateful_step_count=40 if _TORTURE else 15)
