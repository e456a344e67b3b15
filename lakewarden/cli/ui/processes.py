"""Dagster's processes: started in a session of their own, found again by their environment, and stopped, all of them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from psutil import Process

SESSION = "LAKEWARDEN_UI_SESSION"
"""Names the `ui` that started a process. Its children inherit it, so it also finds them after a `kill -9` of their parents,
and it tells the launcher that a run of an earlier session has lost its process (lakewarden/dagster/orchestration/launcher.py)."""

_STOPS_WITHIN = 30.0
_LEFT_STOPS_WITHIN = 10.0


@contextmanager
def running(command: Sequence[str], environment: Mapping[str, str], session: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Starts Dagster in its own session: Ctrl-C reaches only this process, which passes it on once."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM acts like Ctrl-C
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, env={**environment, SESSION: session}, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        _stop(process, session)


def _stop(process: subprocess.Popen[bytes], session: str) -> None:
    """Stops Dagster's processes, and kills those that are left after a while."""
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_STOPS_WITHIN)
    with suppress(ProcessLookupError):  # all of them have ended, as intended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    end_session(session)  # runs have sessions of their own where a JVM or a debugger makes one


def end_session(session: str) -> int:
    """Ends every process that a `ui` started, and returns how many there were."""
    import psutil  # only this command needs it

    left = list(_of_session(session))
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    for process in psutil.wait_procs(left, timeout=_LEFT_STOPS_WITHIN)[1]:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left)
    return len(left)


def _of_session(session: str) -> Iterator[Process]:
    import psutil

    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended, or is another user's
            if process.environ().get(SESSION) == session:
                yield process
