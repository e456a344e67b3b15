"""The properties of each operation, in one table that the command line, SQL, jobs and Dagster read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lakewarden.access.rights import TableAct
from lakewarden.report import Operation


@dataclass(frozen=True)
class OperationSpec:
    """One operation. The ids of its jobs start with `prefix` (kalamdb.md 3.3, where that has one)."""

    prefix: str
    queueable: bool = False
    """Whether its jobs can be queued for a runner. An operation that needs a person cannot."""
    plannable: bool = False
    """Whether it can be planned first and the plan applied later."""
    options: frozenset[str] = frozenset()
    """The fields of a `Request` that it takes, besides its tables."""
    act: TableAct | None = None
    """The right that its SQL statement needs, for all scopes of a table; None when it has no statement."""
    own: bool = False
    """Whether the right to write is enough for the caller's own scope."""
    tables: Literal["any", "one", "none"] = "any"
    """How many tables a request names; `any` means all of them when it names none."""
    required: frozenset[str] = frozenset()
    """Which of its options have to be given."""


def _takes(*names: str) -> frozenset[str]:
    return frozenset(names)


_EVERY: TableAct = "maintain every scope of"

SPECS: Mapping[Operation, OperationSpec] = {
    "flush": OperationSpec("FL", queueable=True, plannable=True, options=_takes("user"), act="flush"),
    "compact": OperationSpec("CO", queueable=True, plannable=True, options=_takes("user", "look"), act="compact"),
    "optimize": OperationSpec(
        "OP", queueable=True, plannable=True, options=_takes("user", "zorder", "look"), act=_EVERY, own=True
    ),
    "vacuum": OperationSpec(
        "VA", plannable=True, options=_takes("user", "retain_hours", "force", "ignore_checks", "look"), act=_EVERY, own=True
    ),
    "restore": OperationSpec(
        "RS",
        plannable=True,
        options=_takes("user", "version", "timestamp", "discard_pending"),
        act=_EVERY,
        own=True,
        tables="one",
    ),
    "evict": OperationSpec("SE", queueable=True, plannable=True, options=_takes("user"), act="evict"),
    "drop": OperationSpec("CL", plannable=True, tables="one", act="drop"),
    "erase": OperationSpec("UC", plannable=True, options=_takes("user", "deep", "even_if_unknown"), required=_takes("user")),
    "export": OperationSpec(
        "UE", queueable=True, plannable=True, options=_takes("user", "to"), tables="none", required=_takes("user", "to")
    ),
    "import": OperationSpec("UI"),
    "move": OperationSpec(
        "MV", queueable=True, plannable=True, options=_takes("to"), tables="one", act="move", required=_takes("to")
    ),
    "repair": OperationSpec("RP", plannable=True, options=_takes("user", "restored")),
}

Queueable = Literal["flush", "compact", "optimize", "evict", "export", "move"]
Plannable = Literal["flush", "compact", "optimize", "vacuum", "restore", "evict", "drop", "erase", "export", "move", "repair"]
"""The same as types for callers, since a type checker reads no table."""

QUEUEABLE: tuple[Operation, ...] = tuple(name for name, spec in SPECS.items() if spec.queueable)
PLANNABLE: tuple[Operation, ...] = tuple(name for name, spec in SPECS.items() if spec.plannable)
