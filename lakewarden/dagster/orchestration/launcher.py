"""Dagster's launcher, which also notices that a run has lost its process.

Dagster's own does not: after a restart or a kill, a run stays STARTED and keeps its slot until it exceeds its longest time.
With this one (`run_launcher` in dagster.yaml) the daemon's monitoring fails such a run within a minute, and retries it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

import dagster as dg

from lakewarden.dagster.alive import SESSION, last_beat, session_of
from lakewarden.dagster.instance_internals import (
    DAGSTER_EVENT_TYPES,
    CheckRunHealthResult,
    ConfigurableClassData,
    LaunchRunContext,
    WorkerStatus,
    cursor_key,
)
from lakewarden.dagster.jobs.runs import OPERATION

# Private, but their own: a key of ours would be another one as soon as Dagster renames its own.


def begin_reading(instance: dg.DagsterInstance) -> None:
    """Keeps a cursor at the end of the event log for each kind of event that has none. What fails from now on is seen."""
    keys = {cursor_key(kind) for kind in DAGSTER_EVENT_TYPES}
    missing = keys - instance.daemon_cursor_storage.get_cursor_values(keys).keys()
    if missing:
        end = instance.event_log_storage.get_maximum_record_id() or 0
        instance.daemon_cursor_storage.set_cursor_values(dict.fromkeys(missing, str(end)))


SILENT_SECONDS = 40.0
"""A process that does not beat for this long, four beats, is gone. By this process's clock: no others are compared."""

_REMEMBERED = 600.0


@dataclass(frozen=True)
class _Heard:
    """A beat, and since when it is the last one."""

    beat: str | None
    since: float


class Watch:
    """Judges runs by their beats. One for each process that monitors."""

    def __init__(self, session: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._session = session
        self._monotonic = monotonic
        self._heard: dict[str, _Heard] = {}

    def why_gone(self, run_id: str, beat: str | None, *, beats: bool) -> str | None:
        """Why the run's process is gone; None while it may exist.

        Args:
            beat: its last beat; None before its first.
            beats: whether such a run beats at all; others, which are not of this project, are gone for no reason here.
        """
        if beat is None and not beats:
            return None
        if beat and self._session and session_of(beat) not in ("", self._session):
            return "it belonged to a `lakewarden ui` that has ended"
        now = self._monotonic()
        self._heard = {run: heard for run, heard in self._heard.items() if now - heard.since < _REMEMBERED}
        heard = self._heard.get(run_id)
        if heard is None or heard.beat != beat:
            heard = self._heard[run_id] = _Heard(beat, now)
        silent = now - heard.since
        return f"it gave no sign of life for {silent:.0f} s" if silent >= SILENT_SECONDS else None


class WatchingRunLauncher(dg.DefaultRunLauncher):
    """Starts runs as `dg.DefaultRunLauncher` does, in the code servers, and knows which of them lost their process."""

    def __init__(self, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(inst_data)
        self._watch = Watch(os.environ.get(SESSION, ""))
        self._reads = False

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Mapping[str, object]) -> Self:
        return cls(inst_data)

    def launch_run(self, context: LaunchRunContext) -> None:
        if not self._reads:
            begin_reading(self._instance)
            self._reads = True
        super().launch_run(context)

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        beat = last_beat(self._instance, run.run_id)
        why = self._watch.why_gone(run.run_id, beat, beats=OPERATION in run.tags)
        if why is None:
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        if self._had_ended(run):
            return CheckRunHealthResult(WorkerStatus.SUCCESS)
        return CheckRunHealthResult(WorkerStatus.NOT_FOUND, f"the run's process is gone: {why}; what it had committed is kept")

    def _had_ended(self, run: dg.DagsterRun) -> bool:
        """Whether the run's last event is stored, and only its status was not when its process went; then it is now.

        Failed instead, it would stay so: there is no step for a retry.
        """
        for last in self._instance.all_logs(run.run_id, of_type=dg.DagsterEventType.RUN_SUCCESS):
            ended = datetime.fromtimestamp(last.timestamp, UTC)
            self._instance.run_storage.handle_run_event(run.run_id, last.get_dagster_event(), ended)
            return True
        return False
