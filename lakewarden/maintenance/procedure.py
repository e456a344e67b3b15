"""How an operation is done: planned, run, queued, and applied as it was planned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module

from lakewarden.base.scope import Scope
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.target import check_scope
from lakewarden.maintenance.plans.store import DoneBy
from lakewarden.maintenance.plans.value import Plan
from lakewarden.maintenance.request import Request
from lakewarden.maintenance.scopes import named_tables
from lakewarden.maintenance.workplace import Workplace


class Procedure(ABC):
    """One operation. Requests are checked by its row of `catalog.operations` before they come here.

    Each call gets the catalog as it was read for it, once.
    """

    @abstractmethod
    def look(self, at: Workplace, catalog: Catalog, request: Request) -> list[ScopeReport]:
        """What a plan would report; changes nothing.

        Raises:
            NotFound, InvalidArgument, Unsupported: the request is not valid.
        """

    @abstractmethod
    def run(self, at: Workplace, catalog: Catalog, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        """Does what is requested, without a plan; `job_id` as in `Workplace.as_job`.

        Raises:
            NotFound, InvalidArgument, Unsupported: the request is not valid; nothing was done.
        """

    def check_queued(self, at: Workplace, catalog: Catalog, request: Request) -> None:
        """Whether the request may wait for a runner.

        Raises:
            NotFound, InvalidArgument, Unsupported: its job would fail.
        """
        for table in named_tables(catalog, request.tables):
            if request.user is not None:
                check_scope(table, Scope(table.name, request.user))


class ByScope(Procedure):
    """An operation that is applied scope by scope, where the scope has not changed since it was planned."""

    @abstractmethod
    def apply(self, at: Workplace, catalog: Catalog, plan: Plan, job_id: str) -> list[ScopeReport]:
        """A report for each scope of the plan: `done`, or `failed` where it moved."""


class AsAWhole(Procedure):
    """An operation that is applied as a whole, or not at all."""

    @abstractmethod
    def apply(self, at: Workplace, plan: Plan) -> DoneBy:
        """Raises Moved: a table is another one, or at another place; nothing was done."""


def procedure_of(operation: Operation) -> ByScope | AsAWhole:
    """The procedure, whose module is imported when it is first needed: all of them bring Delta and Arrow.

    An operation is a module, or a package with a module `procedure`.
    """
    home = import_module(f"lakewarden.maintenance.{operation}")
    if hasattr(home, "__path__"):
        home = import_module(f"{home.__name__}.procedure")
    found: ByScope | AsAWhole = home.PROCEDURE
    return found
