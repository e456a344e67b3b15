"""What operations would do, as values that `apply` takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

from lakewarden.errors import InvalidArgument
from lakewarden.lakehouse.parts import Parts
from lakewarden.lakehouse.status import Status
from lakewarden.operations.request import Asked, Plannable, PlanOptions, Request, new_request

if TYPE_CHECKING:
    from lakewarden.operations.plans.value import Plan
    from lakewarden.report import ScopeReport


@dataclass(frozen=True)
class Plans:
    """`lake.maintenance.plans`."""

    parts: Parts
    status: Status

    def plan(self, *names: str, **options: Unpack[PlanOptions]) -> Plan | list[ScopeReport]:
        """What an operation would do, as a value that `apply` takes; without an operation, what maintenance would do now.

        `lake.plan("vacuum", "chat.messages", user="u_42")` makes a plan of that operation and keeps it for 24 hours.
        `lake.plan("chat.messages")` gives a report for each operation on a scope that has something to do, and keeps nothing.

        Raises:
            InvalidArgument, Unsupported, NotFound: it cannot be requested so.
        """
        if names and "." not in names[0]:
            return self.planned(*names, **options)
        if options:
            raise InvalidArgument("name the operation first, as in lake.plan('vacuum', 'chat.messages', retain_hours=200)")
        return self._proposed(names)

    def planned(self, operation: str, *tables: str, **options: Unpack[PlanOptions]) -> Plan:
        """The plan of an operation by its name; as `plan`, for names that are not known before."""
        return self.parts.planner.preview(new_request(operation, tables, **options)).plan

    def due(self, *tables: str) -> list[Plan]:
        """What maintenance would do now, as plans in the order in which they are to be applied."""
        return self.parts.planner.due(tables, {due.pending.scope for due in self.status.due()})

    def apply(self, plan: Plan | str, *, only: Request | None = None) -> list[ScopeReport]:
        """Does exactly what was planned, by the plan or its id, once: a report for each scope, `done`, or `failed` with CONFLICT
        where it moved since. A second call reports what the first one did.

        Args:
            only: what the plan has to have been made for.

        Raises:
            InvalidArgument, NotFound: it is not a plan of this warehouse, or of another request than `only`.
            Moved: it was made more than 24 hours ago.
        """

        def permit(request: Request) -> None:
            if only not in (None, request):
                raise InvalidArgument("the plan was not made for this request: request the same as when it was previewed")

        return self.parts.applier.apply(plan, permit)

    def look(self, operation: Plannable, *tables: str, **options: Unpack[PlanOptions]) -> list[ScopeReport]:
        """What a dry run reports, without keeping a plan."""
        return self.parts.planner.look(new_request(operation, tables, **options))

    def _proposed(self, tables: Sequence[str]) -> list[ScopeReport]:
        from lakewarden.operations.scopes import named_tables
        from lakewarden.operations.vacuum.scope import VacuumOptions
        from lakewarden.planning.propose import planned_flush, vacuumable

        warehouse = self.parts.warehouse
        names = {table.name for table in named_tables(warehouse.catalog.read(), tables)}
        flushes = [planned_flush(warehouse, due) for due in self.status.due() if due.pending.table in names]
        compact, optimize = self.look("compact", *tables), self.look("optimize", *tables)
        safe = tuple(vacuumable(warehouse, names))
        vacuum = self.parts.operator.maintain(Asked(safe), VacuumOptions(), dry_run=True) if safe else []
        return flushes + [report for report in (*compact, *optimize, *vacuum) if report.outcome != "skipped"]
