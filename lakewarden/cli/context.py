"""The context that all commands share: the warehouse, and how to print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import typer

from lakewarden.catalog.report import ScopeReport, check_done
from lakewarden.cli.output import Row, cell, emit, progress
from lakewarden.client import Lakehouse
from lakewarden.maintenance.engine import silent

if TYPE_CHECKING:
    from lakewarden.maintenance.plans.value import Plan

_SHORT_SECONDS = 10.0
"""A command that ends sooner is not in `system.cluster`, and requests nothing for it."""

DEFAULT_WAREHOUSE = "./warehouse"


class OutputFormat(StrEnum):
    table = "table"
    json = "json"


@dataclass(frozen=True)
class Invocation:
    """The global options of one command."""

    warehouse: str
    as_json: bool
    create: bool = False
    """Make the warehouse if it does not exist, whatever the command."""

    @contextmanager
    def lake(self, title: str, *, create: bool = False, bar: bool = True) -> Iterator[Lakehouse]:
        """Opens the warehouse, with a progress bar named `title` while it works.

        Args:
            bar: false where the command has a bar of its own.
            create: the command may be the first of a warehouse, and makes it.

        Raises:
            NotFound: it does not exist, and neither the command nor the caller wants it made.
        """
        create = create or self.create
        with (
            progress(title) if bar else nullcontext(silent) as advance,
            Lakehouse.open(self.warehouse, progress=advance, create=create) as lake,
            lake.noted("command", title, after=_SHORT_SECONDS),
        ):
            yield lake

    def emit(self, rows: Sequence[Row], *, empty: str, columns: Sequence[str] | None = None) -> None:
        emit(rows, self.as_json, empty=empty, columns=columns)


def invocation(context: typer.Context) -> Invocation:
    found = context.find_object(Invocation)
    assert found is not None, "the application's callback creates it before any command runs"
    return found


def split_names(options: Sequence[str]) -> list[str]:
    """The names of an option that may be repeated, or list several separated by commas."""
    return [name.strip() for option in options for name in option.split(",") if name.strip()]


def report_row(report: ScopeReport) -> Row:
    """A report as one flat JSON object: the scope as table and user, the fault as code and message."""
    state = report.state
    return {
        "table": str(report.scope.table),
        "user": report.scope.user,
        "operation": report.operation,
        "outcome": report.outcome,
        "reason": report.reason,
        "version": report.version,
        "rows": state.rows if state else None,
        "files": state.files if state else None,
        "bytes": state.bytes if state else None,
        "parameters": cell(report.parameters),
        "metrics": cell(report.metrics),
        "paths": list(report.files),
        "error": None if report.fault is None else {"code": report.fault.code, "message": report.fault.message},
        "uri": report.uri,
        "plan_id": report.plan_id or None,
    }


def planned(plan: Plan) -> list[ScopeReport]:
    """What a plan would do, as its dry run says."""
    return [line.planned(plan.operation, plan.plan_id) for line in plan.scopes]


def emit_reports(call: Invocation, reports: Sequence[ScopeReport], *, empty: str) -> None:
    """Prints one line for each scope, then fails if any scope did.

    Raises:
        ScopesFailed: a scope failed; it has the code of the first fault.
    """
    shown = ("table", "user", "outcome", "version", "rows", "files", "metrics", "reason")
    planned = ("plan_id",) if any(report.outcome == "planned" for report in reports) else ()
    call.emit([report_row(report) for report in reports], empty=empty, columns=shown + planned)
    check_done(reports)
