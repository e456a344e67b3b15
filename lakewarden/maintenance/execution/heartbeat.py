"""A running job's heartbeat: shows its progress, and notices when the job was killed or taken over."""

from __future__ import annotations

import threading
from types import TracebackType

from lakewarden.catalog.state.job import Job
from lakewarden.catalog.state.job_log import JobLog
from lakewarden.errors import Conflict, StorageUnavailable, Terminal


class JobStopped(Terminal):
    """The job is no longer this process's: it was killed, or another took it over."""

    code = "CONFLICT"


class Heartbeat:
    """While it is entered, a thread writes the job's next state at a fixed interval in seconds.

    It has its own thread because one large scope may take longer than a runner may be silent.
    """

    def __init__(self, jobs: JobLog, job: Job, seconds: float) -> None:
        self._jobs = jobs
        self._seconds = seconds
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._lost = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"heartbeat of {job.job_id}", daemon=True)
        self._done = self._total = 0
        self.job = job
        """The last state that this process wrote; to be read after the heartbeat."""

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    def advance(self, done: int, total: int) -> None:
        """Counts finished scopes (`engine.Progress`).

        Raises:
            Stopped: the job is no longer this process's, so no further scope is started.
        """
        with self._lock:
            self._done, self._total = (self._done + done, total) if total == self._total else (done, total)
        if self._lost.is_set():
            raise JobStopped(f"job {self.job.job_id} was killed or taken over after {self._progress()}")

    def _progress(self) -> str:
        return f"{self._done} of {self._total} scopes"

    def _beat(self) -> None:
        while not self._ended.wait(self._seconds):
            try:
                self.job = self._jobs.beat(self.job, self._progress() if self._total else "")
            except StorageUnavailable:
                continue  # the next one may get through; if none does, the job counts as abandoned
            except Conflict:
                self._lost.set()
                return
