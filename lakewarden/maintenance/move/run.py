"""Moves a table to another storage: copied while writes continue, closed, frozen scope by scope, switched, old place emptied.

Every step is idempotent: requesting an interrupted move again continues it where it stopped. Why nothing is lost:
docs/decisions/0014-moving-by-freezing.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import wraps

from lakewarden.base.clock import CarriedClock
from lakewarden.base.connection import Location, StorageRoot
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.access import require
from lakewarden.catalog.changes.leases import held, under
from lakewarden.catalog.changes.moving import begin_move, end_move, set_phase, switch_table
from lakewarden.catalog.model import Catalog, Lease, Table
from lakewarden.catalog.report import ScopeReport, ScopeState
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.committing import Committer
from lakewarden.delta.lifecycle.copying import CopiedFiles, copy_data, copy_frozen
from lakewarden.delta.lifecycle.fence import fence
from lakewarden.delta.lifecycle.states import freeze, frozen_version, is_frozen, thaw
from lakewarden.delta.manifest import refresh_manifest
from lakewarden.delta.replay.log_objects import LOG
from lakewarden.delta.scope import open_scope
from lakewarden.errors import Conflict, InUse
from lakewarden.maintenance.scopes import scopes_of, table_location
from lakewarden.maintenance.vacuum.sweep import note_fences
from lakewarden.storage.disk import sync
from lakewarden.storage.objects import StoredObject
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps
from lakewarden.tables.fanout import Run, SizedWork, guarded, in_process
from lakewarden.tables.floors import copy_floor, forget, known_version
from lakewarden.tables.pins import pinned_versions
from lakewarden.tables.presence import Presence
from lakewarden.tables.warehouse import Warehouse, find_table

# One scope's part of a move, as it runs in a task: copied ahead, frozen and moved, released, or emptied.


@dataclass(frozen=True)
class MoveTask:
    """The move of one scope. `token` is the mover's lease's; `copied`: files that are at the target and were already compared."""

    source: ScopeTarget
    target: ScopeTarget
    job_id: str
    token: int
    clock: CarriedClock
    copied: tuple[str, ...] = ()

    @property
    def by(self) -> Committer:
        return Committer(self.job_id, self.clock.moment, self.clock)


def _guarded(steps: Callable[[MoveTask, Reach], Steps[ScopeReport]]) -> Callable[..., Steps[ScopeReport]]:
    @wraps(steps)
    def part(task: MoveTask, reach: Reach = no_faults) -> Steps[ScopeReport]:
        return guarded(task.source, "move", task.clock, steps(task, reach))

    return part


@_guarded
def copy_scope(task: MoveTask, reach: Reach) -> Steps[ScopeReport]:
    """Copies the data files ahead, while writers continue."""
    yield from ()
    copied = copy_data(task.source.location, task.target.location, task.by, reach)
    return _report(task, task.target, copied=copied)


@_guarded
def move_scope(task: MoveTask, reach: Reach) -> Steps[ScopeReport]:
    """Freezes the scope, copies what is missing at the target, and checks it there."""
    # A commit of its own: each flush came before it and is copied, or is refused and finds the table frozen
    # (docs/decisions/0014-moving-by-freezing.md).
    version = yield from freeze(task.source, task.token, task.by)
    # Up to the version below the freeze, so that the new place is not frozen.
    copied = copy_frozen(task.source, task.target.location, version, frozenset(task.copied), task.by, reach)
    arrived = open_scope(task.target)
    assert arrived is not None  # copy_frozen has checked
    refresh_manifest(task.target, arrived, task.clock())
    return _report(task, task.target, state=arrived.state(task.target.app_id), copied=copied)


@_guarded
def thaw_scope(task: MoveTask, reach: Reach) -> Steps[ScopeReport]:  # noqa: ARG001  # every part's shape
    """Releases the scope at its old place."""
    return _report(task, task.source, done=(yield from thaw(task.source, task.token, task.by)))


@_guarded
def leave_scope(task: MoveTask, reach: Reach) -> Steps[ScopeReport]:  # noqa: ARG001  # every part's shape
    """Empties the old place under a fence, which stays frozen: flushes that resume later find it."""
    table = open_scope(task.source)
    if table is None or not is_frozen(table, task.source):  # a scope that is newer than the move
        return _report(task, task.target, done=False)
    if not table.is_fenced:
        # Raises where another program has committed since the freeze: what it wrote would go with the old place.
        frozen_version(table, task.source)
    # The old place is not simply deleted: versions that start again would take commits of those who sleep
    # (docs/decisions/0006-fences.md).
    yield from fence(task.source, task.by)
    return _report(task, task.target)


def _report(
    task: MoveTask, where: ScopeTarget, *, state: ScopeState | None = None, copied: CopiedFiles = CopiedFiles(), done: bool = True
) -> ScopeReport:
    return ScopeReport(
        where.scope,
        "move",
        "done" if done else "skipped",
        where.location,
        reason="" if done else "it has nothing there",
        version=state.version if state else None,
        parameters={"job_id": task.job_id, "from": task.source.uri, "to": task.target.uri},
        metrics={"files_copied": len(copied.files), "bytes_copied": copied.bytes},
        state=state,
        files=copied.files,
        finished_at=task.clock(),
    )


_SCOPE_COST = 1 << 20
"""The assumed bytes of one scope in a pack: its size is unknown until it is listed."""


@dataclass(frozen=True)
class Mover:
    """One run of a move. `lease` is the table lock's: a mover that lost it no longer changes the catalog."""

    warehouse: Warehouse
    run: Run
    lease: Lease
    name: TableName
    job_id: str
    reach: Reach = no_faults

    def move(self, storage_id: str) -> list[ScopeReport]:
        """Moves the table; one report per scope, none where it is already there. If a scope fails, the table stays where it
        is, and open; requesting the move again continues it.

        Raises:
            NotFound: the table or the storage does not exist.
            Unsupported: a STREAM table, which has no place on a storage.
            StorageUnavailable: one of the two storages is not present; nothing was changed.
            InUse: it is being moved elsewhere, or its place at the target is not empty. Nothing was changed.
            Conflict: a reader pins a version, or a user is being erased; or the lock was lost. Try again later.
        """
        before = self._table()
        require(before, "cold tier", "moves between storages")
        catalog = begin_move(self.warehouse.catalog.read(), self.name, storage_id, self.warehouse.base)  # before the checks
        if catalog.tables[self.name].move is None:
            return []
        self._check_present(storage_id, before.options.storage_id)
        # A move that goes on has files of its own at the target.
        if before.move is None:
            self._clear_way(storage_id)
        # First noted, then looked at pins and erasures (`_check_unused`): one of the two sees the other
        # (docs/decisions/0014-moving-by-freezing.md).
        self._change(lambda newest: begin_move(newest, self.name, storage_id, self.warehouse.base))
        self.reach("move:begun")
        copied: Mapping[Scope, tuple[str, ...]] = {}
        if self._phase() == "copying":
            self._check_unused()
            reports = self._each(copy_scope)
            if _failed(reports):
                return reports
            copied = {report.scope: report.files for report in reports}
            self.reach("move:copied")
            # Before the list of scopes is read: a flush registers its scopes and then reads the catalog, so none is missed
            # (docs/decisions/0014-moving-by-freezing.md).
            self._change(lambda newest: set_phase(newest, self.name, "closing"))
            self.reach("move:closed")
        if self._phase() == "closing":
            try:
                reports = self._each(move_scope, copied)
            except BaseException:  # interrupted, or Spark is gone: flushes must not wait for the move to be run again
                self._reopen()
                raise
            if _failed(reports):
                return [*reports, *self._reopen()]
            sync({self._place(storage_id).uri})
            self._check_present(storage_id)
            # The floor is there before the switch: the first flush at the new place compares with it.
            self._note(storage_id, reports)
            self.reach("move:frozen")
            # Only what is durable and looked at again at the new place is switched to. A crash before this leaves the table
            # where it was.
            self._change(lambda newest: switch_table(newest, self.name))
            self.reach("move:switched")
            # Behind the switch: until then the old place is the table.
            left = self._leave()
            return left if _failed(left) else reports or [self._nothing_lay(storage_id)]
        return self._leave()

    def cancel(self) -> list[ScopeReport]:
        """Cancels a move before its switch: the table stays where it is, and what was copied is removed. Also releases scopes
        that are frozen although no move is under way.

        Raises:
            NotFound: no such table.
            InUse: it is already at the target, so the move can only be completed.
        """
        table = self._table()
        if table.move is not None and table.move.phase == "leaving":
            raise InUse(
                f"{self.name} is already on storage {table.move.target!r}, and only its old place is left to be emptied:"
                f" complete the move (lakewarden move {self.name} --to {table.move.target})"
            )
        self._check_present(*table.storage_ids)
        reports = self._thawed()
        if _failed(reports) or table.move is None:
            return reports
        self._change(
            lambda newest: set_phase(newest, self.name, "copying")
        )  # the lease is still ours, so no other mover has switched
        open_store(self._place(table.move.target)).delete([found.key for found in self._lying(table.move.target)])
        self.reach("move:cleared")
        self._change(lambda newest: end_move(newest, self.name))
        return reports

    def _note(self, storage_id: str, reports: Sequence[ScopeReport]) -> None:
        """Gives the new storage the floors. A version above the frozen one is not moved, and is not missed there."""
        if not self.warehouse.identifies:
            return
        catalog = self.warehouse.catalog.read()
        table = find_table(catalog, self.name)
        copy_floor(self.warehouse.floor(table), self._root(storage_id))
        for report in reports:
            target = self.warehouse.target_on(storage_id, catalog, table, report.scope.user)
            # The freeze itself, and what came behind the copy, are versions that stay behind; the floor must not miss them
            # (docs/decisions/0020-floors-and-identity.md).
            if report.state is not None and known_version(target) > report.state.version:
                forget(target, report.state.last_seq)

    def _leave(self) -> list[ScopeReport]:
        """Empties the old place."""
        table = self._table()
        assert table.move is not None
        self._check_present(table.move.source)
        reports = self._each(leave_scope)
        if not _failed(reports):
            sync({self._place(table.move.source).uri})
            left = {report.scope for report in reports if report.outcome == "done"}
            sources = [task.source for task in self._tasks(self.warehouse.catalog.read()) if task.source.scope in left]
            # Before the move ends: nothing else remembers the old place, and its fences have to go in time.
            note_fences(self.warehouse, sources, self.job_id)
            self.reach("move:left")
            self._change(lambda newest: end_move(newest, self.name))
        return reports

    def _nothing_lay(self, storage_id: str) -> ScopeReport:
        """The report of a table that moved and has no scope yet."""
        return ScopeReport(Scope(self.name), "move", "done", self._place(storage_id), finished_at=self.warehouse.clock())

    def _reopen(self) -> list[ScopeReport]:
        """Lets flushes continue at the old place, since not all scopes moved; returns those that could not be released."""
        failed = [report for report in self._thawed() if report.fault]
        if not failed:
            self._change(lambda newest: set_phase(newest, self.name, "copying"))
        return failed

    def _thawed(self) -> list[ScopeReport]:
        """Runs in this process: a job that was killed runs nothing more anywhere else."""
        tasks = [SizedWork(task, _SCOPE_COST) for task in self._tasks(self.warehouse.catalog.read())]
        return in_process(thaw_scope, tasks, lambda done: None)

    def _each(
        self, work: Callable[[MoveTask], Steps[ScopeReport]], copied: Mapping[Scope, tuple[str, ...]] | None = None
    ) -> list[ScopeReport]:
        """Runs the work on every scope that moves, in one job."""
        catalog = self.warehouse.catalog.read()
        tasks = [replace(task, copied=(copied or {}).get(task.source.scope, ())) for task in self._tasks(catalog)]
        return self.run(work, [SizedWork(task, _SCOPE_COST) for task in tasks])

    def _tasks(self, catalog: Catalog) -> list[MoveTask]:
        table, clock = find_table(catalog, self.name), CarriedClock.of(self.warehouse.clock)
        # Without a move there are scopes that a dead mover left frozen, at the table's own place.
        source, target = (table.move.source, table.move.target) if table.move else (table.options.storage_id,) * 2
        lies_there = source == table.options.storage_id
        return [
            MoveTask(
                self.warehouse.target_of(catalog, table, scope.user)
                if lies_there
                else self.warehouse.target_on(source, catalog, table, scope.user),
                self.warehouse.target_on(target, catalog, table, scope.user),
                self.job_id,
                self.lease.token,
                clock,
            )
            for scope in scopes_of(self.warehouse, table, None)
            if self.warehouse.goes_along(catalog, table, scope.user)
        ]

    def _clear_way(self, storage_id: str) -> None:
        """Removes old fences of tables that were once at the target.

        Raises:
            InUse: the target holds anything else.
            Conflict: the lock was lost.
        """
        lying = self._lying(storage_id)
        if not lying:
            return
        place = self._place(storage_id)
        # Fences are nothing but a Delta log; anything else is data of others.
        if not all(f"/{LOG}/" in f"/{found.key}" for found in lying):
            raise InUse(
                f"{place} is not empty ({len(lying)} objects, such as {lying[0].key}): remove them, or choose another storage"
            )
        hours = self.warehouse.settings.maintenance.fence_retention_hours
        # The youngest object decides: a process that sleeps may still need its fence (docs/decisions/0006-fences.md).
        if max(found.modified for found in lying) > self.warehouse.clock() - timedelta(hours=hours):
            raise InUse(
                f"a table was at {place} until recently, and its fences stay for {hours} hours:"
                " wait, or choose another storage (one with another base directory will do)"
            )
        held(self.warehouse.catalog.read(), self.lease)  # deletes cannot be fenced, so the last check is right before them
        open_store(place).delete([found.key for found in lying])

    def _lying(self, storage_id: str) -> list[StoredObject]:
        """The objects at the table's place on that storage, except scopes of users whose own storage it is."""
        catalog = self.warehouse.catalog.read()
        table = find_table(catalog, self.name)
        place = self._place(storage_id)
        own = tuple(
            self.warehouse.target(catalog, scope).uri.removeprefix(f"{place.uri}/") + "/"
            for scope in scopes_of(self.warehouse, table, None)
            if not self.warehouse.goes_along(catalog, table, scope.user)
        )
        return [found for found in open_store(place).list("") if not found.key.startswith(own)]

    def _place(self, storage_id: str) -> Location:
        return table_location(self.warehouse, self.warehouse.catalog.read(), self.name, storage_id)

    def _check_unused(self) -> None:
        """Checks after the move was recorded: a reader or erasure that begins later sees it, and waits.

        Raises:
            Conflict: a version is pinned, or a user is being erased; the move is cancelled.
        """
        table = self._table()
        pins = pinned_versions(self.warehouse.state, table.id, self.warehouse.clock())
        held = f"readers pin versions of {len(pins)} scope(s)" if pins else ""
        erased = "users are being erased from it" if self.warehouse.erasures.over(table.id) else ""
        # Refused behind the note, so the note goes again.
        if why := held or erased:
            self.cancel()
            raise Conflict(f"{self.name} cannot be moved while {why}; try again when that is over")

    def _check_present(self, *storage_ids: str) -> None:
        """Raises StorageUnavailable: one of these storages is not present."""
        Presence.among(self._root(id_) for id_ in storage_ids).check()

    def _root(self, storage_id: str) -> StorageRoot:
        return self.warehouse.root(self.warehouse.catalog.read().storages[storage_id])

    def _phase(self) -> str:
        move = self._table().move
        return "" if move is None else move.phase

    def _table(self) -> Table:
        return find_table(self.warehouse.catalog.read(), self.name)

    def _change(self, change: Callable[[Catalog], Catalog]) -> None:
        # A mover that lost its lock changes nothing more, however long it slept (docs/decisions/0013-leases-in-the-catalog.md).
        self.warehouse.catalog.change(under(self.lease, change))


def _failed(reports: Sequence[ScopeReport]) -> bool:
    return any(report.fault for report in reports)
