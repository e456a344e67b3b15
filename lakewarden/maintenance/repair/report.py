"""The report of a repair: what it found and did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakewarden.base.scope import Scope
from lakewarden.catalog.report import Fault, Outcome
from lakewarden.catalog.state.job import JobStatus
from lakewarden.log.position import NOTHING


@dataclass(frozen=True)
class UncertainWriter:
    """A writer whose writes may be missing or repeat: it stops until it is resumed (`log.once`).

    `name`: a pipeline's id, `stream/<stream id>`, `kafka/<topic id>/<partition>`, or `*` for all that are not known; of a table
    whose rows come through its write log, the digest of such a name. `number`: of its last write; None where it is not known.
    """

    name: str
    number: int | None
    uploads: tuple[str, ...] = ()
    """Objects of a pipeline that count as taken and whose rows are gone, the first ones."""


@dataclass(frozen=True)
class RepairReport:
    """One scope, or the write log, the floors or the ledger of one table (`scope.user` None, `subject` "log", "floor",
    "columns" or "ledger"); one user's rows in the write log (`subject` "log"); or a storage that is away ("storage"), with one of
    its tables.

    `outcome`: `skipped` where nothing was wrong, `planned` in a dry run, `done`, or `failed`.
    """

    scope: Scope
    outcome: Outcome
    subject: str = "scope"
    reason: str = ""
    """What was wrong, and what was done about it."""
    put_aside: tuple[str, ...] = ()
    """Objects that were moved aside: their new names, relative to the scope (or the log)."""
    rows_recovered: int = 0
    """How many rows readers see again."""
    rows_quarantined: int = 0
    """Rows that were found but may have been deleted: they are in a file under `put_aside`."""
    rows_lost: int | None = 0
    """Rows that were acknowledged and were not found; None where their number is not known."""
    version: int | None = None
    """The scope's Delta version after the repair."""
    watermark: int = NOTHING
    """Its watermark, `NOTHING` where it has none."""
    rows: int = 0
    """How many rows it has."""
    writers_uncertain: tuple[UncertainWriter, ...] = ()
    """Writers not all of whose rows are back."""
    fault: Fault | None = None
    plan_id: str = ""
    """The plan that a dry run made."""

    def ended(self, outcome: Outcome) -> RepairReport:
        return replace(self, outcome=outcome)

    def failed(self, fault: Fault) -> RepairReport:
        return replace(self, outcome="failed", reason=fault.message, fault=fault)


def outcome_of(found: Sequence[RepairReport]) -> tuple[JobStatus, str]:
    """The job's status, and the reports in one line."""
    counts = Counter(one.outcome for one in found)
    rows = sum(one.rows_recovered for one in found)
    message = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    return ("failed" if counts["failed"] else "completed"), f"{message}; {rows} rows came back"
