"""Removes objects that no reader needs. Idempotent, safe to interrupt, and safe to run in several processes at once."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain

from lakewarden.base.faults import Reach, no_faults
from lakewarden.log.objects import names
from lakewarden.log.objects.cut import LogCut, confirm, newest_cut
from lakewarden.log.objects.header import short
from lakewarden.log.objects.names import LogListing
from lakewarden.storage.objects import ObjectStore

_KEPT = 4
"""Cuts that stay, the newest among them: as many would have to come and go within one listing of their directory."""


def clean(store: ObjectStore, log_id: str, *, known: LogCut | None = None, reach: Reach = no_faults) -> None:
    """Removes older cuts, segments that are settled, and carry and history that the newest cut does not name.

    The cut is read before the listing. So it holds, even when newer cuts come meanwhile: what is settled stays so, a
    carry object made for this cut or an older one is named by a newer one only if this one names it, and one made for
    a newer cut is not touched (its maker may be about to create that cut). `known` spares its reading where it still counts.

    Raises:
        NotDurable: the cut may be gone after a crash of the machine; nothing was removed.
    """
    cut = newest_cut(store, log_id, known)
    if cut.version == 0:
        return
    # Another's cut is seen before it is durable. If it went in a crash, the rows that were removed for its sake would be in no
    # place.
    confirm(store, log_id, cut)
    remove_below(store, log_id, cut, names.listing_of(log_id, store.keys(names.home(log_id))), reach=reach)


def remove_below(
    store: ObjectStore,
    log_id: str,
    cut: LogCut,
    found: LogListing,
    *,
    passed: Collection[str] = (),
    worth: int = 1,
    reach: Reach = no_faults,
) -> None:
    """Does so for a durable cut that counts, and a listing that began after the cut was made or read.

    Args:
        passed: the puts that the cut settles, which may be more than it remembers.
        worth: fewer objects than that stay for a later time.
    """
    doomed = [*chain.from_iterable(_doomed(log_id, cut, found).values())]
    # A batch that no cut remembers could be published again, as long as what was staged is there.
    doomed += [key for key, batch in found.staged.items() if batch in passed and key not in doomed]
    # Each removal is a request, and late removal harms no reader (docs/decisions/0038-what-a-flush-job-requests.md).
    if len(doomed) >= worth:
        store.delete(doomed)
    reach("clean:removed")


def is_old(version: int, newest: int) -> bool:
    """Whether no process needs a cut any more.

    A few stay: a directory on disk that is listed while one cut comes and the one before it goes may show neither, and
    a writer that saw no cut at all would believe that its late segment came in time.
    """
    return version <= newest - _KEPT


def _doomed(log_id: str, cut: LogCut, found: LogListing) -> dict[str, list[str]]:
    """Never the newest cut: without it, every number would be free again and every position unsettled."""
    history, taken = {kept.key for kept in cut.history}, set(cut.taken)
    return {
        "cuts": [names.cut_key(log_id, version) for version in sorted(found.cuts) if is_old(version, cut.version)],
        "segments": [names.segment_key(log_id, position) for position in sorted(found.segments) if position <= cut.upto],
        "carry": [key for key, version in sorted(found.carry.items()) if version <= cut.version and key not in cut.carry],
        # Staged objects go with the position of the segment that names them; a cut knows that by the ids of the puts it
        # settled.
        "staged": [key for key, batch in sorted(found.staged.items()) if cut.sealed or short(batch) in taken],
        "history": [key for key, version in sorted(found.history.items()) if version <= cut.version and key not in history],
    }
