"""What notes say of dead bytes and of prices: how long they are, and how those of earlier releases are read."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pyarrow as pa
import pytest

from lakewarden.catalog.state.floor import Floor
from lakewarden.catalog.state.floor_entries import AMOUNTS, NO_TABLE, UNSEEN, KnownScopes, KnownState, UpkeepNote
from lakewarden.catalog.state.floor_objects import encoded, packed
from lakewarden.catalog.state.floor_summaries import Totals
from lakewarden.storage.local import LocalObjects

_SCOPES = 5_000
_BEFORE = UpkeepNote(3, 3_000, 5, 1, 7, 1 << 62, 1 << 62, 9, 9)
_NOW = UpkeepNote(3, 3_000, 5, 1, 7, 1 << 62, 1 << 62, 9, 9, 2_000, 1_500, 3_000, 2, 3, 1)


def _mark(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()[:32]


def _noted(upkeep: UpkeepNote | None) -> KnownScopes:
    return KnownScopes.of({_mark(number): KnownState(2, 100, 10, upkeep=upkeep) for number in range(_SCOPES)})


def test_a_note_is_at_most_48_bytes_longer() -> None:
    before, now, stored = (len(encoded(_noted(each), {}, ())) for each in (_BEFORE, _NOW, None))
    assert before < now <= before + 48 * _SCOPES
    assert stored <= before, "a copy on a storage has no amounts"


@pytest.mark.disk
@pytest.mark.parametrize("upkeep", [_BEFORE, _NOW])
def test_notes_are_read_by_blocks_whichever_columns_they_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, upkeep: UpkeepNote
) -> None:
    monkeypatch.setattr("lakewarden.catalog.state.floor._SMALL", 0)
    Floor(LocalObjects(str(tmp_path)), "known/t").add(9, _noted(upkeep))
    found = Floor(LocalObjects(str(tmp_path)), "known/t").known([_mark(17)])
    assert found[_mark(17)].upkeep == upkeep


@pytest.mark.disk
def test_what_an_earlier_release_noted_is_unknown_and_joins_what_is_known(tmp_path: Path) -> None:
    store = LocalObjects(str(tmp_path))
    old = _noted(_BEFORE).table.drop_columns(list(AMOUNTS))
    store.create("known/t/00000000000000000001-a", packed(old, lambda _: old.schema))
    floor = Floor(store, "known/t")
    floor.add(3, {_mark(4): KnownState(3, 101, 10, upkeep=_NOW)})
    found = Totals.of(Floor(store, "known/t").look().all())
    assert (found.files, found.unseen) == (3 * _SCOPES, 0)
    assert (found.dead_bytes, found.dead_unknown) == (2_000, _SCOPES - 1)
    assert (found.compact.scopes, found.compact.files, found.compact.made, found.compact.bytes) == (1, 2, 1, 1_500)
    assert (found.optimize.files, found.optimize.made, found.optimize.unknown) == (3, 1, _SCOPES - 1)
    known = floor.look().known(_mark(5))
    assert known is not None
    assert known.upkeep is not None
    assert known.upkeep.dead_bytes == UNSEEN


def test_scopes_are_grouped_by_their_files() -> None:
    sizes = {1: (1, 100), 2: (1, 65_536), 3: (300, 300), 4: (2, 1 << 28), 5: (0, 0)}
    notes = {
        _mark(number): KnownState(0, 1, 1, upkeep=UpkeepNote(files, size, 0, 0, 0, 0, 0, 0, 0, 1 << number))
        for number, (files, size) in sizes.items()
    }
    found = Totals.of(KnownScopes.of(notes))
    assert found.file_sizes == (2, 1, 0, 0, 0, 1)
    assert found.file_counts == (2, 1, 0, 0, 0, 1)
    assert found.dead_since == {0: 2 + 4 + 8 + 16 + 32}
    assert pa.types.is_int32(KnownScopes.of(notes).table.schema.field("compact_files").type)


def test_sums_of_parts_are_those_of_their_union() -> None:
    chance = random.Random(7)
    parts = []
    for size in (40, 7, 0, 15, 1):
        marks = {_mark(number) for number in chance.sample(range(60), size)}
        parts.append(KnownScopes.of({mark: _any_note(chance) for mark in marks}))
    for some in ([], parts[:1], parts[:2], parts):
        assert Totals.of_parts(some) == Totals.of(KnownScopes.union(some))


def _any_note(chance: random.Random) -> KnownState:
    files = chance.randrange(4)
    amounts = [chance.choice((UNSEEN, 0, chance.randrange(1, 10**6))) for _ in range(6)]
    upkeep = UpkeepNote(
        files, files * 10**6, chance.randrange(9), 1, chance.randrange(9), 0, 0, chance.randrange(10**9), 0, *amounts
    )
    version = chance.choice((NO_TABLE, 1, 2, 3))
    return KnownState(version, chance.randrange(100), 10, forgotten=chance.random() < 0.2, upkeep=chance.choice((upkeep, None)))
