"""A process of a test that has a JVM of Spark's, and may be killed at any moment."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_ROOT = Path(__file__).parents[2]


@dataclass
class SparkProcess:
    words: Sequence[str]
    """The module and its arguments."""
    log: Path
    """Of what it says on standard error, of all its lives."""
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> None:
        command = [sys.executable, "-W", "ignore", "-m", *self.words]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        pipe = subprocess.PIPE
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=_ROOT, env=environment, stdin=pipe, stdout=pipe, stderr=log, start_new_session=True
            )

    @property
    def pid(self) -> int:
        return self.running.pid

    @property
    def running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it was not started"
        return self._process

    def say(self, line: str) -> None:
        pipe = self.running.stdin
        assert pipe is not None
        pipe.write(f"{line}\n".encode())
        pipe.flush()

    def answer(self) -> str:
        """Waits for its next line."""
        pipe = self.running.stdout
        assert pipe is not None
        line = pipe.readline().decode()
        assert line, self.failure()
        return line.rstrip("\n")

    def answers_within(self, seconds: float) -> bool:
        """Whether it says a line by then; every one before has been taken."""
        pipe = self.running.stdout
        assert pipe is not None
        ready, _, _ = select.select([pipe], [], [], seconds)
        return bool(ready)

    def kill(self, *, jvm: bool = True) -> None:
        """Kills it if it runs.

        Args:
            jvm: together with its JVM; which otherwise goes on for as long as it takes to see that it is alone.
        """
        if self._process is None:
            return
        if jvm:
            os.killpg(self._process.pid, signal.SIGKILL)
        else:
            self._process.kill()
        self._process.communicate()
        self._process = None

    def failure(self) -> str:
        return f"{self.words} ended: {self.log.read_text(errors='replace')[-4000:]}"
