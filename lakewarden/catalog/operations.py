"""What there is to know of each operation, in one table, and of the options that they take.

The command line, SQL, jobs, plans, Dagster and the reference are driven by it. What an operation does is in its procedure
(`maintenance.procedures`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypedDict

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
class Selection:
    """What an operation works on: tables by name (all where none is named), for every user or for one."""

    tables: tuple[str, ...] = ()
    user: str | None = None
    look: bool = False
    """Whether maintenance opens each scope, also those that the state knows to be quiet."""

    @property
    def parameters(self) -> dict[str, str]:
        """The selection as a job stores it."""
        user = {} if self.user is None else {"user": self.user}
        return {"tables": ",".join(self.tables)} | user | ({"look": "true"} if self.look else {})


def _shown(help: str, flag: str = "") -> dict[str, str]:
    """An option's text on the command line, and its flag where that is not its name."""
    return {"help": help, "flag": flag}


@dataclass(frozen=True)
class Request:
    """An operation as it was requested, with the options of all operations; `SPECS` says which of them each takes."""

    operation: Operation
    tables: tuple[str, ...] = ()
    """As `namespace.table`; all where none is named."""
    user: str | None = field(default=None, metadata=_shown("Only this user's scope."))
    version: int | None = field(default=None, metadata=_shown("The Delta version to go back to; on a USER table with --user."))
    timestamp: datetime | None = field(default=None, metadata=_shown("A time, ISO 8601; without an offset it is UTC."))
    discard_pending: bool = field(default=False, metadata=_shown("Drop the scope's pending rows instead of flushing them first."))
    retain_hours: float | None = field(
        default=None, metadata=_shown("Hours to keep removed files; below 168 needs --force.", "--retain")
    )
    force: bool = field(default=False, metadata=_shown("Allow a retention below 168 hours."))
    ignore_checks: bool = field(default=False, metadata=_shown("Include scopes that failed a check."))
    zorder: tuple[str, ...] = field(default=(), metadata=_shown("Columns to cluster by; repeat, or separate by commas."))
    look: bool = field(
        default=False, metadata=_shown("Open each scope, also those in which nothing is to do by what the state knows.")
    )
    deep: bool = field(default=False, metadata=_shown("Read every object under every storage to search for remains."))
    even_if_unknown: bool = field(
        default=False, metadata=_shown("Continue although nothing is known of the user: data may be left anyway.")
    )
    to: str | None = field(default=None, metadata=_shown("The storage to move to; or the directory or URI to export to."))
    restored: bool = field(default=False, metadata=_shown("The warehouse or its data was just restored from a backup."))
    where: str | None = field(
        default=None, metadata=_shown("Only the partitions for which this is true, as \"day = '2024-05-01'\".")
    )
    target_file_size: int | None = field(
        default=None, metadata=_shown("Bytes of the files that it writes, instead of the table's.")
    )
    ratio: float | None = field(
        default=None,
        metadata=_shown("Leave a file that is so many times larger than those to be merged with it; 0, the default: none."),
    )
    scheduled: bool = field(
        default=False, metadata=_shown("As a schedule does it: by the ratio of the table or the warehouse, and a part at a time.")
    )

    @property
    def selection(self) -> Selection:
        return Selection(self.tables, self.user, self.look)


class PlanOptions(TypedDict, total=False):
    """The fields of a `Request` by keyword."""

    user: str | None
    version: int | None
    timestamp: datetime | None
    discard_pending: bool
    retain_hours: float | None
    force: bool
    ignore_checks: bool
    zorder: tuple[str, ...]
    look: bool
    deep: bool
    even_if_unknown: bool
    to: str | None
    restored: bool
    where: str | None
    target_file_size: int | None
    ratio: float | None
    scheduled: bool


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
    options: frozenset[str] = frozenset()
    """The fields of a `Request` that it takes, besides its tables."""
    act: TableAct | None = None
    """The right that its SQL statement needs, for all scopes of a table; None when it has no statement."""
    own: bool = False
    """Whether the right to write is enough for the caller's own scope."""
    tables: Literal["any", "one", "none"] = "any"
    """How many tables a request names; `any` means all of them when it names none."""
    required: Mapping[str, str] = field(default_factory=dict)
    """Which of its options have to be given, and what each names."""
    command: Command | None = None
    """Its command; None where it has one of its own shape, or none."""
    procedure: str = ""
    """The module that does it; by default its own in `maintenance.procedures`."""


def _takes(*names: str) -> frozenset[str]:
    return frozenset(names)


_USER = "the user (`user`, as --user u_42)"
_EVERY: TableAct = "maintain every scope of"

SPECS: Mapping[Operation, OperationSpec] = {
    "flush": OperationSpec(
        "FL",
        "Move pending rows from the write log into the scopes' Delta tables",
        queueable=True,
        plannable=True,
        options=_takes("user"),
        act="flush",
        command=Command("skipped: no pending writes", "chat.messages --user u_42"),
    ),
    "compact": OperationSpec(
        "CO",
        "Fold each scope's newest small files into one (the tail rule of Storage Tiers)",
        queueable=True,
        plannable=True,
        options=_takes("user", "look", "where", "ratio", "scheduled"),
        act="compact",
        command=Command("skipped: no scopes", "chat.messages"),
    ),
    "evict": OperationSpec(
        "SE",
        "Remove STREAM rows that have expired or exceed their scope's size",
        queueable=True,
        plannable=True,
        options=_takes("user"),
        act="evict",
        command=Command(
            "skipped: nothing has expired", "chat.typing --dry-run", "Show what would be removed, and remove nothing."
        ),
    ),
    "optimize": OperationSpec(
        "OP",
        "Pack each scope's small files to the target size, or cluster them by columns",
        queueable=True,
        plannable=True,
        options=_takes("user", "zorder", "look", "where", "target_file_size", "ratio", "scheduled"),
        act=_EVERY,
        own=True,
        command=Command("skipped: no scopes", "chat.messages --zorder sent_at"),
    ),
    "vacuum": OperationSpec(
        "VA",
        "Delete files that no version inside the retention needs",
        plannable=True,
        options=_takes("user", "retain_hours", "force", "ignore_checks", "look"),
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
        options=_takes("user", "version", "timestamp", "discard_pending"),
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
    "drop": OperationSpec("CL", "Remove a table with all its data", plannable=True, tables="one", act="drop"),
    "erase": OperationSpec(
        "UC",
        "Remove all data of a user, search for remains, and certify it",
        plannable=True,
        options=_takes("user", "deep", "even_if_unknown"),
        required={"user": _USER},
    ),
    "export": OperationSpec(
        "UE",
        "Copy all data of a user, as Delta tables with their history",
        queueable=True,
        plannable=True,
        options=_takes("user", "to"),
        tables="none",
        required={"user": _USER, "to": "the directory or URI to export to (`to`, as --to ./export)"},
    ),
    "import": OperationSpec("UI", "Write the rows of an export into the tables of a warehouse"),
    "move": OperationSpec(
        "MV",
        "Move a table to another storage, while reads and writes continue",
        queueable=True,
        plannable=True,
        options=_takes("to"),
        tables="one",
        act="move",
        required={"to": "the storage to move to (`to`, as --to archive)"},
    ),
    "repair": OperationSpec(
        "RP",
        "Repair damaged write logs and tables, and report what was recovered and what is lost",
        plannable=True,
        options=_takes("user", "restored"),
        procedure="lakewarden.maintenance.repair.procedure",
    ),
    "write": OperationSpec("WR", "Write rows straight into a table's Delta table, past the write log"),
    "ingest": OperationSpec("IN", "Take objects that were uploaded into the table of their pipeline, each once", tables="one"),
}
"""In the order in which the command line and the reference list them."""

QUEUEABLE: tuple[Operation, ...] = tuple(name for name, spec in SPECS.items() if spec.queueable)
PLANNABLE: tuple[Operation, ...] = tuple(name for name, spec in SPECS.items() if spec.plannable)
