"""The applier: does exactly what was planned, scope by scope, where nothing has moved since."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lakewarden.catalog.model import Catalog
from lakewarden.connection import Location
from lakewarden.errors import Conflict, InvalidArgument, LakewardenError, Moved, NotFound
from lakewarden.execution.operator import Operator
from lakewarden.operations.evict import apply_evict
from lakewarden.operations.flush.plan import apply_flush
from lakewarden.operations.maintain import maintain_targets, options_of, restore_of
from lakewarden.operations.plans.copies import check_move
from lakewarden.operations.plans.moved import PLAN
from lakewarden.operations.plans.removals import check_standing
from lakewarden.operations.plans.store import DoneBy, PlanLog
from lakewarden.operations.plans.value import MAX_SCOPES, Applying, Plan, PlannedScope
from lakewarden.operations.request import Request, Selection, request_of
from lakewarden.operations.rewind import Rewind, apply_rewind
from lakewarden.repair.plan import apply_repair
from lakewarden.report import ScopeReport
from lakewarden.scope import Scope, TableName
from lakewarden.state.certificates import Certificate, certificates
from lakewarden.state.erasure_requests import ErasureRequest, find_request, nameless
from lakewarden.target import ScopeTarget
from lakewarden.warehouse import Warehouse, find_table

_WHOLE = frozenset({"drop", "erase", "export", "move"})
"""Operations that are applied as a whole, or not at all."""

Permit = Callable[[Request], None]
"""Raises where the session that applies the plan may not run its operation."""


@dataclass(frozen=True)
class Applier:
    """Applies the plans that one warehouse keeps."""

    operator: Operator

    def apply(self, given: Plan | str, permit: Permit) -> list[ScopeReport]:
        """Applies a plan by its id or from its file; reports each scope as `done`, or `failed` where it moved.

        Raises:
            InvalidArgument, NotFound: it is not a plan of this warehouse.
            Moved: the plan is too old.
            PermissionDenied: as `permit`.
        """
        plan_id = given if isinstance(given, str) else given.plan_id
        if isinstance(given, Plan):
            self._check_given(given)
        found = self._log.begin(plan_id, self._warehouse.clock())
        if (kept := found.plan) is None:
            permit(Request("erase"))  # nothing else removes a plan and leaves what it did
            if found.done is None:
                raise NotFound(f"plan {plan_id} was removed with the user whom it named; if that erasure failed, erase again")
            return self._erased(plan_id, found.done)
        permit(kept.request)
        plan, refused = (kept, []) if isinstance(given, str) else self._as_kept(given, kept)
        if plan.operation in _WHOLE:
            return refused or [replace(report, plan_id=plan_id) for report in self._as_a_whole(kept, found.done)]
        selection = Selection(plan.request.tables, plan.request.user).parameters | {PLAN: plan_id}
        work = self._repaired if plan.operation == "repair" else self._run
        reports = self.operator.as_job(plan.operation, selection, lambda job_id: work(plan, job_id), None)
        return [replace(report, plan_id=plan_id) for report in (*reports, *refused)]

    def _run(self, plan: Plan, job_id: str) -> list[ScopeReport]:
        catalog, now = self._warehouse.catalog.read(), self._warehouse.clock()
        there: dict[Scope, ScopeTarget | None] = {}
        held: list[ScopeReport] = []
        for line in plan.scopes:
            try:
                there[line.scope] = self._resolved(catalog, plan, line)
            except LakewardenError as error:
                held.append(line.failed(plan.operation, error, now))
        standing = [line for line in plan.scopes if line.scope in there]
        if not standing:
            return held
        targets = [target for target in there.values() if target is not None]
        return self._applied(plan, standing, targets, job_id) + held

    def _applied(
        self, plan: Plan, lines: Sequence[PlannedScope], targets: Sequence[ScopeTarget], job_id: str
    ) -> list[ScopeReport]:
        warehouse, run, large, request = self._warehouse, self.operator.engine.run, self.operator.flush_large, plan.request
        applying = Applying(plan.plan_id, {line.scope: line for line in lines})
        match plan.operation:
            case "flush":
                return apply_flush(warehouse, run, large, applying, job_id)
            case "evict":
                return apply_evict(warehouse, lines)
            case "restore":
                rewind = Rewind(*restore_of(request, warehouse), request.discard_pending, dry_run=False, job_id=job_id)
                return apply_rewind(warehouse, run, large, rewind, targets, applying)
            case _:
                options = options_of(request, warehouse)
                return maintain_targets(warehouse, run, targets, options, dry_run=False, job_id=job_id, applying=applying)

    def _repaired(self, plan: Plan, job_id: str) -> list[ScopeReport]:
        return apply_repair(self._warehouse, self.operator.engine.run, plan, job_id)

    def _as_a_whole(self, plan: Plan, before: DoneBy | None) -> list[ScopeReport]:
        """Does all that was planned, or nothing. What an earlier apply did is reported."""
        now = self._warehouse.clock()
        if before is not None:
            return [line.done(plan.operation, now, before.message) for line in plan.scopes]
        try:
            done = self._done_whole(plan)
        except Moved as moved:
            return [line.failed(plan.operation, moved, now) for line in plan.scopes]
        self._log.finish(plan.plan_id, done)
        return [line.done(plan.operation, now, done.message) for line in plan.scopes]

    def _done_whole(self, plan: Plan) -> DoneBy:
        """Raises:
        Moved: a table is another one, or at another place.
        """
        if plan.operation == "move":
            return self._move(plan)
        check_standing(self._warehouse, plan)
        match plan.operation:
            case "drop":
                return self._drop(plan)
            case "export":
                made = self.operator.export(plan.request.user or "", plan.request.to or "")
                return DoneBy("", f"{len(made.files)} files were exported")
            case _:
                return self._erase(plan)

    def _move(self, plan: Plan) -> DoneBy:
        check_move(self._warehouse, plan)
        name = TableName.parse(plan.request.tables[0])
        reports = self.operator.move(name, plan.request.to or "", still=lambda: check_move(self._warehouse, plan))
        if failed := [report for report in reports if report.fault]:
            first = f"{failed[0].scope}: {failed[0].reason}"
            raise Conflict(f"{len(failed)} scopes of {name} could not be moved: {first}; apply the plan again to continue")
        return DoneBy("", f"{sum(report.outcome == 'done' for report in reports)} scopes were moved")

    def _drop(self, plan: Plan) -> DoneBy:
        name = TableName.parse(plan.request.tables[0])
        reports = self.operator.drop(name, lambda: check_standing(self._warehouse, plan))
        return DoneBy("", f"{sum(report.outcome == 'done' for report in reports)} scopes were emptied")

    def _erase(self, plan: Plan) -> DoneBy:
        request = plan.request
        certificate = self.operator.erase(
            ErasureRequest(request.user or "", request.tables, f"plan {plan.plan_id}", request.deep)
        )
        return DoneBy(certificate.id, f"certificate {certificate.id}")

    def erase_requested(self, request: str, plan_id: str) -> Certificate:
        """Erases what was requested under this keyed hash, as it was planned.

        Raises:
            InvalidArgument, NotFound: it is not a plan of that erasure.
            Moved: a table of the plan changed; nothing was erased.
        """
        found = self._log.begin(plan_id, self._warehouse.clock())
        erasure = find_request(self._warehouse.state, request)
        if found.plan is None or found.plan.request != request_of(erasure):
            raise InvalidArgument(f"plan {plan_id} does not belong to the erasure {request}; preview that erasure again")
        with nameless(erasure.user, request):
            check_standing(self._warehouse, found.plan)
        certificate = self.operator.erase_requested(request)
        self._log.finish(plan_id, DoneBy(certificate.id, f"certificate {certificate.id}"))
        return certificate

    def _erased(self, plan_id: str, before: DoneBy) -> list[ScopeReport]:
        """What a plan did that was removed with its user, by the certificate."""
        warehouse = self._warehouse
        done = (each for each in certificates(warehouse.state) if each.id == before.job_id)
        return [
            ScopeReport(
                Scope(TableName.parse(table.table), each.user),
                "erase",
                "done",
                Location(warehouse.uri),
                before.message,
                plan_id=plan_id,
            )
            for each in done
            for table in each.tables
        ]

    def _resolved(self, catalog: Catalog, plan: Plan, line: PlannedScope) -> ScopeTarget | None:
        """The scope as the catalog has it now; None where the operation only needs the log.

        Raises:
            Moved: it is another table, or is at another place; or the table no longer exists.
        """
        try:
            table = find_table(catalog, line.scope.table)
        except NotFound as error:
            raise Moved(f"{error.message}; plan again") from error
        if plan.operation == "evict":
            line.check_place(table.log_id, Location(self._warehouse.state.uri).below(self._warehouse.log(table).home).uri)
            return None
        target = self._warehouse.target(catalog, line.scope)
        line.check_place(table.log_id, target.uri)
        return target

    def _check_given(self, given: Plan) -> None:
        if given.warehouse != self._warehouse.id:
            raise InvalidArgument(
                f"plan {given.plan_id} was made for warehouse {given.warehouse}, and this is {self._warehouse.id}: apply it there"
            )
        if len(given.scopes) > MAX_SCOPES:
            raise InvalidArgument(f"plan {given.plan_id} has {len(given.scopes)} scopes; a plan has at most {MAX_SCOPES}")

    def _as_kept(self, given: Plan, kept: Plan) -> tuple[Plan, list[ScopeReport]]:
        """The lines of the given plan that match the stored one, and reports of those that do not.

        Raises:
            InvalidArgument: it is not the plan of that id.
        """
        if (given.request, given.planned_at) != (kept.request, kept.planned_at):
            raise InvalidArgument(f"plan {kept.plan_id} requests something other than what this warehouse planned; plan again")
        lines = {line.key: line for line in kept.scopes}
        same = tuple({line.key: line for line in given.scopes if lines.get(line.key) == line}.values())
        other = [line for line in given.scopes if lines.get(line.key) != line]
        why = "is not in the warehouse's copy of the plan: the file was changed, or the user was erased; plan again"
        now = self._warehouse.clock()
        refused = [line.failed(kept.operation, Moved(f"{line.scope} {why}"), now) for line in other]
        return replace(kept, scopes=same), refused

    @property
    def _warehouse(self) -> Warehouse:
        return self.operator.warehouse

    @property
    def _log(self) -> PlanLog:
        return PlanLog(self._warehouse.state, self._warehouse.erasures)
