"""One of the two streams of the chain: a process that dies with its JVM, and is started again with the same checkpoint."""

from __future__ import annotations

import select
from dataclasses import dataclass, field
from pathlib import Path

from tests.spark.process import SparkProcess


@dataclass
class StreamProcess:
    role: str
    warehouse: str
    place: Path
    """Of checkpoints and what the processes say."""
    _process: SparkProcess = field(init=False)

    def __post_init__(self) -> None:
        words = ["tests.spark.chain.streams", self.role, self.warehouse, str(self.place / self.role)]
        self._process = SparkProcess(words, self.place / f"{self.role}.log")

    def start(self) -> None:
        """Starts it where its checkpoint is."""
        self._process.start()

    def wait(self, batches: int = 1) -> None:
        """Until the process has made so many."""
        for _ in range(batches):
            self._process.answer()

    def die(self, moment: float) -> None:
        """Kills the process and its JVM so many seconds from now: in the middle of whatever it does then."""
        select.select([], [], [], moment)
        assert self._process.running.poll() is None, self._process.failure()
        self.kill()

    def kill(self) -> None:
        """The process and its JVM, if they run."""
        self._process.kill()
