"""A long call of a worker process steps back behind others; a short one, and the next one, do not."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading

import pytest

from lakewarden.base.worker_child import Priority

_PROGRAM = """
import json, os, sys, threading, time
from lakewarden.base.worker_child import Priority

def nices():
    return sorted({os.getpriority(os.PRIO_PROCESS, int(thread)) for thread in os.listdir("/proc/self/task")})

def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

idle = threading.Event()
threading.Thread(target=idle.wait, daemon=True).start()
priority, seen = Priority(after=0.2), []
with priority.of_a_call():
    time.sleep(0.5)  # waits, and takes nothing of the processor
    seen.append((nices(), priority.back))
with priority.of_a_call():
    while not priority.back:
        work(0.01)
    work(0.05)
    seen.append((nices(), priority.back))
seen.append((nices(), priority.back))
print(json.dumps(seen))
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are listed on Linux alone")  # noqa: PTH112
def test_all_threads_step_back_after_a_while_and_come_forward_after_the_call() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, process_group=0, check=True)
    waited, worked, after = json.loads(done.stdout)
    front = os.getpriority(os.PRIO_PROCESS, 0)
    assert waited == [[front], False]
    assert worked == [[10], True]
    assert after in ([[front], False], [[10], True]), "only a privileged process may come forward"
    assert os.getpriority(os.PRIO_PROCESS, 0) == front


def test_a_process_that_may_not_come_forward_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    stepped = threading.Event()

    def set_priority(_: int, __: int, nice: int) -> None:
        given.append(nice)
        if len(given) > 1:
            raise PermissionError(errno.EACCES, "Permission denied")
        stepped.set()

    monkeypatch.setattr(os, "setpriority", set_priority)
    priority = Priority(after=0.0)
    with priority.of_a_call():
        stepped.wait()
    assert priority.back
    assert given == [10, os.getpriority(os.PRIO_PROCESS, 0)]
