"""The names of what can be wrong with a Delta table, and which of them make it a damaged one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from lakewarden.delta.replay.log_state import Note

DamageKind = Literal[
    "hollow",
    "size-differs",
    "vector-gone",
    "vector-short",
    "torn-commit",
    "checkpoint-unreadable",
    "checkpoint-contradicts",
    "last-checkpoint-wrong",
    "log-gap",
    "history-gap",
    "partition-value-nulled",
    "remove-without-vector",
    "duplicate-live-path",
    "removes-unknown",
    "case-clash",
    "outside-path",
    "unknown-feature",
    "unknown-action",
    "unknown-storage-type",
]
KINDS: tuple[DamageKind, ...] = get_args(DamageKind)

Verdict = Literal["sound", "damaged", "catalog", "unreadable"]
"""`catalog`: another catalog decides which commits it has. `unreadable`: no version of it opens, and no damage with a
name says why; or it has what is not known here, so that it may be sound for its own writer."""

UNKNOWN: tuple[DamageKind, ...] = ("unknown-feature", "unknown-action")
"""What another writer may understand, and this one does not: the table may be sound for that writer."""


def verdict_of(notes: Iterable[Note], *, opens: bool, catalog: bool) -> Verdict:
    """What the notes on a table come to.

    Args:
        opens: whether a version of it can be read.
        catalog: whether another catalog decides which commits it has, which no listing of the table shows.
    """
    if catalog:
        return "catalog"
    damaging = {note.kind for note in notes if note.damaging}
    if damaging.difference(UNKNOWN):
        return "damaged"
    return "unreadable" if damaging or not opens else "sound"
