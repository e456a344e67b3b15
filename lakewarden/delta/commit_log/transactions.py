"""Which applications have a transaction identifier in a table: delta-rs tells the version of one whose name is known."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.base.connection import Location
from lakewarden.delta.commit_log.commits import LOG, CommitLog
from lakewarden.delta.commit_log.damage import readable_checkpoint
from lakewarden.storage.objects import ObjectStore, keys_of
from lakewarden.storage.open import open_store


def transaction_apps(location: Location, version: int) -> frozenset[str]:
    """The application ids that a version has, as its log shows it.

    Raises:
        Corrupt, StorageUnavailable: it cannot be read.
    """
    store = open_store(location)
    start, parts = readable_checkpoint(store, keys_of(store, LOG), version) or (-1, ())
    log = CommitLog(store)
    commits = (log.read(number) for number in range(start + 1, version + 1))
    later = {app for commit in commits if commit is not None for app in commit.transactions}
    return frozenset(later.union(*(_in_checkpoint(store, part) for part in parts)))


def _in_checkpoint(store: ObjectStore, part: str) -> Iterator[str]:
    file = pq.ParquetFile(pa.BufferReader(store.get(part)))
    if "txn" not in file.schema_arrow.names:
        return
    for action in file.read(["txn"]).column("txn").to_pylist():
        if action is not None and action["appId"] is not None:
            yield str(action["appId"])
