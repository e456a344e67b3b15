"""Plans of operations, and applying them."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from lakewarden.base.commit_metadata import Metadata, attaches
from lakewarden.catalog.operations import Plannable
from lakewarden.client.parts import Noun
from lakewarden.client.status import StatusCalls
from lakewarden.errors import InvalidArgument
from lakewarden.maintenance.request import Request, new_request

if TYPE_CHECKING:
    from lakewarden.catalog.report import ScopeReport
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
        """As `plan`, for an operation whose name is a variable."""
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
        from lakewarden.maintenance.planning.propose import planned_flush, vacuumable
        from lakewarden.maintenance.scopes import named_tables

        warehouse = self._parts.warehouse
        names = {table.name for table in named_tables(warehouse.catalog.read(), tables)}
        flushes = [planned_flush(warehouse, due) for due in StatusCalls(self._parts).due() if due.pending.table in names]
        compact = self.look("compact", *tables, look=look, scheduled=True)
        optimize = self.look("optimize", *tables, look=look, scheduled=True)
        safe = tuple(vacuumable(warehouse, names))
        vacuum = self.look("vacuum", *safe, look=look) if safe else []
        return flushes + [report for report in (*compact, *optimize, *vacuum) if report.outcome != "skipped"]


class Plans(PlanCalls):
    """`lake.maintenance.plans`."""

    due = PlanCalls.plan_due

    def preview(self, operation: str, *tables: str, **options: object) -> Plan:
        """As `planned`: the plan comes with a report for each scope, those that could not be looked at among them."""
        return self._parts.operator.preview(new_request(operation, tables, **options))

    def previews(self, *tables: str, look: bool = False) -> list[Plan]:
        """The plans of `due`, and those of operations whose scopes could not be looked at; each with its reports."""
        return self._previews(*tables, look=look)
