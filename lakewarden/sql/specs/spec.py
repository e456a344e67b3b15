"""What there is to know of one SQL statement. It is data: `sql.rights` says what a right means for a statement at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lakewarden.catalog.access import Act, Capability, GuardedTable, TableAct, WarehouseAct
from lakewarden.catalog.operations import SPECS, Operation
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.statements.base import Statement

Grammar = Callable[[StatementReader], Statement]


@dataclass(frozen=True)
class Ask:
    """The check at the gate before a statement runs: an act, and its table if it has one."""

    act: Act
    table: GuardedTable | None = None


@dataclass(frozen=True)
class InWarehouse:
    """The right to an act that concerns no table."""

    act: WarehouseAct


@dataclass(frozen=True)
class TableRight:
    """The right to an act on the table that the statement names."""

    act: TableAct


@dataclass(frozen=True)
class ScopesRight:
    """What an operation needs for every scope; for the session's own, where `specs` says so, the right to write."""

    operation: Operation


OwnRule = Literal["create", "describe", "job", "pipeline", "plan", "read"]
"""Rights that depend on more than the table: `sql.rights` has a rule for each. `read` is what the queries inside need."""

Right = InWarehouse | TableRight | ScopesRight | OwnRule


def operation_right(operation: Operation) -> TableRight:
    """The right of an operation that works on every scope."""
    return TableRight(act_of(operation))


def act_of(operation: Operation) -> TableAct:
    act = SPECS[operation].act
    assert act is not None, "an operation with a statement has a right"
    return act


@dataclass(frozen=True)
class Requirement:
    """What the statement's table must be capable of; `what` names the statement in the error."""

    capability: Capability
    what: str
    holds_for: Callable[[Any], bool] = lambda _: True
    """Whether this statement of the class needs it."""


@dataclass(frozen=True)
class AuditEntrySpec:
    """The audit entry of a completed statement: its action, and its target: what kind, in which field of the statement."""

    action: str
    kind: str
    field: str = "id"


@dataclass(frozen=True)
class StatementSpec:
    """One statement. Statements that begin alike share a grammar, which tells them apart."""

    syntax: str
    """As the reference shows it."""
    does: str
    """What it does, as the reference says it."""
    begins: Mapping[str, Grammar]
    """The words that it begins with, and what reads the rest."""
    right: Right
    handler: str
    """`module.function` below `sql.handlers`, imported with the first statement: most handlers import all operations."""
    result: Any
    """The result's class, or a union of them: the handler's return type."""
    requires: Requirement | None = None
    audited: AuditEntrySpec | None = None
