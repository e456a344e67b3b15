"""How an operation is done: looked at, run, queued, and applied as it was planned. Each has a module beside this one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module

from lakewarden.base.scope import Scope
from lakewarden.catalog.operations import SPECS, Operation, Request
from lakewarden.catalog.report import ScopeReport
from lakewarden.maintenance.plans.store import DoneBy
from lakewarden.maintenance.plans.value import Plan
from lakewarden.maintenance.procedures.workplace import Workplace
from lakewarden.maintenance.scopes import named_tables
from lakewarden.tables.warehouse import check_scope


class Procedure(ABC):
    """One operation. Requests are checked by its row of `specs.SPECS` before they come here."""

    @abstractmethod
    def look(self, at: Workplace, request: Request) -> list[ScopeReport]:
        """What a plan would report; changes nothing.

        Raises:
            NotFound, InvalidArgument, Unsupported: the request is not valid.
        """

    @abstractmethod
    def run(self, at: Workplace, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        """Does what is requested, without a plan; `job_id` as in `Workplace.as_job`.

        Raises:
            NotFound, InvalidArgument, Unsupported: the request is not valid; nothing was done.
        """

    def check_queued(self, at: Workplace, request: Request) -> None:
        """Whether the request may wait for a runner.

        Raises:
            NotFound, InvalidArgument, Unsupported: its job would fail.
        """
        for table in named_tables(at.warehouse.catalog.read(), request.tables):
            if request.user is not None:
                check_scope(table, Scope(table.name, request.user))


class ByScope(Procedure):
    """An operation that is applied scope by scope, where the scope has not changed since it was planned."""

    @abstractmethod
    def apply(self, at: Workplace, plan: Plan, job_id: str) -> list[ScopeReport]:
        """A report for each scope of the plan: `done`, or `failed` where it moved."""


class AsAWhole(Procedure):
    """An operation that is applied as a whole, or not at all."""

    @abstractmethod
    def apply(self, at: Workplace, plan: Plan) -> DoneBy:
        """Raises:
        Moved: a table is another one, or at another place; nothing was done.
        """


def procedure_of(operation: Operation) -> ByScope | AsAWhole:
    """The procedure, whose module is imported when it is first needed: all of them bring Delta and Arrow."""
    module = import_module(SPECS[operation].procedure or f"lakewarden.maintenance.procedures.{operation}")
    found: ByScope | AsAWhole = module.PROCEDURE
    return found
