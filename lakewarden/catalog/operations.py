"""What there is to know of each operation, in one table.

The command line, SQL, jobs, plans, Dagster and the reference are driven by it, and by the operation's options. These, and what it
does, are in its package (`maintenance.<operation>`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lakewarden.catalog.access import TableAct

Operation = Literal[
    "flush",
    "compact",
    "evict",
    "optimize",
    "vacuum",
    "restore",
    "drop",
    "erase",
    "export",
    "import",
    "move",
    "repair",
    "write",
    "ingest",
]
Queueable = Literal["flush", "compact", "evict", "optimize", "export", "move"]
Plannable = Literal["flush", "compact", "evict", "optimize", "vacuum", "restore", "drop", "erase", "export", "move", "repair"]
"""Those that can be queued, and planned, by the table below: types for callers, since a type checker reads no table."""


@dataclass(frozen=True)
class Command:
    """The command that runs an operation: `lakewarden flush TABLE… --user U`."""

    nothing: str
    """What it prints where there is no scope to report."""
    example: str
    """What follows its name in the example of its help."""
    dry_run: str = ""
    """What `--dry-run` does; without it, `plan --operation` shows what would be done."""
    panel: str = "Care"
    """Where the command line's help lists it (`cli.help`)."""


@dataclass(frozen=True)
class OperationSpec:
    """One operation. The ids of its jobs start with `prefix` (kalamdb.md 3.3, where that has one)."""

    prefix: str
    does: str
    """What it does, for people: a sentence without its full stop."""
    queueable: bool = False
    """Whether its jobs can be queued for a runner. An operation that needs a person cannot."""
    plannable: bool = False
    """Whether it can be planned first and the plan applied later."""
    act: TableAct | None = None
    """The right that its SQL statement needs, for all scopes of a table; None when it has no statement."""
    own: bool = False
    """Whether the right to write is enough for the caller's own scope."""
    tables: Literal["any", "one", "none"] = "any"
    """How many tables a request names; `any` means all of them when it names none."""
    takes: Literal["nothing", "user", "own"] = "own"
    """What it takes besides tables: nothing, whose scopes they are, or the options that its package declares."""
    required: Mapping[str, str] = field(default_factory=dict)
    """Which of its options have to be given, and what each names."""
    command: Command | None = None
    """Its command; None where it has one of its own shape, or none."""


_USER = "the user (`user`, as --user u_42)"
_EVERY: TableAct = "maintain every scope of"

SPECS: Mapping[Operation, OperationSpec] = {
    "flush": OperationSpec(
        "FL",
        "Move pending rows from the write log into the scopes' Delta tables",
        queueable=True,
        plannable=True,
        act="flush",
        takes="user",
        command=Command("skipped: no pending writes", "chat.messages --user u_42"),
    ),
    "compact": OperationSpec(
        "CO",
        "Fold each scope's newest small files into one (the tail rule of Storage Tiers)",
        queueable=True,
        plannable=True,
        act="compact",
        command=Command("skipped: no scopes", "chat.messages"),
    ),
    "evict": OperationSpec(
        "SE",
        "Remove STREAM rows that have expired or exceed their scope's size",
        queueable=True,
        plannable=True,
        act="evict",
        takes="user",
        command=Command(
            "skipped: nothing has expired", "chat.typing --dry-run", "Show what would be removed, and remove nothing."
        ),
    ),
    "optimize": OperationSpec(
        "OP",
        "Pack each scope's small files to the target size, or cluster them by columns",
        queueable=True,
        plannable=True,
        act=_EVERY,
        own=True,
        command=Command("skipped: no scopes", "chat.messages --zorder sent_at"),
    ),
    "vacuum": OperationSpec(
        "VA",
        "Delete files that no version inside the retention needs",
        plannable=True,
        act=_EVERY,
        own=True,
        command=Command(
            "skipped: no scopes", "chat.messages --retain 336 --dry-run", "List what would be deleted, and delete nothing."
        ),
    ),
    "restore": OperationSpec(
        "RS",
        "Restore the rows of scopes to an earlier version; the schema stays",
        plannable=True,
        act=_EVERY,
        own=True,
        tables="one",
        command=Command(
            "skipped: no scopes",
            "chat.messages --user u_42 --version 3 --dry-run",
            "Show which rows and files would change, and change nothing.",
            "Restore and erase",
        ),
    ),
    "drop": OperationSpec("CL", "Remove a table with all its data", plannable=True, tables="one", takes="nothing", act="drop"),
    "erase": OperationSpec(
        "UC",
        "Remove all data of a user, search for remains, and certify it",
        plannable=True,
        required={"user": _USER},
    ),
    "export": OperationSpec(
        "UE",
        "Copy all data of a user, as Delta tables with their history",
        queueable=True,
        plannable=True,
        tables="none",
        required={"user": _USER, "to": "the directory or URI to export to (`to`, as --to ./export)"},
    ),
    "import": OperationSpec("UI", "Write the rows of an export into the tables of a warehouse"),
    "move": OperationSpec(
        "MV",
        "Move a table to another storage, while reads and writes continue",
        queueable=True,
        plannable=True,
        tables="one",
        act="move",
        required={"to": "the storage to move to (`to`, as --to archive)"},
    ),
    "repair": OperationSpec(
        "RP",
        "Repair damaged write logs and tables, and report what was recovered and what is lost",
        plannable=True,
    ),
    "write": OperationSpec("WR", "Write rows straight into a table's Delta table, past the write log"),
    "ingest": OperationSpec("IN", "Take objects that were uploaded into the table of their pipeline, each once", tables="one"),
}
"""In the order in which the command line and the reference list them."""

QUEUEABLE: tuple[Operation, ...] = tuple(name for name, spec in SPECS.items() if spec.queueable)
PLANNABLE: tuple[Operation, ...] = tuple(name for name, spec in SPECS.items() if spec.plannable)
