"""The process that runs a job, by the name that the job log keeps: `host:process id`."""

from __future__ import annotations

import os
import platform


def this_node() -> str:
    """The name of this process."""
    return f"{platform.node()}:{os.getpid()}"


def has_ended(node: str | None) -> bool:
    """Whether a process of this machine is gone; False for one of another machine, which cannot be seen from here."""
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
