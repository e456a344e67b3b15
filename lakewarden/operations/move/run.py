"""Moving a table to another storage: copied while all goes on, closed, frozen scope by scope, switched, and left.

Every step may be repeated: a move that was interrupted is asked for again and goes on where it stood. Why nothing is lost:
docs/decisions/0014-moving-by-freezing.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from lakewarden.access.gate import require
from lakewarden.catalog.changes import table_place
from lakewarden.catalog.leases import held, under
from lakewarden.catalog.model import Catalog, Lease, Table
from lakewarden.catalog.moving import begin_move, close_table, end_move, reopen_table, switch_table
from lakewarden.clock import CarriedClock
from lakewarden.connection import Location, StorageRoot
from lakewarden.delta.commit_log.commits import LOG
from lakewarden.errors import Conflict, InUse
from lakewarden.faults import Reach, no_faults
from lakewarden.operations.fanout import Run, Sized, in_process
from lakewarden.operations.floors import copy_floor, forget, known_version
from lakewarden.operations.move.scope import MoveTask, copy_scope, leave_scope, move_scope, thaw_scope
from lakewarden.operations.presence import Presence
from lakewarden.operations.reader_leases import leased_versions
from lakewarden.operations.scopes import scopes_of
from lakewarden.operations.sweep import bury
from lakewarden.report import ScopeReport
from lakewarden.scope import Scope, TableName
from lakewarden.storage.durability import sync
from lakewarden.storage.objects import StoredObject
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps
from lakewarden.warehouse import Warehouse, find_table

_SCOPE_COST = 1 << 20
"""Bytes that one scope weighs in a pack: its size is not known before it is listed."""


@dataclass(frozen=True)
class Mover:
    """One run of a move. `lease` is that of the table's lock: who lost it changes the catalog no more."""

    warehouse: Warehouse
    run: Run
    lease: Lease
    name: TableName
    job_id: str
    reach: Reach = no_faults

    def move(self, storage_id: str) -> list[ScopeReport]:
        """Moves the table; a report a scope, none where it lies there already. A scope that fails leaves the table where it
        is, and open: asked again, the move goes on.

        Raises:
            NotFound: no such table or storage.
            Unsupported: a STREAM table, which lies nowhere.
            StorageUnavailable: one of the two storages is not there; nothing was changed.
            InUse: it is being moved elsewhere; or what lies at its place there is in the way. Nothing was changed.
            Conflict: a reader leases a version, or a user is being erased; or the lock was lost. Try again later.
        """
        before = self._table()
        require(before, "cold tier", "moves between storages")
        catalog = begin_move(self.warehouse.catalog.read(), self.name, storage_id, self.warehouse.base)  # said before the looks
        if catalog.tables[self.name].move is None:
            return []
        self._check_present(storage_id, before.options.storage_id)
        if before.move is None:
            self._clear_way(storage_id)
        self._change(lambda newest: begin_move(newest, self.name, storage_id, self.warehouse.base))
        self.reach("move:begun")
        copied: Mapping[Scope, tuple[str, ...]] = {}
        if self._phase() == "copying":
            self._check_nobody_there()
            reports = self._each(copy_scope)
            if _failed(reports):
                return reports
            copied = {report.scope: report.files for report in reports}
            self.reach("move:copied")
            self._change(lambda newest: close_table(newest, self.name))
            self.reach("move:closed")
        if self._phase() == "closing":
            try:
                reports = self._each(move_scope, copied)
            except BaseException:  # interrupted, or Spark is gone: flushes shall not wait for somebody to come back
                self._reopen()
                raise
            if _failed(reports):
                return [*reports, *self._reopen()]
            sync({self._place(storage_id).uri})
            self._check_present(storage_id)
            self._note(storage_id, reports)
            self.reach("move:frozen")
            self._change(lambda newest: switch_table(newest, self.name))
            self.reach("move:switched")
            left = self._leave()
            return left if _failed(left) else reports or [self._nothing_lay(storage_id)]
        return self._leave()

    def cancel(self) -> list[ScopeReport]:
        """Gives up a move before its switch: the table stays where it is, and what was copied goes. Also lets go of scopes
        that are frozen although nobody moves them.

        Raises:
            NotFound: no such table.
            InUse: it lies at the target already: the move can only be ended.
        """
        table = self._table()
        if table.move is not None and table.move.phase == "leaving":
            raise InUse(
                f"{self.name} lies on storage {table.move.target!r} already, and only its old place is left to be emptied:"
                f" end the move (lakewarden move {self.name} --to {table.move.target})"
            )
        self._check_present(*table.storage_ids)
        reports = self._thawed()
        if _failed(reports) or table.move is None:
            return reports
        self._change(lambda newest: reopen_table(newest, self.name))  # the lease is ours still, so nobody has switched
        open_store(self._place(table.move.target)).delete([found.key for found in self._lying(table.move.target)])
        self.reach("move:cleared")
        self._change(lambda newest: end_move(newest, self.name))
        return reports

    def _note(self, storage_id: str, reports: Sequence[ScopeReport]) -> None:
        """Tells the new storage what is known. A version above the frozen one does not come along, and is not missed there."""
        if not self.warehouse.identifies:
            return
        catalog = self.warehouse.catalog.read()
        table = find_table(catalog, self.name)
        copy_floor(self.warehouse.floor(table), self._root(storage_id))
        for report in reports:
            target = self.warehouse.target_on(storage_id, catalog, table, report.scope.user)
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
            bury(self.warehouse, sources, self.job_id)
            self.reach("move:left")
            self._change(lambda newest: end_move(newest, self.name))
        return reports

    def _nothing_lay(self, storage_id: str) -> ScopeReport:
        """Of a table that moved and has no scope yet."""
        return ScopeReport(Scope(self.name), "move", "done", self._place(storage_id), finished_at=self.warehouse.clock())

    def _reopen(self) -> list[ScopeReport]:
        """Lets flushes go on at the old place, since not all could be moved; the scopes that could not be let go."""
        failed = [report for report in self._thawed() if report.fault]
        if not failed:
            self._change(lambda newest: reopen_table(newest, self.name))
        return failed

    def _thawed(self) -> list[ScopeReport]:
        """In this process: a job that was killed runs nothing more anywhere else."""
        tasks = [Sized(task, _SCOPE_COST) for task in self._tasks(self.warehouse.catalog.read())]
        return in_process(thaw_scope, tasks, lambda done: None)

    def _each(
        self, work: Callable[[MoveTask], Steps[ScopeReport]], copied: Mapping[Scope, tuple[str, ...]] | None = None
    ) -> list[ScopeReport]:
        """The work on every scope that goes along, in one job."""
        catalog = self.warehouse.catalog.read()
        tasks = [replace(task, copied=(copied or {}).get(task.source.scope, ())) for task in self._tasks(catalog)]
        return self.run(work, [Sized(task, _SCOPE_COST) for task in tasks])

    def _tasks(self, catalog: Catalog) -> list[MoveTask]:
        table, clock = find_table(catalog, self.name), CarriedClock.of(self.warehouse.clock)
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
        """Removes the fences of tables that lay at the target long ago.

        Raises:
            InUse: anything else lies there.
            Conflict: the lock was lost.
        """
        lying = self._lying(storage_id)
        if not lying:
            return
        place = self._place(storage_id)
        if not all(f"/{LOG}/" in f"/{found.key}" for found in lying):
            raise InUse(f"{place} is not empty ({len(lying)} objects, as {lying[0].key}): remove them, or choose another storage")
        hours = self.warehouse.settings.maintenance.fence_retention_hours
        if max(found.modified for found in lying) > self.warehouse.clock() - timedelta(hours=hours):
            raise InUse(
                f"a table lay at {place} until a short while ago, and its fences stay for {hours} hours:"
                " wait, or choose another storage (one with another base directory will do)"
            )
        held(self.warehouse.catalog.read(), self.lease)  # deletes can't be fenced: the last look is right before them
        open_store(place).delete([found.key for found in lying])

    def _lying(self, storage_id: str) -> list[StoredObject]:
        """What lies at the table's place on that storage, but for scopes of users whose own storage it is."""
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
        catalog = self.warehouse.catalog.read()
        storage = catalog.storages[storage_id]
        return Location(table_place(storage, find_table(catalog, self.name), self.warehouse.base), storage.connection)

    def _check_nobody_there(self) -> None:
        """Looks after the move has been noted: whoever begins afterwards sees it, and waits.

        Raises:
            Conflict: a version is leased, or a user being erased; the move is given up.
        """
        table = self._table()
        leases = leased_versions(self.warehouse.state, table.id, self.warehouse.clock())
        held = f"readers lease versions of {len(leases)} scope(s)" if leases else ""
        erased = "users are being erased from it" if self.warehouse.erasures.over(table.id) else ""
        if why := held or erased:
            self.cancel()
            raise Conflict(f"{self.name} cannot be moved while {why}; try again when that is over")

    def _check_present(self, *storage_ids: str) -> None:
        """Raises:
        StorageUnavailable: one of these storages is not there.
        """
        Presence.among(self._root(id_) for id_ in storage_ids).check()

    def _root(self, storage_id: str) -> StorageRoot:
        return self.warehouse.root(self.warehouse.catalog.read().storages[storage_id])

    def _phase(self) -> str:
        move = self._table().move
        return "" if move is None else move.phase

    def _table(self) -> Table:
        return find_table(self.warehouse.catalog.read(), self.name)

    def _change(self, change: Callable[[Catalog], Catalog]) -> None:
        self.warehouse.catalog.change(under(self.lease, change))


def _failed(reports: Sequence[ScopeReport]) -> bool:
    return any(report.fault for report in reports)
