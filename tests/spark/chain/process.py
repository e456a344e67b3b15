"""One of the two streams of the chain: a process that dies with its JVM, and is started again with the same checkpoint."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

_ROOT = Path(__file__).parents[3]


@dataclass
class StreamProcess:
    role: str
    warehouse: str
    place: Path
    """Of checkpoints and what the processes say."""
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> None:
        """Starts it where its checkpoint is."""
        words = [sys.executable, "-W", "ignore", "-m", "tests.spark.chain.streams"]
        given = [self.role, self.warehouse, str(self.place / self.role)]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*words, *given], cwd=_ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )

    def wait(self, batches: int = 1) -> None:
        """Until the process has made so many."""
        pipe = self._running.stdout
        assert pipe is not None
        for _ in range(batches):
            assert pipe.readline(), self._failure()

    def die(self, moment: float) -> None:
        """Kills the process and its JVM so many seconds from now: in the middle of whatever it does then."""
        select.select([], [], [], moment)
        assert self._running.poll() is None, self._failure()
        self.kill()

    def kill(self) -> None:
        """The process and its JVM, if they run."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it was not started"
        return self._process

    @property
    def _log(self) -> Path:
        return self.place / f"{self.role}.log"

    def _failure(self) -> str:
        return f"stream {self.role} ended: {self._log.read_text(errors='replace')[-4000:]}"
