"""Restore: brings scopes back to an earlier version, after their pending rows were flushed or dropped."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.report import ScopePlan, ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import Moved
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.position import NOTHING
from lakewarden.log.table_log import TableLog
from lakewarden.maintenance.flush.due import Only
from lakewarden.maintenance.flush.run import FlushJob, flush_scopes
from lakewarden.maintenance.maintain import MaintenanceRun, TableMaintenance, maintain_targets
from lakewarden.maintenance.plans.still_planned import standing
from lakewarden.maintenance.plans.value import Plan
from lakewarden.maintenance.request import Request
from lakewarden.maintenance.restore import RestoreOptions
from lakewarden.maintenance.restore.files import RESTORE
from lakewarden.maintenance.restore.scope import check_restore, plan_restore, replan_restore
from lakewarden.maintenance.scopes import targets_of
from lakewarden.maintenance.workplace import Workplace
from lakewarden.tables.fanout import failed_report
from lakewarden.tables.warehouse import find_table


class RestoreProcedure(TableMaintenance[RestoreOptions]):
    operation = "restore"
    commits = RESTORE
    takes = RestoreOptions
    may_follow_freeze = False  # it commits on the snapshot that it read and found open, as a flush does

    plan = staticmethod(plan_restore)
    replan = staticmethod(replan_restore)

    def look(self, at: Workplace, catalog: Catalog, request: Request) -> list[ScopeReport]:
        table, options = _table(catalog, request), request.options_of(RestoreOptions)
        targets = targets_of(at.warehouse, catalog, [str(table.name)], options.user)
        view = at.warehouse.log(table).view([target.scope.user or "" for target in targets])
        looks = maintain_targets(at, catalog, MaintenanceRun(self, options, "", dry_run=True), targets)
        return [_with_log(look, view, discards=options.discard_pending) for look in looks]

    def run(self, at: Workplace, catalog: Catalog, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        """Restores the scopes that can be; one whose plan fails keeps its pending rows as they are."""
        table, options = _table(catalog, request), request.options_of(RestoreOptions)  # refused before there is a job
        to = {"version": str(options.version)} if options.timestamp is None else {"timestamp": options.timestamp.isoformat()}

        def work(id_: str) -> list[ScopeReport]:
            return TableRewind.of(at, catalog, MaintenanceRun(self, options, id_), table).restored()

        return at.as_job("restore", request.scopes | to, work, job_id)

    def apply(self, at: Workplace, catalog: Catalog, plan: Plan, job_id: str) -> list[ScopeReport]:
        """Refuses scopes that have newer rows in the log, or another version."""
        still = standing(at.warehouse, catalog, plan)
        if not still.targets:
            return still.refused
        table = find_table(catalog, TableName.parse(plan.request.tables[0]))
        run = MaintenanceRun(self, plan.request.options_of(RestoreOptions), job_id).applying(plan.plan_id, still.lines)
        return TableRewind.of(at, catalog, run, table, still.targets).applied() + still.refused


def _table(catalog: Catalog, request: Request) -> Table:
    """Raises:
    NotFound, InvalidArgument: the table does not exist; or the request names no version, or one version for every user.
    """
    table = find_table(catalog, TableName.parse(request.tables[0]))
    check_restore(request.options_of(RestoreOptions), table)
    return table


def _with_log(look: ScopeReport, view: LogView, *, discards: bool) -> ScopeReport:
    """The look at a scope, with the end of the log, and what would happen to the scope's pending rows."""
    if look.plan is None:  # it failed
        return look
    plan, pending = replace(look.plan, end=view.end), view.pending.get(look.scope.user or "")
    if pending is None:
        return replace(look, plan=plan)
    fate = "would be dropped" if discards else "would be flushed first, and then removed too"
    said = f"{look.reason}; {pending.rows} pending rows {fate}"
    return replace(look, outcome="planned", reason=said, plan=replace(plan, summary=said))


@dataclass(frozen=True)
class TableRewind:
    """A restore of scopes of one table, with its log as it was read first."""

    at: Workplace
    catalog: Catalog
    run: MaintenanceRun[RestoreOptions]
    table: Table
    targets: Sequence[ScopeTarget]
    log: TableLog
    view: LogView
    waiting: frozenset[Scope]
    """Those with pending rows."""

    @classmethod
    def of(
        cls,
        at: Workplace,
        catalog: Catalog,
        run: MaintenanceRun[RestoreOptions],
        table: Table,
        targets: Sequence[ScopeTarget] | None = None,
    ) -> TableRewind:
        """Of the scopes that the options name, if not of these.

        Raises:
            NotFound, InvalidArgument, Unsupported: the table has no versions, or the user is invalid.
        """
        if targets is None:
            targets = targets_of(at.warehouse, catalog, [str(table.name)], run.options.user)
        users = [target.scope.user or "" for target in targets]
        log = at.warehouse.log(table)
        view = log.view(users)
        waiting = view.pending_of(users)
        hot = frozenset(target.scope for target in targets if (target.scope.user or "") in waiting)
        return cls(at, catalog, run, table, targets, log, view, hot)

    def restored(self) -> list[ScopeReport]:
        """Plans first those with pending rows that are to be flushed: only where the scope can be restored. Pending rows that are
        to be dropped need no look before: the restoring commit drops them."""
        # A look first: a flush that is followed by a refused restore would change a scope for nothing.
        hot = [] if self.run.options.discard_pending else [one for one in self.targets if one.scope in self.waiting]
        looks = self._maintained(self.run.looking(), hot)
        held = {look.scope: look for look in looks if look.fault is not None}
        made = {report.scope: report for report in self._restored(held)} | held
        return [made[target.scope] for target in self.targets]

    def applied(self) -> list[ScopeReport]:
        """A scope with later rows is refused, unless the plan was applied to it before, which a look shows."""
        hot = [target for target in self.targets if target.scope in self.waiting]
        late = {target.scope: why for target in hot if (why := self._late(self.run.lines[target.scope])) is not None}
        seen = [target for target in hot if target.scope in late] if self.run.options.discard_pending else hot
        looks = self._maintained(self.run.looking(), seen)
        held = {look.scope: look for look in looks if look.outcome == "done" or look.fault}
        for target in hot:
            if target.scope in late.keys() - held.keys():
                held[target.scope] = failed_report(target, "restore", late[target.scope], self.at.warehouse.clock())
        return [*held.values(), *self._restored(held)]

    def _restored(self, held: Collection[Scope]) -> list[ScopeReport]:
        """Restores the scopes but for these."""
        targets = [target for target in self.targets if target.scope not in held]
        reports = self._discard(targets) if self.run.options.discard_pending else self._flush_first(targets)
        erasures = self.at.warehouse.erasures
        if marks := [erasures.mark(report.scope.user or "") for report in reports if report.outcome == "done"]:
            # Behind the commits, with a position of now: subscribers were shown rows that are not so any more (docs/log.md).
            self.log.note_rewound(marks)
        return reports

    def _flush_first(self, targets: Sequence[ScopeTarget]) -> list[ScopeReport]:
        """Flushes, then restores. A scope whose flush fails is not restored: its rows would be applied on top later. If the log
        cannot be read, one report for the whole table says so; then any scope may have pending rows, and none is restored."""
        scopes = {target.scope for target in targets} & self.waiting
        faults = {report.scope: report for report in self._flushed(scopes) if report.fault} if scopes else {}
        of_the_log = faults.get(Scope(self.table.name))
        failed = {
            target.scope: replace(report, scope=target.scope, operation="restore", location=target.location)
            for target in targets
            if (report := faults.get(target.scope, of_the_log)) is not None
        }
        ready = [target for target in targets if target.scope not in failed]
        return [*failed.values(), *self._maintained(self.run, ready)]

    def _flushed(self, scopes: Collection[Scope]) -> list[ScopeReport]:
        at, run = self.at, self.run
        job = FlushJob(run.job_id, self.catalog, run.plan_id, {self.view.log_id: self._end})
        return flush_scopes(at.warehouse, at.engine.run, at.engine.flush_large, Only(scopes), job=job)

    def _discard(self, targets: Sequence[ScopeTarget]) -> list[ScopeReport]:
        """Restores and drops pending rows: the restoring commit itself settles them, so a flush that has read them is refused."""
        # The end of the view becomes the tables' watermark: a crash must not take those segments back
        # (docs/decisions/0018-links-and-lost-positions.md).
        self.log.make_durable(self.view)
        # A plan drops what it has shown, and no row that came since.
        end = self._end if self.run.plan_id else self.view.end
        reports = self._maintained(replace(self.run, options=replace(self.run.options, discard_to=end)), targets)
        settled = {report.scope.user or "": end for report in reports if report.fault is None}
        if settled:
            self.log.settle(self.view, settled, keep=self.at.warehouse.retention_of(self.table))
        return reports

    def _maintained(self, run: MaintenanceRun[RestoreOptions], targets: Sequence[ScopeTarget]) -> list[ScopeReport]:
        return maintain_targets(self.at, self.catalog, run, targets)

    def _late(self, planned: ScopePlan) -> Moved | None:
        """Returns why rows in the log prevent a planned restore; None where the plan has seen them all."""
        last, end = self.view.pending[planned.user or ""].last_seq, NOTHING if planned.end is None else planned.end
        if last <= end:
            return None
        why = f"{planned.scope} has rows in the log up to _seq {last}, and its restore was planned up to {end}"
        return Moved(f"{why}; plan again")

    @property
    def _end(self) -> int:
        """Where the table's log ended when the restore was planned."""
        return next((planned.end for planned in self.run.lines.values() if planned.end is not None), NOTHING)


PROCEDURE = RestoreProcedure()
