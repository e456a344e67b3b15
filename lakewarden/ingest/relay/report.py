"""What a relay did, and how far behind it is."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.base.scope import TableName


@dataclass(frozen=True)
class RelayReport:
    """One look of a relay at its table."""

    table: TableName
    topic: str
    messages: int
    """Published by this look."""
    seq: int | None
    """Up to which the topic follows the table; None until it has all rows of a full start."""
    lag: int
    """Writes to the table that are not in the topic yet."""
    at: str
    """When the topic moved last: ISO 8601 in UTC."""
