"""How long a vacuum leaves what is superfluous."""

from __future__ import annotations

from datetime import datetime, timedelta

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.options import MAX_HOURS
from lakewarden.errors import InvalidArgument

SAFE_HOURS = 168
"""A week: below it, a reader of an older version or a slow writer may lose files while it runs."""

_LONGEST = 24 * 365 * 1000
"""Hours; more than this retains everything, and would overflow a `datetime`."""


def require_retention(subject: Scope | TableName, hours: float, *, force: bool) -> None:
    """Raises InvalidArgument: the retention is not a number of hours, or below `SAFE_HOURS` and not forced."""
    if not 0 <= hours <= MAX_HOURS:
        raise InvalidArgument(f"vacuum {subject}: a retention of {hours:g} hours is not valid; give one from 0 to {MAX_HOURS}")
    if hours < SAFE_HOURS and not force:
        raise InvalidArgument(
            f"vacuum {subject}: a retention of {hours:g} hours is below {SAFE_HOURS}: files that readers and"
            f" restores still use would be deleted. Retain {SAFE_HOURS} hours or more, or force it"
        )


def horizon_of(hours: float, now: datetime, latest: datetime | None) -> datetime:
    """The moment before which what was superfluous is deleted; not after `latest`."""
    # A plan that is applied later must not delete more than it showed.
    return min(now - timedelta(hours=min(hours, _LONGEST)), latest or now)
