"""The end of a log: nobody appends to the log of a dropped table.

The seal is a cut past every position there can be. A writer looks at the cuts after its put, so it meets the seal
whatever it had read before; the seal stays when all else is removed, for the sake of a writer that sleeps.
"""

from __future__ import annotations

from lakewarden.errors import Conflict, StorageUnavailable
from lakewarden.faults import Reach, no_faults
from lakewarden.log import names
from lakewarden.log.clean import clean
from lakewarden.log.cut import Cut, encode_cut, newest_cut
from lakewarden.log.position import LAST_POSITION
from lakewarden.storage.objects import AlreadyThere, ObjectStore

_ATTEMPTS = 100


def seal(store: ObjectStore, log_id: str) -> None:
    """From now on appends raise `NotFound`, and nothing is pending. Sealing again does nothing.

    Raises:
        Conflict: flushes settled the log again and again meanwhile.
        StorageUnavailable: the store failed; try again.
    """
    failure: StorageUnavailable | None = None
    cut = Cut()
    for _ in range(_ATTEMPTS):
        cut = newest_cut(store, log_id, cut)
        if cut.sealed:
            return
        if failure is not None:
            raise failure
        try:
            store.create(names.cut_key(log_id, cut.version + 1), encode_cut(Cut(upto=LAST_POSITION, sealed=True)))
        except AlreadyThere:
            continue
        except StorageUnavailable as error:
            failure = error  # it may be there all the same
    raise Conflict(f"log {log_id} of {store.uri} was settled {_ATTEMPTS} times while it was to be sealed; try again")


def remove_log(store: ObjectStore, log_id: str, *, reach: Reach = no_faults) -> None:
    """Seals the log and removes its rows. May be repeated, which also removes what late writers left."""
    seal(store, log_id)
    reach("seal:sealed")
    clean(store, log_id, reach=reach)
