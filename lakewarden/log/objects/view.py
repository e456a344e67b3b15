"""Finds what is pending in the write log, at a cost that depends only on the log's size: reads headers, but no rows.

A view is a moment's truth. It is put together from a listing, which is not, and is thrown away unless the cut that it
builds on is still the newest when all of it was read: until then no segment above that cut was removed, and none came
too late.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from itertools import count

import pyarrow as pa

from lakewarden.base.attempts import Attempts
from lakewarden.catalog.model import TableSchema
from lakewarden.errors import Corrupt, Terminal, Unsupported
from lakewarden.log.chunk import noted
from lakewarden.log.objects import names
from lakewarden.log.objects.cache import IN_HAND, HeaderCache
from lakewarden.log.objects.clean import is_old
from lakewarden.log.objects.cut import LogCut, newest_version, read_cut
from lakewarden.log.objects.header import UNKNOWN, short
from lakewarden.log.objects.log_view import LogView, LogViews
from lakewarden.log.objects.names import LogListing
from lakewarden.log.objects.run import lost, read_run, replaced, unlinked
from lakewarden.log.objects.segment import read_carry, read_chunk
from lakewarden.log.record import decode
from lakewarden.log.view import PendingRows
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import Missing, ObjectStore


def read_view(store: ObjectStore, log_id: str, cache: HeaderCache, users: Collection[str] | None = None) -> LogView:
    """As `LogReader.view`.

    Who looks up some users follows the view that the cache has: only what came since is listed and read. So what is lost of the
    rest from outside is noticed when its rows are read, and by whoever reads all.
    """
    # Who reads all of the log reads it anew: that is where a loss from outside shows
    # (docs/decisions/0079-look-ups-follow-the-log.md).
    former = None if users is None else cache.view(log_id)
    attempts = Attempts(100, f"log {log_id} of {store.uri} was settled", "while it was read")
    while attempts.next():
        view = None if former is None else _followed(store, former, cache)
        view = view or _assemble(store, log_id, names.listing_of(log_id, store.keys(names.home(log_id))), cache)
        if view is not None and _loaded(store, view, users):
            if users is not None:
                cache.keep_view(view)
            return view
        former = None


def _loaded(store: ObjectStore, view: LogView, users: Collection[str] | None) -> bool:
    """Whether the view could be read as far as it is needed, and not only its headers.

    Raises:
        Corrupt: something of it is lost or cannot be read.
    """
    try:
        view.load(users)
    except Missing as gone:
        check_given_up(store, view, gone)
        return False
    return True


def read_views(store: ObjectStore, cache: HeaderCache, users: Mapping[str, Collection[str]] | None = None) -> LogViews:
    """Every partition of the warehouse that holds an object, by one listing. Sealed ones are left out.

    For planning: rows that are settled while the listing runs may be missing from a log that looks empty.
    """
    found = names.listings(store.keys(names.ROOT))
    sound: dict[str, LogView] = {}
    faults: dict[str, Terminal] = {}
    for log_id, listing in found.items():
        try:
            wanted = None if users is None else users.get(log_id, ())
            view = _assemble(store, log_id, listing, cache, glance=True)
            if view is None or not _loaded(store, view, wanted):
                view = read_view(store, log_id, cache, wanted)
        # One log's fault is that table's: the rows of all others can be flushed.
        except (Corrupt, Unsupported) as fault:
            faults[log_id] = fault
        else:
            # A dropped table has nothing to flush.
            if not view.cut.sealed:
                sound[log_id] = view
    return LogViews(sound, faults)


def make_durable(store: ObjectStore, view: LogView) -> None:
    """As `LogReader.make_durable`.

    A segment is seen before its writer has made its name durable, and its writer may die. A table that knows of a position
    which the log then gives to another writer would hide that one's rows.
    """
    # A lost position has no object that could be synced.
    last = next((header.key for header in reversed(view.run) if header.put_id != UNKNOWN), None)
    if last is not None:
        with suppress(Missing):  # settled meanwhile, and who removed it had confirmed the cut
            store.confirm(last)  # its directory's names become durable together


def rows_of(store: ObjectStore, pending: PendingRows, schemas: tuple[TableSchema, ...], *, for_flush: bool = False) -> pa.Table:
    """As `LogReader.rows`."""
    # On a disk, another read costs next to nothing.
    keep = partial(IN_HAND.keep, store) if for_flush and local_path(store.uri) is None else None
    data = [read_chunk(store, each, keep) for each in pending.ranges]
    rows = decode(data, pending.ranges, schemas)
    return noted(rows, data, pending.ranges) if for_flush else rows


def _followed(store: ObjectStore, former: LogView, cache: HeaderCache) -> LogView | None:
    """The log as the former view shows it, with what came since; None where the log was cut, or where the two do not fit."""
    log_id, cut, last = former.log_id, former.cut, former.last_position
    if len(former.run) < 2 or last in cut.lost:
        return None  # a short log has little to list; and what was given up has no name
    following = map(partial(names.segment_key, log_id), count(last))
    # From the last known one on, not behind it: whether it is still there tells whether the two views fit.
    keys = store.keys_after(names.segments(log_id), names.segment_key(log_id, last - 1), following)
    listing = names.listing_of(log_id, keys)
    # Removed by a cut, by a drop, or from outside: the full read tells which.
    if last not in listing.segments:
        return None
    try:
        new = read_run(store, log_id, listing, cut, cache, known=former.run)
    except Missing:
        return None
    # The link proves that the new segments follow the one that is remembered, and the cut that nothing came too late.
    if unlinked(cut, (former.run[-1], *new), last) is not None or newest_version(store, log_id) != cut.version:
        return None
    cache.keep(log_id, cut, new)
    return former.followed_by(new)


def _assemble(
    store: ObjectStore, log_id: str, listing: LogListing, cache: HeaderCache, *, glance: bool = False
) -> LogView | None:
    """The view that a listing shows; None if the log moved on meanwhile. A glance believes that a quiet log is quiet."""
    version = listing.newest_cut
    known = cache.cut(log_id, version)
    try:
        cut = known or read_cut(store, log_id, version)
        carry = tuple(cache.header(key) or read_carry(store, key) for key in cut.carry)
        run = read_run(store, log_id, listing, cut, cache)
        if (broken := unlinked(cut, run, cut.upto + 1)) is not None:
            run = read_run(store, log_id, listing, cut, HeaderCache())  # a second look, past what is known
            broken = unlinked(cut, run, cut.upto + 1)
    except Missing as gone:
        if newest_version(store, log_id) == version:
            raise _lost(store, log_id, version, str(gone)) from gone
        return None
    # A log that is known and empty is believed without a second listing: planning looks at all logs of a warehouse.
    quiet = known is not None and not carry and not run
    if not (glance and quiet) and newest_version(store, log_id) != version:
        return None
    # Behind the look at the cut: a segment that came too late breaks a link without anything being lost.
    if broken is not None:
        raise replaced(store, log_id, broken)
    # A given-up position is read anew each time: a writer that did not know may have put a segment there.
    cache.keep(log_id, cut, (header for header in (*carry, *run) if header.put_id != UNKNOWN))
    return LogView.of(log_id, cut, carry, run, _litter(cut, listing), frozenset(listing.staged.values()))


def check_given_up(store: ObjectStore, view: LogView, gone: Missing) -> None:
    """For what the view's cut names, and was not found.

    Raises:
        Corrupt: no newer cut has given it up.
    """
    # What a repair gave up is missing by design.
    given_up = [names.segment_key(view.log_id, position) for position in view.cut.lost]
    if newest_version(store, view.log_id) == view.cut.version and str(gone) not in given_up:
        raise _lost(store, view.log_id, view.cut.version, str(gone)) from gone


def _lost(store: ObjectStore, log_id: str, version: int, key: str) -> Corrupt:
    position = names.number_of(key) if key.startswith(f"{names.segments(log_id)}/") else None
    if position is not None:
        return lost(store, log_id, position)
    return Corrupt(
        f"{key} is missing in {store.uri}, although the newest cut ({version}) of its log needs it."
        " `lakewarden repair` says what is lost, and goes on without it"
    )


def _litter(cut: LogCut, listing: LogListing) -> bool:
    unknown = (listing.carry.keys() - cut.carry) | (listing.history.keys() - {kept.key for kept in cut.history})
    return (
        is_old(min(listing.cuts, default=cut.version), cut.version)
        or min(listing.segments, default=cut.upto + 1) <= cut.upto
        or any(map(cut.taken.__contains__, map(short, listing.staged.values())))
        or any(version <= cut.version for key, version in (listing.carry | listing.history).items() if key in unknown)
    )
