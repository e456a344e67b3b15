"""A run's sign of life, in Dagster's own storage: whoever monitors runs sees on any machine whether its process still exists."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import dagster as dg

from lakewarden.catalog.heartbeat import BeatThread

SESSION = "LAKEWARDEN_UI_SESSION"
"""Names the `lakewarden ui` that started this process, if one did (lakewarden/cli/dagster_home.py)."""

BEAT_SECONDS = 10.0


@contextmanager
def alive(instance: dg.DagsterInstance, run_id: str) -> Iterator[None]:
    """Beats inside the block, from a thread."""
    numbers = itertools.count()

    def beat() -> bool:
        from sqlalchemy.exc import SQLAlchemyError  # a run has it, for its storage; loading the definitions does not need it

        with suppress(SQLAlchemyError):  # the storage is busy or away: the next beat tells
            said = f"{os.environ.get(SESSION, '')} {next(numbers)}"
            instance.daemon_cursor_storage.set_cursor_values({key_of(run_id): said})
        return True

    with BeatThread(f"alive-{run_id[:8]}", beat, BEAT_SECONDS, first=0):
        yield


def last_beat(instance: dg.DagsterInstance, run_id: str) -> str | None:
    """The run's last beat; None before its first."""
    return instance.daemon_cursor_storage.get_cursor_values({key_of(run_id)}).get(key_of(run_id))


def session_of(beat: str) -> str:
    """The session of the process that beat; empty without one."""
    return beat.partition(" ")[0]


def key_of(run_id: str) -> str:
    return f"lakewarden/alive/{run_id}"
