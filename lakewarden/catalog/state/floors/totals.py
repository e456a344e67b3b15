"""The sums over all scopes of a table, kept for one state of its floor: so that they are read without the floor's notes."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass

import msgspec
import numpy as np

from lakewarden.catalog.state.floors.entries import NO_TABLE, UNSEEN
from lakewarden.catalog.state.floors.floor import FloorScan
from lakewarden.catalog.state.floors.known_scopes import KnownScopes
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore

ROOT = "totals"


@dataclass(frozen=True)
class Totals:
    """What the state knows of all scopes of a table together, without those that were given up."""

    rows: int
    files: int
    bytes: int
    unseen: int
    """Scopes that were not looked at, so that their files and bytes are unknown."""
    committed_at: int
    """When the newest commit of ours was made that is known of, in milliseconds; 0 when none is."""

    @classmethod
    def of(cls, known: KnownScopes) -> Totals:
        there = ~known["forgotten"].astype(np.bool_) & (known["version"] != NO_TABLE)
        rows, files, size = (int(known[name][there].sum()) for name in ("rows", "files", "bytes"))
        unseen = int((known["looked_at"][there] == UNSEEN).sum())
        return cls(rows, files, size, unseen, int(known["committed_at"][there].max(initial=0)))


def find_totals(state: ObjectStore, table_id: str, scan: FloorScan) -> Totals | None:
    """Returns the sums for a floor of these objects."""
    try:
        return msgspec.json.decode(state.get(_key(table_id, scan)), type=Totals)
    except (Missing, msgspec.DecodeError):
        return None


def keep_totals(state: ObjectStore, table_id: str, scan: FloorScan, totals: Totals) -> None:
    """Replaces the table's sums by these."""
    remove_totals(state, table_id)
    with suppress(AlreadyThere):  # another process added them up too
        state.create(_key(table_id, scan), json.dumps(asdict(totals)).encode())


def remove_totals(state: ObjectStore, table_id: str) -> None:
    state.delete([found.key for found in state.list(f"{ROOT}/{table_id}")])


def _key(table_id: str, scan: FloorScan) -> str:
    objects = hashlib.sha256("\n".join(sorted(scan.names)).encode()).hexdigest()[:32]
    return f"{ROOT}/{table_id}/{objects}"
