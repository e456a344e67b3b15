"""What every commit of ours contains, and the checks before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from lakewarden.base.clock import HELD_AT_MOST, CarriedClock, Clock
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.errors import Conflict

BATCH_APP = "lakewarden/batch"
"""Application id whose transaction version is the number of the scope's last `batch-<N>` file: it survives the loss of
manifest.json, compactions, checkpoints and restores, and costs no look at the files."""

SWEPT = "lakewarden/swept"
"""Application id that marks a fence which is being removed (maintenance/vacuum/sweep.py)."""

DIRECT_APP = "lakewarden/direct"
"""Application id whose transaction version is the position of the log that the last direct write took (tables/direct)."""


@dataclass(frozen=True)
class Committer:
    """For whom commits are made. `since`: when the scope's place was looked up, by the clock."""

    job_id: str
    since: datetime
    clock: Clock


class TooLate(Conflict):
    """Somebody else has gone on, or may have: the same must not be tried again on what is there now."""


@contextmanager
def may_lose() -> Iterator[None]:
    """Around an attempt at a commit that may be made again: ends quietly where another commit came first, and not where it is too
    late for any."""
    try:
        yield
    except TooLate:
        raise
    except Conflict:
        pass  # the caller looks again


def check_held(what: str, since: datetime, now: datetime) -> None:
    """Call this before every change of a scope that cannot be undone. Each commit calls it by itself.

    Args:
        what: what is about to be done, as `the flush of chat.notes`.
        since: when its place was looked up, or what it relies on was read; by the clock of `now`.

    Raises:
        TooLate: that was more than `HELD_AT_MOST` ago; nothing was changed.
    """
    if now - since > HELD_AT_MOST:
        raise TooLate(
            f"{what} was planned {now - since} ago, and what was there may have been given up and started again: do it again"
        )


def held_still(stamp: CommitStamp, since: datetime, now: datetime) -> Callable[[], None]:
    """For a commit that takes several steps: asks `check_held` as of the moment at which it is called."""
    clock = CarriedClock.of(lambda: now)
    return lambda: check_held(f"{stamp.operation} by job {stamp.job_id}", since, clock())


def transactions_of(
    transaction: tuple[str, int] | None = None, batch: int | None = None, direct: int | None = None
) -> dict[str, int]:
    """A commit's transaction identifiers: version by application id."""
    numbers = {BATCH_APP: batch, DIRECT_APP: direct}
    return dict([transaction] if transaction else ()) | {app: number for app, number in numbers.items() if number is not None}
