"""Seals the log of a dropped table, so that it refuses every append.

The seal is a cut past every position there can be. A writer looks at the cuts after its put, so it meets the seal
whatever it had read before; the seal stays when all else is removed, for the sake of a writer that sleeps, until a vacuum
sweeps it away (`remove_seal`).
"""

from __future__ import annotations

from datetime import datetime

from lakewarden.base.faults import Reach, no_faults
from lakewarden.log.objects import names
from lakewarden.log.objects.clean import clean
from lakewarden.log.objects.cut import LogCut
from lakewarden.log.objects.cuts.advance import advance
from lakewarden.log.position import LAST_POSITION
from lakewarden.storage.objects import ObjectStore


def seal(store: ObjectStore, log_id: str) -> None:
    """From now on appends raise `NotFound`, and nothing is pending. Sealing again does nothing.

    Raises:
        Conflict: flushes settled the log again and again meanwhile.
        StorageUnavailable: the store failed; try again.
    """
    advance(store, log_id, lambda cut: None if cut.sealed else LogCut(upto=LAST_POSITION, sealed=True))


def remove_log(store: ObjectStore, log_id: str, *, reach: Reach = no_faults) -> None:
    """Seals the log and removes its rows. May be repeated, which also removes what late writers left."""
    seal(store, log_id)
    reach("seal:sealed")
    clean(store, log_id, reach=reach)


def remove_seal(store: ObjectStore, log_id: str, before: datetime) -> bool:
    """Removes a sealed log, the seal last; whether it is gone. One that was written to since that moment has to wait."""
    found = store.list(names.home(log_id))
    if any(each.modified >= before for each in found):
        return False
    keys = [each.key for each in found]
    store.delete([key for key in keys if "/cuts/" not in key])
    store.delete(keys)
    return True
