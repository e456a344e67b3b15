"""What is pending in the write log, at the cost of what lies in it: headers are read, rows are not.

A view is a moment's truth. It is put together from a listing, which is not, and is thrown away unless the cut that it
builds on is still the newest when all of it was read: until then no segment above that cut was removed, and none came
too late.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from lakewarden.catalog.model import TableSchema
from lakewarden.errors import Conflict, Corrupt
from lakewarden.log import names
from lakewarden.log.cache import HeaderCache
from lakewarden.log.clean import is_old
from lakewarden.log.cut import Cut, newest_version, read_cut
from lakewarden.log.names import Listing
from lakewarden.log.position import NOTHING, end_of
from lakewarden.log.record import decode
from lakewarden.log.segment import Header, RowRange, read_carry, read_chunk, read_segment
from lakewarden.storage.objects import Missing, ObjectStore

_ATTEMPTS = 100
"""Starts of one read. Each new one means that a flush settled something meanwhile."""


@dataclass(frozen=True)
class PendingRows:
    """A user's rows that no flush has settled; small and picklable, it travels to the task that flushes them."""

    user: str
    rows: int
    bytes: int
    oldest: datetime
    """When the oldest one was stored, by its writer's clock."""
    ranges: tuple[RowRange, ...]
    """Ascending by `_seq`."""

    @property
    def first_seq(self) -> int:
        return self.ranges[0].first_seq

    @property
    def last_seq(self) -> int:
        return self.ranges[-1].last_seq


@dataclass(frozen=True)
class LogView:
    """One partition as of one moment."""

    log_id: str
    cut: Cut
    carry: tuple[Header, ...]
    run: tuple[Header, ...]
    """The segments above the cut without a gap: one that lies behind a gap is not part of the log yet."""
    pending: dict[str, PendingRows]
    litter: bool
    """Whether a cleanup would find something to remove."""

    @property
    def last_position(self) -> int:
        return self.cut.upto + len(self.run)

    @property
    def end(self) -> int:
        """The last possible `_seq` of what was read: a flush of the view settles up to here."""
        return end_of(self.last_position)


def read_view(store: ObjectStore, log_id: str, cache: HeaderCache) -> LogView:
    """The partition now. An unknown one is empty."""
    for _ in range(_ATTEMPTS):
        found = names.listings(each.key for each in store.list(names.home(log_id)))
        view = _assemble(store, log_id, found.get(log_id, Listing()), cache)
        if view is not None:
            return view
    raise Conflict(f"log {log_id} of {store.uri} was settled {_ATTEMPTS} times while it was read; try again")


def read_views(store: ObjectStore, cache: HeaderCache) -> dict[str, LogView]:
    """Every partition of the warehouse in which something lies, by one listing. Sealed ones are left out.

    For planning: rows that are settled while the listing runs may be missing from a log that looks empty.
    """
    found = names.listings(each.key for each in store.list(names.ROOT))
    views = {
        log_id: _assemble(store, log_id, listing, cache, glance=True) or read_view(store, log_id, cache)
        for log_id, listing in found.items()
    }
    return {log_id: view for log_id, view in views.items() if not view.cut.sealed}


def rows_of(store: ObjectStore, pending: PendingRows, schemas: tuple[TableSchema, ...]) -> pa.Table:
    """A user's pending rows: the columns of the newest schema, `_seq`, `_op`; ascending by `_seq`.

    Raises:
        Missing: they were settled and cleaned away meanwhile; look at the log again.
        Conflict: they are of a schema version that is not among `schemas`.
    """
    return decode([read_chunk(store, each) for each in pending.ranges], pending.ranges, schemas)


def _assemble(store: ObjectStore, log_id: str, listing: Listing, cache: HeaderCache, *, glance: bool = False) -> LogView | None:
    """The view that a listing shows; None if the log moved on meanwhile. A glance believes that a quiet log is quiet."""
    version = listing.newest_cut
    known = cache.cut(log_id, version)
    try:
        cut = known or read_cut(store, log_id, version)
        run = listing.run_above(cut.upto)
        keys = [names.segment_key(log_id, position) for position in run]
        carry = tuple(cache.header(key) or read_carry(store, key) for key in cut.carry)
        headers = tuple(cache.header(key) or read_segment(store, key, n) for n, key in zip(run, keys, strict=True))
    except Missing as gone:
        if newest_version(store, log_id) == version:
            raise Corrupt(f"{gone} is missing in {store.uri}, although the newest cut ({version}) of its log needs it") from gone
        return None
    quiet = known is not None and not carry and not headers
    if not (glance and quiet) and newest_version(store, log_id) != version:
        return None
    cache.keep(log_id, cut, (*carry, *headers))
    return LogView(log_id, cut, carry, headers, _pending(cut, (*carry, *headers)), _litter(cut, listing))


def _pending(cut: Cut, headers: Iterable[Header]) -> dict[str, PendingRows]:
    by_user: dict[str, list[RowRange]] = {}
    marks = cut.settled
    for header in headers:
        for each in header.ranges:
            if each.last_seq > marks.get(each.user, NOTHING):
                by_user.setdefault(each.user, []).append(each)
    return {user: _summed(user, ranges) for user, ranges in by_user.items()}


def _summed(user: str, ranges: list[RowRange]) -> PendingRows:
    return PendingRows(
        user=user,
        rows=sum(each.rows for each in ranges),
        bytes=sum(each.length for each in ranges),
        oldest=datetime.fromtimestamp(min(each.stored_at for each in ranges) / 1_000_000, UTC),
        ranges=tuple(sorted(ranges, key=lambda each: each.first_seq)),
    )


def _litter(cut: Cut, listing: Listing) -> bool:
    history = {kept.key for kept in cut.history}
    return (
        any(is_old(version, cut.version) for version in listing.cuts)
        or any(position <= cut.upto for position in listing.segments)
        or any(version <= cut.version and key not in cut.carry for key, version in listing.carry.items())
        or any(version <= cut.version and key not in history for key, version in listing.history.items())
    )
