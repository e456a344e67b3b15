"""Decides which settled rows are kept for subscribers that reconnect. A pure decision, like `next_cut`.

A chunk enters the history when it leaves the log (segments and carry), so of every chunk there is exactly one copy: in the
log, or in the history, or it was forgotten. The highest `_seq` that was forgotten is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewarden.base.clock import to_micros
from lakewarden.log.chunk import RowRange
from lakewarden.log.objects.cut import HistoryObject, LogCut
from lakewarden.log.objects.segments.header import Header, highest_seq, total_bytes, without
from lakewarden.log.position import NOTHING

Chunks = tuple[Sequence[RowRange], ...]
"""Chunks, those of one object beside each other."""


JOINED = 32
"""Small objects that are made one: a table that is flushed every second would have 3,600 of them."""

SMALL = 1 << 20
"""Bytes below which an object is small: larger ones are not worth the copy."""


@dataclass(frozen=True)
class Leaving:
    """Chunks on their way into the history; when they left the log, as `HistoryObject.left_at`."""

    left_at: int
    chunks: Chunks
    joined: bool = False

    @property
    def small(self) -> bool:
        return not self.joined and sum(map(total_bytes, self.chunks)) < SMALL


@dataclass(frozen=True)
class History:
    """The history of the next cut."""

    kept: tuple[HistoryObject, ...] = ()
    """Objects that stay as they are."""
    left: tuple[Leaving, ...] = ()
    """Chunks that it gets."""
    joined: tuple[HistoryObject, ...] = ()
    """Objects that it gets as one."""
    forgotten: int = NOTHING


def history_after(cut: LogCut, left: Chunks, seconds: float, now: datetime | None) -> History:
    """The history when these chunks leave the log now; without `now` nothing is kept.

    Args:
        seconds: how long chunks are kept.
    """
    if now is None or seconds == 0:
        gone = [*(kept.last_seq for kept in cut.history), *map(highest_seq, left)]
        return History(forgotten=max([cut.forgotten, *gone]))
    since = to_micros(now - timedelta(seconds=seconds))
    young = tuple(each for each in cut.history if each.left_at >= since)
    joined = _joined(young, seconds) if left else ()
    gone = [each.last_seq for each in cut.history if each.left_at < since]
    kept = tuple(each for each in young if each not in joined)
    return History(kept, (Leaving(to_micros(now), left),) if left else (), joined, max([cut.forgotten, *gone]))


def _joined(kept: Sequence[HistoryObject], seconds: float) -> tuple[HistoryObject, ...]:
    """The oldest small objects, if they are many and left at about the same time: together they go when the last one does."""
    small = tuple(each for each in kept if each.small)[:JOINED]
    if len(small) < JOINED or small[-1].left_at - small[0].left_at > seconds * 1_000_000 / 8:
        return ()
    return small


def history_without(cut: LogCut, left: Chunks, headers: Mapping[HistoryObject, Header], user: str, now: datetime) -> History:
    """The history when these chunks leave the log and nothing of a user stays: objects with rows of theirs are made again.

    Args:
        headers: what is in each object of `cut.history`.
    """
    theirs = {kept: header for kept, header in headers.items() if header.of({user})}
    left = tuple(part for chunks in left if (part := without(chunks, user)))
    remade = ((kept, without(header.ranges, user)) for kept, header in theirs.items())
    others = [Leaving(to_micros(now), left), *(Leaving(kept.left_at, (part,) if part else ()) for kept, part in remade)]
    return History(
        tuple(kept for kept in headers if kept not in theirs),
        tuple(each for each in others if each.chunks),
        forgotten=cut.forgotten,
    )


def has_expired(cut: LogCut, seconds: float, now: datetime) -> bool:
    """Whether the next cut would give something up."""
    since = to_micros(now - timedelta(seconds=seconds))
    return any(kept.left_at < since for kept in cut.history)
