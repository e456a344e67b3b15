"""Which rows a read sees: those in the log, those in Delta, or both."""

from __future__ import annotations

from typing import Literal, cast, get_args

from lakewarden.errors import InvalidArgument

Freshness = Literal["strong", "eventual", "oltp_only"]
"""`strong` sees every acknowledged write; `eventual` the Delta table as of the last flush; `oltp_only` the rows that are in the
write log and in no Delta table yet: of each key the newest, unless that is a delete.
"""


def check_freshness(text: str) -> Freshness:
    """Raises:
    InvalidArgument: there is no such freshness.
    """
    if text not in get_args(Freshness):
        raise InvalidArgument(f"freshness {text!r} does not exist; read with {', '.join(map(repr, get_args(Freshness)))}")
    return cast("Freshness", text)
