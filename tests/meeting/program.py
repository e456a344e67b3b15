"""A program of the meeting, which is killed with all of its group, and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

_LAKEWARDEN = str(Path(sys.executable).with_name("lakewarden"))
_ROOT = Path(__file__).parents[2]
_LAST_WORDS = 2000
_LOOK_EVERY = 0.2


@dataclass
class Program:
    name: str
    words: Sequence[str]
    log: Path
    """What it says, in all of its lives."""
    matures: float
    """Seconds that it lives at least, or it would do nothing between two kills."""
    environment: Mapping[str, str]
    kills: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _started: float = field(default=0.0, init=False)

    @classmethod
    def lakewarden(cls, name: str, words: Sequence[str], place: Path, matures: float, environment: Mapping[str, str]) -> Program:
        return cls(name, [_LAKEWARDEN, *words], place / f"{name}.log", matures, environment)

    @classmethod
    def module(cls, name: str, words: Sequence[str], place: Path, matures: float, environment: Mapping[str, str]) -> Program:
        return cls(name, [sys.executable, "-W", "ignore", "-m", *words], place / f"{name}.log", matures, environment)

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.words, cwd=_ROOT, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        self._started = time.monotonic()

    @property
    def mature(self) -> bool:
        return time.monotonic() - self._started >= self.matures

    @property
    def ended(self) -> str:
        """What it said last, where it ended by itself."""
        if self._process is None or self._process.poll() is None:
            return ""
        said = self.log.read_text(errors="replace")[-_LAST_WORDS:]
        return f"{self.name} ended with {self._process.returncode}: {said}"

    def wait_for(self, words: str) -> None:
        """Until it has said them, in any of its lives, or has ended."""
        while words not in self.log.read_text(errors="replace") and not self.ended:
            time.sleep(_LOOK_EVERY)

    def kill(self) -> None:
        """It and its group, if it runs; processes with a session of their own are left, as orphans."""
        if self._process is not None:
            with suppress(ProcessLookupError):  # it has ended
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


def kill_orphans(variable: str, value: str) -> None:
    """Kills the processes that have this in their environment, whoever started them."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(variable) == value:
                process.kill()
