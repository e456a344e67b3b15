"""Prints the events of a subscription as lines, and follows one until it is stopped."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from lakewarden.cli.output import Row, emit

if TYPE_CHECKING:
    from lakewarden.client import Lakehouse
    from lakewarden.tables.subscriptions.fold import Event


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
    with until_stopped(), lake.session(user=user, role=role).subscribe(text, interval=interval, pause=_pause) as events:
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


def _pause(seconds: float) -> None:
    """Waits, and notices when the reader of our pipe has closed it: without events, no write would fail."""
    poller = select.poll()
    poller.register(sys.stdout.fileno(), 0)
    if poller.poll(seconds * 1000):
        raise BrokenPipeError
