"""Computes the next cut when it follows from the last one alone: a copy with the given changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lakewarden.errors import Conflict, NotDurable, StorageUnavailable
from lakewarden.log.objects import names
from lakewarden.log.objects.cut import LogCut, confirm, encode_cut, newest_cut
from lakewarden.storage.objects import AlreadyThere, ObjectStore

_ATTEMPTS = 100


def advance(store: ObjectStore, log_id: str, change: Callable[[LogCut], LogCut | None]) -> LogCut:
    """Makes the cut that `change` wants, again for each lost race, until it wants none; returns the one that counts then.

    Raises:
        Conflict: flushes settled the log again and again meanwhile.
        StorageUnavailable: the store failed; try again.
        NotDurable: the cut may be gone after a crash of the machine.
    """
    failure: StorageUnavailable | None = None
    cut = LogCut()
    for _ in range(_ATTEMPTS):
        cut = newest_cut(store, log_id, cut)
        wanted = change(cut)
        if wanted is None:
            confirm(store, log_id, cut)
            return cut
        if failure is not None:
            raise failure
        version = cut.version + 1
        try:
            store.create(names.cut_key(log_id, version), encode_cut(replace(wanted, version=version)))
        except AlreadyThere:
            continue
        except NotDurable:
            raise
        except StorageUnavailable as error:
            failure = error  # it may be there all the same
    raise Conflict(f"log {log_id} of {store.uri} was settled {_ATTEMPTS} times while it was to be changed; try again")
