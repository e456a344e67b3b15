"""Erases a user from a table's log: closes it to the user's appends, removes every row, and opens it again.

1. A cut names the user as closed. Who looks at the cuts from then on appends nothing of theirs.
2. A writer who has not looked yet may still put a segment, but only at one of the few positions beyond the last one taken
   (`put.PROBES`). These are filled with empty segments, so that nothing that others appended is passed over.
3. A cut settles all of it. Its carry has the open rows of everybody else, its history their settled ones. A put that
   comes later than that meets the cut.
4. When nothing of the user is left anywhere, a cut opens the user again. It still says up to where the rows were left out,
   so that a writer who slept through all of this is refused, and does not append old rows to the new start.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime

from lakewarden.base.attempts import Attempts
from lakewarden.base.faults import Reach, no_faults
from lakewarden.errors import Conflict
from lakewarden.log.objects import names
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.clean import clean
from lakewarden.log.objects.cut import HistoryObject, LogCut, newest_cut, read_cut
from lakewarden.log.objects.cuts.fill import fill
from lakewarden.log.objects.cuts.next_cut import advance, cut_without
from lakewarden.log.objects.cuts.settle import CutTerms, make_cut
from lakewarden.log.objects.header import Header
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.objects.segment import read_carry
from lakewarden.log.objects.staging import remove_of
from lakewarden.log.objects.view import check_given_up, read_view
from lakewarden.log.position import LAST_POSITION, NOTHING, end_of, position_of
from lakewarden.log.view import Mark, PendingRows
from lakewarden.storage.objects import Missing, ObjectStore

_ATTEMPTS = 100


def close_user(store: ObjectStore, log_id: str, mark: str) -> None:
    """As `TableLog.close_user`, but for the positions that a writer may take who has not looked yet."""
    advance(store, log_id, lambda cut: _closed(cut, mark))


def open_user(store: ObjectStore, log_id: str, mark: str) -> None:
    """As `TableLog.open_user`."""
    advance(store, log_id, lambda cut: _opened(cut, mark))


def leave_out(
    store: ObjectStore,
    log_id: str,
    user: str,
    mark: str,
    terms: CutTerms,
    *,
    now: datetime,
    found: Callable[[PendingRows], None] = lambda pending: None,
) -> int:
    """As `TableLog.leave_out`."""
    cache = HeaderCache()
    # Read once: with a read of all for each try, others who settle would come first every time.
    history: dict[HistoryObject, Header] = {}
    # First the positions, then the view: what a writer who has not seen the user closed can still put is at or below the
    # target.
    target = fill(store, log_id, terms.new_id, terms.segment_format)
    terms.reach("erase:filled")
    attempts = Attempts(100, f"log {log_id} of {store.uri} was settled by others", "meanwhile")
    while attempts.next():
        view = read_view(store, log_id, cache, (user,))
        # A sealed log has no rows of anyone. Else an erasure that began later, by another process, counts for this one too.
        done = view.cut.upto if view.cut.sealed else view.cut.erased.get(mark)
        if done is not None and done >= target:
            remove_of(store, log_id, user, view.unnamed)  # settled ones too, which a cut names for some time only
            _forget_name(store, log_id, user)
            return end_of(done)
        # A cut below the target would leave positions open at which a sleeping writer's rows could still appear.
        if view.last_position < target:
            continue  # the listing passed one over
        if user in view.pending:
            # Before the cut: once it is there, the rows are in no view, and what is to be counted could not be read any more.
            found(view.pending[user])
        remove_of(store, log_id, user, view.unnamed)
        try:
            history = {kept: history.get(kept) or read_carry(store, kept.key) for kept in view.cut.history}
            make_cut(store, view, cut_without(view, user, mark, history, now), terms)
        except Missing as gone:  # others cleaned away what was to be copied
            # Else the loop would wait for an object that is lost for good.
            check_given_up(store, view, gone)
            cache, history = HeaderCache(), {}


def gone_since(store: ObjectStore, view: LogView, users: Collection[str], mark: Mark) -> set[str]:
    """As `TableLog.gone_since`."""
    cut = newest_cut(store, view.log_id, view.cut)
    if cut.sealed:
        return set(users)
    # Without any erasure in the cut, no user's first row has to be looked up.
    rows = view.pending_of(users) if cut.erased else {}
    # The user may be open again by now; then only the position up to which rows were left out tells.
    left_out = {user: cut.erased.get(mark(user), NOTHING) >= position_of(each.first_seq) for user, each in rows.items()}
    return {user for user in users if left_out.get(user) or mark(user) in cut.closed}


def _closed(cut: LogCut, mark: str) -> LogCut | None:
    return None if cut.sealed or mark in cut.closed else replace(cut, closed=(*cut.closed, mark))


def _opened(cut: LogCut, mark: str) -> LogCut | None:
    if cut.sealed or mark not in cut.closed:
        return None
    return replace(cut, closed=tuple(other for other in cut.closed if other != mark))


def _forget_name(store: ObjectStore, log_id: str, user: str) -> None:
    """Cleans up, and makes the same cut again until none of those that are kept marks the user by name."""
    for _ in range(_ATTEMPTS):
        clean(store, log_id)
        cut = newest_cut(store, log_id)
        if cut.sealed or not _named(store, log_id, user, cut.version):
            return
        # Cleaning keeps the last few cuts, so newer ones have to push out those that name the user.
        advance(store, log_id, lambda newest, passed=cut.version: None if newest.version > passed else newest)  # type: ignore[misc]
    raise Conflict(f"log {log_id} of {store.uri} kept naming a user who is being erased; try again")


def _named(store: ObjectStore, log_id: str, user: str, newest: int) -> bool:
    for found in store.list(names.cuts(log_id)):
        version = names.number_of(found.key)
        try:
            # A cut behind the erasure has no mark of the user: no row of theirs is left for it to hide.
            if version is not None and version < newest and user in read_cut(store, log_id, version).settled:
                return True
        except Missing:
            continue  # cleaned away by others
    return False


# Seals the log of a dropped table, so that it refuses every append.
#
# The seal is a cut past every position there can be. A writer looks at the cuts after its put, so it meets the seal whatever it
# had read before; the seal stays when all else is removed, for the sake of a writer that sleeps, until a vacuum sweeps it away
# (`remove_seal`).


def seal(store: ObjectStore, log_id: str) -> None:
    """From now on appends raise `NotFound`, and nothing is pending. Sealing again does nothing.

    Raises:
        Conflict: flushes settled the log again and again meanwhile.
        StorageUnavailable: the store failed; try again.
    """
    advance(store, log_id, lambda cut: None if cut.sealed else LogCut(upto=LAST_POSITION, sealed=True))


def remove_log(store: ObjectStore, log_id: str, *, reach: Reach = no_faults) -> None:
    """As `TableLog.drop`."""
    seal(store, log_id)
    reach("seal:sealed")
    clean(store, log_id, reach=reach)


def remove_seal(store: ObjectStore, log_id: str, before: datetime) -> bool:
    """Removes a sealed log, the seal last; whether it is gone. One that was written to since that moment has to wait."""
    found = store.list(names.home(log_id))
    # A late writer may be about to look at the seal: while anything is younger, the seal has to wait
    # (docs/decisions/0006-fences.md).
    if any(each.modified >= before for each in found):
        return False
    keys = [each.key for each in found]
    # First everything else: where a crash leaves rows behind, the seal is still there to hide them.
    store.delete([key for key in keys if "/cuts/" not in key])
    store.delete(keys)
    return True
