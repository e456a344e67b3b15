"""The priority of a worker process: a long call steps back behind whatever else the machine does, a short one does not."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_BACK = 10
"""By `nice`, and only as far: the kernel gives such a process a tenth of what it gives another one."""


@dataclass
class Priority:
    """Of this process, which is alone in its process group: the kernel then changes all of its threads at once."""

    after: float = 1.0
    """Seconds of the processor that a call may take before it steps back."""
    back: bool = False
    """Whether the last call left the process behind the others, since only a privileged one may come forward again."""

    @contextmanager
    def of_a_call(self) -> Iterator[None]:
        front = os.getpriority(os.PRIO_PROCESS, 0)
        ended = threading.Event()
        watch = threading.Thread(target=self._watch, args=(ended,), name="priority", daemon=True)
        watch.start()
        try:
            yield
        finally:
            ended.set()
            watch.join()
            self._come_forward(front)

    def _watch(self, ended: threading.Event) -> None:
        until = time.process_time() + self.after
        while not ended.wait(max(until - time.process_time(), 0.0)):
            if time.process_time() >= until:
                self.back = True
                os.setpriority(os.PRIO_PGRP, 0, _BACK)
                return

    def _come_forward(self, front: int) -> None:
        if self.back:
            try:
                os.setpriority(os.PRIO_PGRP, 0, front)
            except PermissionError:
                return
            self.back = False
