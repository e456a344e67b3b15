"""Prints the results of commands: a table for people, or one JSON list of objects for programs."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from lakewarden.base.quantities import by_name, lasting
from lakewarden.base.scope import Scope, TableName
from lakewarden.errors import InvalidArgument

if TYPE_CHECKING:
    from lakewarden.client import Lakehouse
    from lakewarden.tables.changes.log_reader import Event


Cell = str | int | float | bool | datetime | None | Sequence["Cell"] | Mapping[str, "Cell"]
Row = Mapping[str, Cell]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Characters that would break a table's line or control the terminal: ids and rows are untrusted."""


def cell(value: object) -> Cell:
    """Converts any value of a report to what can be printed: names as text, dataclasses as objects."""
    match value:
        case None | bool() | int() | float() | str() | datetime():
            return value
        case Scope() | TableName():
            return str(value)
        case Mapping():
            return {str(key): cell(one) for key, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return [cell(one) for one in value]
        case _ if is_dataclass(value):
            return {field.name: cell(getattr(value, field.name)) for field in fields(value)}
        case _:
            return str(value)


def row_of(value: object) -> Row:
    """A dataclass or mapping as one object."""
    found = cell(value)
    assert isinstance(found, dict), "a dataclass becomes an object"
    return found


def emit(rows: Sequence[Row], as_json: bool, *, empty: str = "nothing", columns: Sequence[str] | None = None) -> None:
    """Prints the rows. `columns` picks those of the table form; JSON always has all. Times are in UTC, ISO 8601 in JSON.
    In the table form, bytes and ages have a unit."""
    if as_json:
        sys.stdout.writelines(json_list(rows))
        return
    if not rows:
        sys.stdout.write(f"{empty}\n")
        return
    from rich.console import Console  # takes a tenth of a second, which JSON and other commands do not need
    from rich.table import Table as Grid

    names = list(columns or rows[0])
    grid = Grid(*names, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        grid.add_row(*(_text(row.get(name), name) for name in names))
    width = None if sys.stdout.isatty() else 1_000  # piped output is not folded: programs and `grep` read whole lines
    Console(width=width, highlight=False, markup=False).print(grid)


def json_list(rows: Iterable[Row]) -> Iterator[str]:
    """The parts of a JSON list of them, in one line."""
    begun = False
    for row in rows:
        yield ", " if begun else "["
        yield json.dumps(row, ensure_ascii=False, default=_iso)
        begun = True
    yield "]\n" if begun else "[]\n"


def write_whole(out: Path, parts: Iterable[str]) -> None:
    """Writes a text, or the parts of one, whole or not at all: collectors and browsers read the file at any time.

    Raises:
        InvalidArgument: there is no such directory, or it cannot be written.
    """
    place = Path(os.path.realpath(out))  # what a link leads to
    beside = place.parent / f".{place.name}.{os.getpid()}"
    if place.exists() and not place.is_file():  # root would replace a device
        raise InvalidArgument(f"cannot write {out}: it is no file")
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.writelines(parts)
        beside.replace(place)
    except OSError as error:
        raise InvalidArgument(f"cannot write {out}: {error.strerror}; name a file in a directory that exists") from error
    finally:
        beside.unlink(missing_ok=True)


def printable(text: str) -> str:
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def _iso(value: object) -> str:
    assert isinstance(value, datetime), "all other cells are JSON's own"
    return value.astimezone(UTC).isoformat(timespec="microseconds")


def _text(value: Cell, name: str = "") -> str:
    """What people read; JSON has the numbers as they are."""
    match value:
        case None:
            return ""
        case int() | float() if name.endswith("_age"):
            return lasting(value)
        case int():
            return by_name(name, value)
        case datetime():
            return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
        case dict():
            return " ".join(f"{key}={_text(one, key)}" for key, one in value.items())
        case list():
            return ", ".join(_text(one) for one in value)
        case str():
            return printable(value)
        case _:
            return str(value)


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yields `advance(done, total)`; a bar on a terminal's standard error, nothing when piped."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console  # as above
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # else what is printed meanwhile would come out of the standard error, where only that is a terminal
    on_terminal = sys.stdout.isatty()
    with Progress(*columns, console=console, transient=True, redirect_stdout=on_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, total=total, advance=done)


# Prints the events of a subscription as lines, and follows one until it is stopped.
def event_row(event: Event) -> Row:
    from lakewarden.base.json_values import json_row  # imports Arrow, which a command that only prints its help does not need

    return {"kind": event.kind, "seq": event.seq, "row": json_row(event.row)}


def write_events(events: Iterable[Event], *, as_json: bool) -> None:
    """Prints one JSON object a line, or one table."""
    rows = [event_row(event) for event in events]
    if as_json:
        sys.stdout.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    else:
        emit(rows, False, empty="no rows", columns=("kind", "seq", "row"))
    sys.stdout.flush()


def follow(lake: Lakehouse, text: str, user: str, role: str, interval: float) -> None:
    """Writes each event as a line of JSON as it comes. Ctrl-C, SIGTERM and a closed pipe end it cleanly.

    Raises:
        LakewardenError: as `Lakehouse.subscribe` and `Subscription.poll`.
    """
    with until_stopped(), lake.session(user=user, role=role).subscribe(text, interval=interval, pause=pause) as events:
        for event in events:
            write_events([event], as_json=True)


@contextmanager
def until_stopped() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the flush at exit then writes nowhere, without an error
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def pause(seconds: float) -> None:
    """Waits, and notices when the reader of our pipe has closed it: without events, no write would fail."""
    poller = select.poll()
    poller.register(sys.stdout.fileno(), 0)
    if poller.poll(seconds * 1000):
        raise BrokenPipeError
