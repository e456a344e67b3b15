"""Removing what no reader needs any more. It may be repeated, interrupted, and done by several at once."""

from __future__ import annotations

from collections.abc import Callable

from lakewarden.faults import Reach, nowhere
from lakewarden.log import names
from lakewarden.log.cut import Cut, newest_cut
from lakewarden.log.names import Listing
from lakewarden.storage.objects import ObjectStore


def clean(store: ObjectStore, log_id: str, *, reach: Reach = nowhere) -> None:
    """Removes older cuts, segments that are settled, and carry that the newest cut does not name.

    The cut is read before the listing. So it holds, even when newer cuts come meanwhile: what is settled stays so, a
    carry object made for this cut or an older one is named by a newer one only if this one names it, and one made for
    a newer cut is not touched (its maker may be about to create that cut).
    """
    cut = newest_cut(store, log_id)
    if cut.version == 0:
        return
    found = names.listings(each.key for each in store.list(names.home(log_id))).get(log_id, Listing())
    for kind, doomed in (("cuts", _old_cuts), ("segments", _settled), ("carry", _unnamed)):
        if keys := doomed(log_id, cut, found):
            store.delete(keys)
        reach(f"clean:{kind}")


_Doomed = Callable[[str, Cut, Listing], list[str]]


def _old_cuts(log_id: str, cut: Cut, found: Listing) -> list[str]:
    """Never the newest: without it, every number below would be free again and every position above unsettled."""
    return [names.cut_key(log_id, version) for version in sorted(found.cuts) if version < cut.version]


def _settled(log_id: str, cut: Cut, found: Listing) -> list[str]:
    return [names.segment_key(log_id, position) for position in sorted(found.segments) if position <= cut.upto]


def _unnamed(log_id: str, cut: Cut, found: Listing) -> list[str]:
    return [key for key, version in sorted(found.carry.items()) if version <= cut.version and key not in cut.carry]
