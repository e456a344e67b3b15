"""The process that runs a job, by the name that the job log keeps: `host:process id`."""

from __future__ import annotations

import os
import platform


def this_node() -> str:
    """Returns the name of this process."""
    return f"{platform.node()}:{os.getpid()}"


def has_ended(node: str | None) -> bool:
    """Returns whether a process of this machine has ended; False for another machine's process, which is not visible here."""
    host, _, process = (node or "").rpartition(":")
    if host != platform.node() or not process.isdigit():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False  # another user's
    return False
