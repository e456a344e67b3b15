"""What delta-rs reads of a version, beside what our replay reads: two readers of one log that share no code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from lakewarden.base.connection import Location
from lakewarden.delta.commit_log.checkpoint import opened
from lakewarden.delta.failures import delta_errors
from lakewarden.delta.features import features_of
from lakewarden.delta.replay.actions import Vector
from lakewarden.delta.replay.live_files import vectors_of
from lakewarden.delta.replay.log_state import LogState, replay
from lakewarden.delta.replay.paths import key_of, root_of
from lakewarden.delta.replay.vectors import Mask, mask_of
from lakewarden.errors import Corrupt, NotFound, Unsupported
from lakewarden.storage.open import open_store

_WHAT = "cannot be read"
_LOOKS = 3
"""How often both are read where somebody commits in between."""


@dataclass(frozen=True)
class SecondOpinion:
    """Where the two readers differ; nothing where they agree."""

    differs: tuple[str, ...] = ()
    withheld: str = ""
    """Why delta-rs has no opinion, or none on vectors: a feature's name, or its own words."""


def second_opinion(state: LogState, app_id: str) -> SecondOpinion:
    """Compares version, table id, live files, the rows that vectors delete, and how far an application is.

    Raises:
        StorageUnavailable, StorageRefused: it can't be read now.
        NotFound, Corrupt: the table went or was damaged meanwhile.
    """
    found: list[str] = []
    try:
        with delta_errors(_WHAT):
            state, theirs = _both(state)
            found += _differences(state, theirs, app_id)
            found += [] if found else _vectors_differ(state, theirs)
    except (NotFound, Corrupt, Unsupported) as error:  # of some tables it reads all but the vectors
        return SecondOpinion(tuple(found), _why(state, error.message))
    return SecondOpinion(tuple(found))


def _both(state: LogState) -> tuple[LogState, DeltaTable]:
    """The same version by both, if they agree on which is the newest."""
    if state.torn is not None:  # delta-rs does not pass over a commit that a power cut left
        return state, opened(state.location, state.version)
    theirs = opened(state.location)
    for _ in range(_LOOKS):
        if theirs.version() == state.version or (now := replay(state.location)) is None:
            break
        state, theirs = now, opened(state.location)
    return state, theirs


def _differences(state: LogState, theirs: DeltaTable, app_id: str) -> Iterator[str]:
    if theirs.version() != state.version:
        yield f"the newest version is {state.version} by its log, and {theirs.version()} by delta-rs"
        return
    if str(theirs.metadata().id) != state.metadata.id:
        yield f"version {state.version} has the table id {state.metadata.id} by its log, and {theirs.metadata().id} by delta-rs"
    ours, known = state.transactions.get(app_id), theirs.transaction_version(app_id)
    if ours != known:
        yield f"version {state.version} has the watermark {ours} by its log, and {known} by delta-rs"
    live = Counter(str(key) for key in state.files.column("key").to_pylist())
    there = _live(theirs, root_of(state.location))
    for said, extra in (("its log", live - there), ("delta-rs", there - live)):
        if extra:
            yield f"version {state.version} has {extra.total()} live files by {said} alone, as {min(extra)}"


def _live(theirs: DeltaTable, root: str) -> Counter[str]:
    adds = pa.RecordBatchReader.from_stream(theirs.get_add_actions())
    return Counter(key_of(str(path), root) for batch in adds for path in batch.column("path").to_pylist())


def _vectors_differ(state: LogState, theirs: DeltaTable) -> Iterator[str]:
    """Compares which rows are deleted, file by file: neither reader says which vector it read."""
    if "deletionVectors" not in features_of(state.protocol):
        return
    # Here its paths are whole ones, in which links of the file system are resolved.
    keys, root = state.files.column("key").to_pylist(), root_of(Location(theirs.table_uri))
    ours = {str(key): vector for key, vector in zip(keys, vectors_of(state.files), strict=True) if vector is not None}
    for batch in pa.RecordBatchReader.from_stream(theirs.deletion_vectors()):
        for path, kept in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            key, lives = key_of(str(path), root), np.asarray(kept.values)
            if not _deletes(ours.pop(key, None), ~lives, state.location):
                yield f"version {state.version} has other deleted rows of {key} by its log than by delta-rs"
    for key in sorted(ours):
        yield f"version {state.version} has deleted rows of {key} by its log alone"


def _deletes(vector: Vector | None, rows: Mask, location: Location) -> bool:
    """Whether the vector deletes these rows and no others. `rows` ends at the last one."""
    if vector is None:
        return False
    try:
        return np.array_equal(mask_of(vector, len(rows), open_store(location), location), rows)
    except Corrupt:  # it has a row beyond these, or another number of them
        return False


def _why(state: LogState, text: str) -> str:
    named = sorted(name for name in features_of(state.protocol) if name.lower() in text.lower())
    return f"it does not read the feature {', '.join(named)}" if named else text.removeprefix(f"{_WHAT}: ")
