"""What the operations that maintain Delta tables have in common."""

from __future__ import annotations

from abc import abstractmethod

from lakewarden.catalog.model import Table
from lakewarden.catalog.operations import Request
from lakewarden.catalog.report import ScopeReport
from lakewarden.maintenance.maintain import maintain_targets
from lakewarden.maintenance.plans.scope_options import ScopeOptions
from lakewarden.maintenance.plans.value import Plan
from lakewarden.maintenance.procedures.procedure import ByScope
from lakewarden.maintenance.procedures.standing import PlanStanding, apply_standing
from lakewarden.maintenance.procedures.workplace import Workplace
from lakewarden.maintenance.upkeep.needs import Need
from lakewarden.maintenance.upkeep.rounds import Round
from lakewarden.maintenance.whole_tables import maintain
from lakewarden.tables.warehouse import Warehouse


class TableMaintenance(ByScope):
    """An operation on each scope's Delta table by itself."""

    @abstractmethod
    def options(self, warehouse: Warehouse, request: Request) -> ScopeOptions:
        """The options of a request, completed by the settings."""

    def need(self, warehouse: Warehouse, request: Request, table: Table) -> Need | None:
        """When it opens a scope of the table; None where it opens all."""
        return None

    def going_round(self, warehouse: Warehouse, table: Table) -> Round | None:
        """The round in which it comes to every scope of the table; None where it goes none."""
        return None

    def look(self, at: Workplace, request: Request) -> list[ScopeReport]:
        return self._maintain(at, request, None, dry_run=True)

    def run(self, at: Workplace, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        return self._maintain(at, request, job_id, dry_run=False)

    def apply(self, at: Workplace, plan: Plan, job_id: str) -> list[ScopeReport]:
        options = self.options(at.warehouse, plan.request)

        def apply(still: PlanStanding) -> list[ScopeReport]:
            return maintain_targets(
                at.warehouse, at.run, still.targets, options, dry_run=False, job_id=job_id, applying=still.applying
            )

        return apply_standing(at.warehouse, plan, apply)

    def _maintain(self, at: Workplace, request: Request, job_id: str | None, *, dry_run: bool) -> list[ScopeReport]:
        warehouse, selection = at.warehouse, request.selection
        options = self.options(warehouse, request)

        def need_of(table: Table) -> Need | None:
            return self.need(warehouse, request, table)

        def round_of(table: Table) -> Round | None:
            return self.going_round(warehouse, table)

        def work(id_: str) -> list[ScopeReport]:
            return maintain(
                warehouse, at.run, selection, options, need_of, round_of, dry_run=dry_run, job_id=id_, spread=at.spread
            )

        return at.as_job(request.operation, selection.parameters, work, job_id, keep=not dry_run)


def ratio_of(request: Request) -> float | None:
    """What is said; else the table's own for what runs by itself, and none for others, which take all that fits."""
    return request.ratio if request.ratio is not None else None if request.scheduled else 0.0
