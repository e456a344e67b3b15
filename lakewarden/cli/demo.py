"""The command `demo`: the main job on real data, told while it runs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from lakewarden.cli.context import invocation
from lakewarden.cli.output import Cell, Row, cell, emit, progress
from lakewarden.clock import from_millis
from lakewarden.demo.journal import Stage, Step

if TYPE_CHECKING:
    from lakewarden.delta.history import HistoryEntry
    from lakewarden.demo.story import Told


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    context: typer.Context,
    aircraft: int | None = typer.Option(None, min=1, help="Only about so many aircraft, picked evenly; all where not given."),
) -> None:
    """Run the main job on real data: every aircraft that left New York in 2013 is a tenant.

    Replaces the tables nyc.airlines, nyc.airports, nyc.planes and nyc.flights; whatever else is in the warehouse stays.
    """
    from lakewarden.demo.story import tell  # brings Delta and Arrow: not for the start of other commands
    from lakewarden.lakehouse import Lakehouse

    call = invocation(context)
    screen = Screen(silent=call.as_json)
    with Lakehouse.open(call.warehouse, progress=screen.advance) as lake:
        told = tell(lake, aircraft=aircraft, stage=screen)
    if call.as_json:
        emit([*_step_rows(told), *_table_rows(told), _summary_row(told, call.warehouse)], True)
    else:
        _print(told, call.warehouse)


class Screen(Stage):
    """A progress bar during each step, and a line after it."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent
        self._bar: Callable[[int, int], None] | None = None

    def advance(self, done: int, total: int) -> None:
        if self._bar:
            self._bar(done, total)

    @contextmanager
    def during(self, title: str) -> Iterator[None]:
        with progress(title) as self._bar:
            yield

    def after(self, step: Step) -> None:
        if not self._silent:
            figures = ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in step.figures.items())
            sys.stdout.write(f"{step.seconds:7.2f} s  {step.title}: {figures}{'; ' if figures else ''}{step.text}\n")
            sys.stdout.flush()


def _print(told: Told, warehouse: str) -> None:
    summary = _summary_row(told, warehouse)
    sys.stdout.write(f"\nThe tables, as read from the {warehouse} warehouse:\n")
    emit(_table_rows(told), False, columns=("table", "scopes", "rows", "files", "bytes"))
    sys.stdout.write(f"\nThe history of {told.aircraft}:\n")
    emit([_history_row(entry) for entry in told.history], False)
    sys.stdout.write(
        f"\n{told.without_tail_number:,} flights have no tail number and were left out.\n"
        f"{told.rows_flushed:,} rows and deletes written and flushed in {told.seconds_flushing:.1f} s, "
        f"{summary['rows_per_second']:,} a second; {told.seconds:.1f} s for everything.\n\n"
        f"See it in Dagster:  {summary['ui_command']}\n"
        f"Look at a history:  {summary['history_command']}\n"
    )


def _step_rows(told: Told) -> list[Row]:
    return [{"kind": "step", "title": one.title, "text": one.text, "seconds": one.seconds, **one.figures} for one in told.steps]


def _table_rows(told: Told) -> list[Row]:
    return [{"kind": "table", **_fields(one)} for one in told.tables]


def _history_row(entry: HistoryEntry) -> Row:
    moment = from_millis(int(entry.timestamp))
    return {
        "version": entry.version,
        "time": f"{moment:%Y-%m-%d %H:%M:%S}",
        "operation": entry.operation,
        "metrics": cell(entry.operation_metrics),
    }


def _summary_row(told: Told, warehouse: str) -> Row:
    """The figures of the whole, and what to type next: both commands name exactly this warehouse."""
    here = f"lakewarden --warehouse {shlex.quote(warehouse)}"
    return {
        "kind": "summary",
        "warehouse": warehouse,
        "aircraft": told.aircraft,
        "without_tail_number": told.without_tail_number,
        "rows_flushed": told.rows_flushed,
        "rows_per_second": round(told.rows_flushed / told.seconds_flushing),
        "seconds": told.seconds,
        "history": [cell(entry) for entry in told.history],
        "ui_command": f"{here} ui",
        "history_command": f"{here} history nyc.flights --user {told.aircraft}",
    }


def _fields(value: object) -> dict[str, Cell]:
    found = cell(value)
    assert isinstance(found, dict), "a dataclass becomes an object"
    return found
