"""Checkpoints: the one thing that delta-rs writes for us. Its own keep what other writers left (vectors, domains, tags, row ids),
and what a checkpoint has to say is a set of rules of its own, where an error loses rows.

It makes that of a table on a disk in its place, and that of one on an object store on a copy of the log's tail: on the store it
would read that tail twice and the last checkpoint in eleven ranges, and what it leaves costs every opening five requests more
than it must (docs/decisions/0017-checkpoints-on-object-stores.md). It takes the newest checkpoint by its name, and fails where
that one can't be read: then it gets a copy of what the version was replayed from.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema

from lakewarden.base.connection import Location
from lakewarden.delta.commit_log.commits import CommitLog
from lakewarden.delta.commit_log.damage import leads_nowhere
from lakewarden.delta.commit_log.kept_versions import CHAINS
from lakewarden.delta.failures import delta_errors
from lakewarden.delta.replay.log_objects import LAST_CHECKPOINT, LOG, LogObjects, checkpoint_name, commit_name, version_named
from lakewarden.delta.replay.log_state import replay
from lakewarden.errors import Corrupt, LakewardenError
from lakewarden.storage.clients import OUTAGES
from lakewarden.storage.location import delta_uri, local_path
from lakewarden.storage.meter import count
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.open import open_store
from lakewarden.storage.options import delta_options

_INTERVAL = 100
"""delta-rs's own, where the table says nothing."""

_LONGEST = 20
"""Commits in a tail that is copied, one after the other; delta-rs itself reads a longer one at once."""

_FOR_SIDECARS = "sidecar"
"""A column that delta-rs writes into every checkpoint, and that only those of tables with a feature of their own (V2) fill:
where it is, every reader looks into it."""


def is_due(version: int, interval: str) -> bool:
    """Whether a checkpoint follows this commit, as delta-rs counts; `interval` is what the table's property says, or empty."""
    every = int(interval) if interval.isdecimal() else 0
    return (version + 1) % (every or _INTERVAL) == 0


def write_checkpoint(location: Location, version: int, *, in_place: bool = False, passes_over: bool = False) -> None:
    """Writes the checkpoint of a version. Where it is not made in its place, a table that was fenced since, or has a later one,
    gets none.

    Args:
        in_place: delta-rs makes it where the table is.
        passes_over: an earlier checkpoint is known to be unreadable.

    Raises:
        StorageUnavailable, StorageRefused, Corrupt: there is none now, and the table is as good without.
    """
    if not passes_over:
        with suppress(Corrupt):  # a hint or an earlier checkpoint misleads delta-rs
            _in_place(location, version) if in_place else _of_tail(location, version)
            return
    _of_replay(location, version)


def opened(location: Location, version: int | None = None) -> DeltaTable:
    """The version, or the newest, as delta-rs reads it.

    Raises:
        NotFound: there is no such version.
        Corrupt, Unsupported: delta-rs can't read the table.
    """
    what = f"cannot open the Delta table at {location}"
    with OUTAGES.requesting(location, what), delta_errors(what):
        options = delta_options(location, os.environ)
        if local_path(location.uri) is None:
            count("OPEN")
        return DeltaTable(delta_uri(location.uri), version=version, storage_options=options or None)


def _in_place(location: Location, version: int) -> None:
    _last(location, version)
    with delta_errors(f"cannot checkpoint {location}"):
        opened(location, version).create_checkpoint()


def _of_tail(location: Location, version: int) -> None:
    store, last = open_store(location), _last(location, version)
    if last >= version:
        return
    made: Mapping[str, bytes] = {}
    if tail := _tail(store, last, version, CHAINS.upto(location, version)):
        with (
            suppress(LakewardenError),
            delta_errors("cannot make a checkpoint here"),
        ):  # delta-rs tries again, on the store itself
            made = _on_copy(tail, version)
    if made:
        _write(store, made)
    elif CommitLog(store).read(version) is not None:
        _in_place(location, version)


def _of_replay(location: Location, version: int) -> None:
    """Leaves out checkpoints that can't be read: of what is written, nothing has to be left out any more.

    Raises:
        Corrupt: the version can't be put together any more.
    """
    store, state = open_store(location), replay(location, version)
    assert state is not None, "a version that was committed"
    start, parts = (-1, ()) if state.checkpoint is None else (state.checkpoint.version, state.checkpoint.names)
    names = [*parts, *(name for _, name in state.log.behind(start, version))]
    try:
        log = {name: store.get(name) for name in names}
    except Missing as error:
        raise Corrupt(f"cannot checkpoint {location}: {error} was removed meanwhile") from None
    with delta_errors(f"cannot checkpoint {location}"):
        _write(store, _on_copy(log, version))


def _write(store: ObjectStore, made: Mapping[str, bytes]) -> None:
    for name, data in made.items():
        store.replace(name, data)


def _tail(store: ObjectStore, last: int, version: int, known: Mapping[str, bytes]) -> dict[str, bytes]:
    """By name, what shows this version: the last checkpoint and the commits since. Nothing where that is too much, or something
    of it is missing, emptied by a fence, or in several parts. What is known of it is not read.
    """
    names = [commit_name(number) for number in range(last + 1, version + 1)]
    if len(names) > _LONGEST:
        return {}
    if last >= 0:
        names.append(checkpoint_name(last))
    try:
        found = {name: known.get(name) or store.get(name) for name in names}
    except Missing:
        return {}
    return found if all(found.values()) else {}


def _last(location: Location, version: int) -> int:
    """The version of the last checkpoint; -1 where none is named.

    Raises:
        Corrupt: it is that version or above, and is not there: delta-rs would leave it so.
    """
    log = LogObjects(location)
    last = version_named(pointer := log.pointer())
    if last is not None and last >= version and leads_nowhere(pointer, log.files()):
        raise Corrupt(f"{LAST_CHECKPOINT} of {location} names a checkpoint that is not there")
    return -1 if last is None else last


def _on_copy(log: Mapping[str, bytes], version: int) -> dict[str, bytes]:
    """The checkpoint, and what `_last_checkpoint` says about it, by name, in the order in which they are written. Raises whatever
    delta-rs does."""
    with TemporaryDirectory(prefix="lakewarden-") as copy:
        (Path(copy) / LOG).mkdir()
        for name, data in log.items():
            (Path(copy) / name).write_bytes(data)
        DeltaTable(copy, version=version).create_checkpoint()
        actions = pq.ParquetFile(Path(copy) / checkpoint_name(version)).read(use_threads=False)
        said = json.loads((Path(copy) / LAST_CHECKPOINT).read_bytes())
    data, hint = _lean(actions, said)
    return {checkpoint_name(version): data, LAST_CHECKPOINT: hint}


def _lean(actions: pa.Table, said: dict[str, object]) -> tuple[bytes, bytes]:
    """The same actions without the column that nothing uses, and their schema beside them: no reader has to look for either."""
    if _FOR_SIDECARS in actions.column_names and actions.column(_FOR_SIDECARS).null_count == actions.num_rows:
        actions = actions.drop_columns([_FOR_SIDECARS])
    out = pa.BufferOutputStream()
    pq.write_table(actions, out, store_schema=False)
    data = out.getvalue().to_pybytes()
    schema = json.loads(Schema.from_arrow(actions.schema).to_json())
    hint = said | {"sizeInBytes": len(data), "checkpointSchema": schema}
    return data, json.dumps(hint, separators=(",", ":")).encode()
