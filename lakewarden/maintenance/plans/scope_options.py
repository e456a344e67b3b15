"""What every operation that maintains Delta tables has in common: options, which plan the work on one scope."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import ClassVar

from lakewarden.base.clock import Clock
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.model import TableSchema
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import LakewardenError
from lakewarden.maintenance.plans.scope_plan import ScopePlan
from lakewarden.maintenance.plans.value import PlannedScope
from lakewarden.tables.warehouse import Warehouse


class ScopeOptions(ABC):
    """The options of one operation. Picklable: they are sent to tasks."""

    operation: ClassVar[Operation]
    commits: ClassVar[str]
    """The operation that its commits are stamped with."""

    @abstractmethod
    def plan(self, target: ScopeTarget, *, clock: Clock) -> ScopePlan:
        """Plans the work on a scope."""

    @abstractmethod
    def replan(self, target: ScopeTarget, planned: PlannedScope, plan_id: str, *, clock: Clock) -> ScopePlan:
        """The planned work, on the table as it is now.

        Raises:
            Moved: what the plan depends on has changed.
        """

    def check(self, subject: Scope | TableName, schema: TableSchema, retention_hours: float) -> None:
        """Refuses the whole request, before anything is done, if no scope could do it.

        Raises:
            InvalidArgument: an option is not valid for the table.
        """
        return

    def refused(self, warehouse: Warehouse, targets: Sequence[ScopeTarget]) -> Mapping[Scope, LakewardenError]:
        """The scopes that it must not work on, with the reason."""
        return {}

    def completed(self, warehouse: Warehouse, targets: Sequence[ScopeTarget], now: datetime) -> Sequence[ScopeOptions]:
        """The options of each scope, with what the state knows of it. `now` was read before."""
        return [self] * len(targets)

    def finish(self, warehouse: Warehouse, targets: Sequence[ScopeTarget], now: datetime) -> None:
        """Tidies the state after a run; `now` as in `completed`."""
        return
