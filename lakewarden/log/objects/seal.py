"""The end of a log: nobody appends to the log of a dropped table.

The seal is a cut past every position there can be. A writer looks at the cuts after its put, so it meets the seal
whatever it had read before; the seal stays when all else is removed, for the sake of a writer that sleeps, until a vacuum
sweeps it away (operations/sweep.py).
"""

from __future__ import annotations

from lakewarden.faults import Reach, no_faults
from lakewarden.log.objects.advance import advance
from lakewarden.log.objects.clean import clean
from lakewarden.log.objects.cut import Cut
from lakewarden.log.position import LAST_POSITION
from lakewarden.storage.objects import ObjectStore


def seal(store: ObjectStore, log_id: str) -> None:
    """From now on appends raise `NotFound`, and nothing is pending. Sealing again does nothing.

    Raises:
        Conflict: flushes settled the log again and again meanwhile.
        StorageUnavailable: the store failed; try again.
    """
    advance(store, log_id, lambda cut: None if cut.sealed else Cut(upto=LAST_POSITION, sealed=True))


def remove_log(store: ObjectStore, log_id: str, *, reach: Reach = no_faults) -> None:
    """Seals the log and removes its rows. May be repeated, which also removes what late writers left."""
    seal(store, log_id)
    reach("seal:sealed")
    clean(store, log_id, reach=reach)
