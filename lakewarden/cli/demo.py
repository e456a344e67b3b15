"""The command `demo`: the main workload on real data, with a report of each step."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from lakewarden.base.settings import load_settings
from lakewarden.cli.context import invocation
from lakewarden.cli.output import Row, cell, emit, progress, row_of
from lakewarden.spark.java import require_java

if TYPE_CHECKING:
    from lakewarden.client.demo_story import DemoResult, Step
    from lakewarden.delta.reading.history import HistoryEntry


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    context: typer.Context,
    aircraft: int | None = typer.Option(None, min=1, help="About this many aircraft, picked evenly; by default all."),
) -> None:
    """Run the main workload on real data: every aircraft that left New York in 2013 is a tenant.

    Replaces the tables nyc.airlines, nyc.airports, nyc.planes, nyc.flights and nyc.flights_by_day; everything else in the
    warehouse stays.
    """
    from lakewarden.client import Lakehouse
    from lakewarden.client.demo_story import tell  # imports Delta and Arrow, which other commands do not need

    call = invocation(context)
    if aircraft is None or aircraft >= load_settings(os.environ).flush.in_process_below:
        require_java()  # before a warehouse is made, and rows that the flush would leave in its log
    screen = Screen(silent=call.as_json)
    with Lakehouse.open(call.warehouse, progress=screen.advance) as lake:
        story = tell(lake, aircraft=aircraft, stage=screen)
    if call.as_json:
        emit([*_step_rows(story), *_table_rows(story), _summary_row(story, call.warehouse)], True)
    else:
        _print(story, call.warehouse)


class Screen:
    """A progress bar during each step, and a line after it (`demo_story.Stage`)."""

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


def _print(story: DemoResult, warehouse: str) -> None:
    summary = _summary_row(story, warehouse)
    sys.stdout.write(f"\nThe tables, as read from the {warehouse} warehouse:\n")
    emit(_table_rows(story), False, columns=("table", "scopes", "rows", "files", "bytes"))
    sys.stdout.write(f"\nThe history of {story.aircraft}:\n")
    emit([_history_row(entry) for entry in story.history], False)
    sys.stdout.write(
        f"\n{story.without_tail_number:,} flights have no tail number and were left out.\n"
        f"{story.rows_flushed:,} rows and deletes written and flushed in {story.seconds_flushing:.1f} s, "
        f"{summary['rows_per_second']:,} a second; {story.seconds:.1f} s for everything.\n\n"
        f"See it in Dagster:  {summary['ui_command']}\n"
        f"Look at a history:  {summary['history_command']}\n"
    )


def _step_rows(story: DemoResult) -> list[Row]:
    return [{"kind": "step", "title": one.title, "text": one.text, "seconds": one.seconds, **one.figures} for one in story.steps]


def _table_rows(story: DemoResult) -> list[Row]:
    return [{"kind": "table", **row_of(one)} for one in story.tables]


def _history_row(entry: HistoryEntry) -> Row:
    return {
        "version": entry.version,
        "time": entry.timestamp,
        "operation": entry.operation,
        "metrics": cell(entry.operation_metrics),
    }


def _summary_row(story: DemoResult, warehouse: str) -> Row:
    """The totals, and two commands to try next, both for exactly this warehouse."""
    here = f"lakewarden --warehouse {shlex.quote(warehouse)}"
    return {
        "kind": "summary",
        "warehouse": warehouse,
        "aircraft": story.aircraft,
        "without_tail_number": story.without_tail_number,
        "rows_flushed": story.rows_flushed,
        "rows_per_second": round(story.rows_flushed / story.seconds_flushing),
        "seconds": story.seconds,
        "history": [cell(entry) for entry in story.history],
        "ui_command": f"{here} ui",
        "history_command": f"{here} history nyc.flights --user {story.aircraft}",
    }
