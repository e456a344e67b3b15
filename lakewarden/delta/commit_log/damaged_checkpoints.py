"""Opens a table whose checkpoints can't be read, from the commits, and from older checkpoints where the commits continue.

delta-rs takes the newest checkpoint by its name and fails where that one is torn or missing. So it is given a copy of the
log that leaves it out. The copy is this process's own, and goes with the table.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

from deltalake import DeltaTable

from lakewarden.base.connection import Location
from lakewarden.delta.commit_log.commits import LAST_CHECKPOINT, LOG, CommitLog, checkpoint_name, commit_name
from lakewarden.delta.commit_log.damage import readable_checkpoint
from lakewarden.delta.failures import delta_errors
from lakewarden.errors import Corrupt
from lakewarden.storage.objects import Missing, ObjectStore, keys_of
from lakewarden.storage.open import open_store


def mended(location: Location, version: int | None) -> DeltaTable | None:
    """That version of the table, or its newest, put together from what can be read; None where that is not all it takes.

    Raises:
        Corrupt: a commit can't be read.
    """
    store = open_store(location)
    if version is None:
        version = max(CommitLog(store).commits(), default=-1)
    log = _log_of(store, version)
    return None if log is None else _opened(log, version)


def write_mended_checkpoint(location: Location, version: int) -> None:
    """Writes the checkpoint of that version in the place of the table, so that nothing has to be left out from then on.

    Raises:
        Corrupt: the version can't be put together any more.
        StorageUnavailable, StorageRefused: there is no checkpoint.
    """
    table, store = mended(location, version), open_store(location)
    if table is None:
        raise Corrupt(f"{location}: version {version} cannot be put together without its checkpoints")
    with delta_errors(f"cannot checkpoint {location}"):
        table.create_checkpoint()
        copy = Path(table.table_uri.removeprefix("file://"))
        for name in (checkpoint_name(version), LAST_CHECKPOINT):
            store.replace(name, (copy / name).read_bytes())


def _log_of(store: ObjectStore, version: int) -> dict[str, bytes] | None:
    """By name, what shows this version: the newest readable checkpoint, if there is one, and the commits since."""
    start, parts = readable_checkpoint(store, keys_of(store, LOG), version) or (-1, ())
    names = [*parts, *(commit_name(number) for number in range(start + 1, version + 1))]
    try:
        found = {name: store.get(name) for name in names}
    except Missing:
        return None
    return found if found and all(found.values()) else None


def _opened(log: dict[str, bytes], version: int) -> DeltaTable:
    copy = tempfile.mkdtemp(prefix="lakewarden-")
    try:
        with delta_errors("cannot open a table without its checkpoints"):
            (Path(copy) / LOG).mkdir()
            for name, data in log.items():
                (Path(copy) / name).write_bytes(data)
            table = DeltaTable(copy, version=version)
    except BaseException:
        shutil.rmtree(copy, ignore_errors=True)
        raise
    weakref.finalize(table, shutil.rmtree, copy, ignore_errors=True)
    return table
