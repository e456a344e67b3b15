"""Plans of operations, and applying them."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain
from typing import TYPE_CHECKING, overload

from lakewarden.base.commit_metadata import Metadata, attaches
from lakewarden.catalog.operations import Plannable, Queueable
from lakewarden.client.parts import Noun
from lakewarden.client.status import StatusCalls
from lakewarden.errors import InvalidArgument
from lakewarden.maintenance.request import Request, new_request

if TYPE_CHECKING:
    from lakewarden.catalog.report import ScopeReport
    from lakewarden.catalog.state.job import Job
    from lakewarden.maintenance.plans.value import Plan


class PlanCalls(Noun):
    """The calls of `lake.maintenance.plans` that `Lakehouse` has, too."""

    @overload
    def plan(self, operation: Plannable, /, *tables: str, **options: object) -> Plan: ...
    @overload
    def plan(self, *tables: str, look: bool = False) -> list[ScopeReport]: ...
    def plan(self, *names: str, **options: object) -> Plan | list[ScopeReport]:  # type: ignore[misc]  # it takes both, as mypy does not see
        """Plans an operation for `apply`; without an operation, reports what maintenance would do now.

        `lake.plan("vacuum", "chat.messages", user="u_42")` creates a plan of that operation and keeps it for 24 hours.
        `lake.plan("chat.messages")` returns a report for each operation that is due on a scope, and keeps nothing.

        Raises:
            InvalidArgument, Unsupported, NotFound: the request is not valid.
        """
        if names and "." not in names[0]:
            return self.planned(names[0], *names[1:], **options)
        if options.keys() - {"look"}:
            raise InvalidArgument("name the operation first, as in lake.plan('vacuum', 'chat.messages', retain_hours=200)")
        return self.proposed(*names, look=bool(options.get("look", False)))

    def planned(self, operation: str, *tables: str, **options: object) -> Plan:
        """As `plan`, for an operation whose name is a variable. The plan comes with a report for each scope, those that could
        not be looked at among them."""
        return self._parts.operator.preview(new_request(operation, tables, **options))

    def plan_due(self, *tables: str, look: bool = False) -> list[Plan]:
        """Plans of what maintenance would do now, in the order in which to apply them. `look` is as in `proposed`."""
        return [plan for plan in self._previews(*tables, look=look) if plan.scopes]

    def _previews(self, *tables: str, look: bool = False) -> list[Plan]:
        return self._parts.operator.due(tables, {due.pending.scope for due in StatusCalls(self._parts).due()}, look=look)

    @attaches
    def apply(self, plan: Plan | str, *, only: Request | None = None, metadata: Metadata | None = None) -> list[ScopeReport]:
        """Applies a plan, given by value or id, exactly and once: a report for each scope, `done`, or `failed` with CONFLICT
        if the scope has changed since. A second call reports what the first one did.

        Args:
            only: the request that the plan must have been made for.

        Raises:
            InvalidArgument, NotFound: it is not a plan of this warehouse, or not one of the request `only`.
            Moved: it was made more than 24 hours ago.
        """

        def permit(request: Request) -> None:
            if only not in (None, request):
                raise InvalidArgument("the plan was made for another request; repeat the request that was previewed")

        return self._parts.operator.apply(plan, permit)

    def look(self, operation: Plannable, *tables: str, **options: object) -> list[ScopeReport]:
        """What a dry run reports, without keeping a plan."""
        return self._parts.operator.look(new_request(operation, tables, **options))

    def proposed(self, *tables: str, look: bool = False) -> list[ScopeReport]:
        """Reports for each operation that is due on a scope, without keeping a plan.

        Args:
            look: opens each scope, also those in which nothing is to do by what the state knows.
        """
        from lakewarden.maintenance.scopes import named_tables
        from lakewarden.maintenance.vacuum.removable import vacuumable

        warehouse = self._parts.warehouse
        named = named_tables(catalog := warehouse.catalog.read(), tables)
        names, safe = {table.name for table in named}, vacuumable(warehouse, named)
        due = (one for one in StatusCalls(self._parts).due() if one.pending.table in names)
        flushes = [one.planned(warehouse, catalog) for one in due]
        found = chain.from_iterable(self._parts.operator.upkeep(catalog, tables, safe, look=look))
        return flushes + [report for report in found if report.outcome != "skipped"]


class Plans(PlanCalls):
    """`lake.maintenance.plans`."""

    due = PlanCalls.plan_due
    preview = PlanCalls.planned

    def previews(self, *tables: str, look: bool = False) -> list[Plan]:
        """The plans of `due`, and those of operations whose scopes could not be looked at; each with its reports."""
        return self._previews(*tables, look=look)


class JobCalls(Noun):
    """The calls of `lake.jobs`, as `Lakehouse` has them."""

    @attaches
    def enqueue(self, operation: Queueable, *tables: str, metadata: Metadata | None = None, **options: object) -> Job:
        """Requests an operation that `run_jobs` will run, in this process or another.

        Args:
            metadata: a JSON object that its commits will carry.
            options: of the operation, as `user`, or `to`, the storage to move to.

        Raises:
            NotFound, InvalidArgument: a table or a storage does not exist, or a user's name is not valid.
            AlreadyActive: the same request is already queued or running.
        """
        from lakewarden.maintenance.request import new_request

        return self._parts.operator.enqueue(new_request(operation, tables, **options))

    def waiting_jobs(self) -> list[Job]:
        """The jobs that `run_jobs` would run now, oldest first."""
        return self._parts.runner.waiting()

    def run_jobs(self, only: Collection[str] | None = None) -> list[Job]:
        """Runs the queued jobs (`only`: these ids), oldest first; a failed one does not stop the others.

        Takes over jobs whose runner has died.
        """
        return self._parts.runner.run_waiting(only)

    def kill_job(self, job_id: str) -> Job:
        """Cancels a job that is not over; a running one stops before its next scope."""
        return self._parts.operator.jobs.kill(job_id)


class Jobs(JobCalls):
    """`lake.jobs`: the same by shorter names."""

    waiting = JobCalls.waiting_jobs
    run = JobCalls.run_jobs
    kill = JobCalls.kill_job

    # `lake.jobs(limit)` was a method before it was a noun; its callers may still call it.
    def __call__(self, limit: int | None = 50) -> list[Job]:
        """The last jobs, newest first."""
        return self._parts.operator.jobs.newest(limit)
