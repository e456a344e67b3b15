"""Which rows a read sees: those in the log, those in Delta, or both."""

from __future__ import annotations

from typing import Literal, get_args

from lakewarden.errors import InvalidArgument

Freshness = Literal["strong", "eventual", "oltp_only"]
"""`strong` sees every acknowledged write; `eventual` the Delta table as of the last flush; `oltp_only` the rows that are in the
write log and in no Delta table yet: of each key the newest, unless that is a delete.
"""

_EVERY: tuple[Freshness, ...] = get_args(Freshness)


def check_freshness(text: str) -> Freshness:
    """Raises InvalidArgument: there is no such freshness."""
    if text not in _EVERY:
        raise InvalidArgument(f"freshness {text!r} does not exist; read with {', '.join(map(repr, _EVERY))}")
    return text
