"""What is kept of rows that flushes have settled, for subscribers that come back. A pure decision, as `nextcut` is.

A chunk enters the history when it leaves the log (segments and carry), so of every chunk there is exactly one copy: in the
log, or in the history, or it was forgotten. What is forgotten is told by the highest `_seq` of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lakewarden.log.cut import Cut, Kept
from lakewarden.log.position import NOTHING
from lakewarden.log.segment import Header, RowRange

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Chunks = tuple[tuple[RowRange, ...], ...]
"""Chunks, those of one object beside each other."""


@dataclass(frozen=True)
class Leaving:
    """Settled chunks on their way out of the log; when they leave, as `Kept.left_at`."""

    left_at: int
    chunks: Chunks


@dataclass(frozen=True)
class History:
    """The history of the next cut."""

    kept: tuple[Kept, ...] = ()
    """Objects that stay as they are."""
    left: tuple[Leaving, ...] = ()
    """Chunks that it gets."""
    forgotten: int = NOTHING


def history_after(cut: Cut, left: Chunks, seconds: float, now: datetime | None) -> History:
    """The history when these chunks leave the log now; without `now` nothing is kept.

    Args:
        seconds: how long chunks are kept.
    """
    if now is None or seconds == 0:
        gone = [*(kept.last_seq for kept in cut.history), *(each.last_seq for part in left for each in part)]
        return History(forgotten=max([cut.forgotten, *gone]))
    since = _micros(now - timedelta(seconds=seconds))
    kept = tuple(each for each in cut.history if each.left_at >= since)
    gone = [each.last_seq for each in cut.history if each.left_at < since]
    return History(kept, (Leaving(_micros(now), left),) if left else (), max([cut.forgotten, *gone]))


def history_without(cut: Cut, left: Chunks, headers: Mapping[Kept, Header], user: str, now: datetime) -> History:
    """The history when these chunks leave the log and nothing of a user stays: objects with rows of theirs are made again.

    Args:
        headers: what lies in each object of `cut.history`.
    """
    theirs = {kept: header for kept, header in headers.items() if any(each.user == user for each in header.ranges)}
    leaving = [Leaving(_micros(now), left), *(Leaving(kept.left_at, (header.ranges,)) for kept, header in theirs.items())]
    others = [Leaving(each.left_at, _without(each.chunks, user)) for each in leaving]
    return History(
        tuple(kept for kept in headers if kept not in theirs), tuple(each for each in others if each.chunks), cut.forgotten
    )


def _without(chunks: Chunks, user: str) -> Chunks:
    left = (tuple(each for each in part if each.user != user) for part in chunks)
    return tuple(part for part in left if part)


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)
