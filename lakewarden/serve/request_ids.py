"""The ids of requests, by which the server's log, the audit log and jobs name them."""

from __future__ import annotations

import re

from lakewarden.base.clock import NewId

_GIVEN = re.compile(r"[0-9a-fA-F-]{8,64}")
"""A client's own id: a UUID or the id of a trace. The audit log keeps it, so it must not hold a user's name."""


def request_id_of(given: str, new_id: NewId) -> str:
    """The client's own id, where it sent one that can be kept; else a new one."""
    return given if _GIVEN.fullmatch(given) else new_id()
