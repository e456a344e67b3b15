"""A bit of a warehouse's object that turned over is found by every read, by the object's name, or changes no answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from lakewarden import Lakehouse
from lakewarden.catalog.state.floor import floor_at
from lakewarden.errors import LakewardenError
from tests.fixtures.gate import often
from tests.fixtures.lakes import NOTES, Rows, make_notes, notes, strong

pytestmark = pytest.mark.disk

NAMED = ("catalog", "segments", "cuts", "parquet")
"""Families whose objects have checksums. A message names the object; of the others, what does not fit."""


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    with Lakehouse.open(str(tmp_path)) as lake:
        table = make_notes(lake)
        for number, text in enumerate(("one", "two")):
            for user in ("ann", "bob"):
                table.write(notes({number: f"{text} of {user}"}), user=user)
            lake.flush()
        table.write(notes({2: "three of ann"}), user="ann")
        table.write(notes({2: "three of bob"}), user="bob")
        lake.flush(NOTES, user="ann")
    return tmp_path


def answers(warehouse: Path) -> dict[str, Rows]:
    floor_at.cache_clear()
    with Lakehouse.open(str(warehouse)) as lake:
        return {user: strong(lake.table(NOTES), user) for user in ("ann", "bob")}


def said(warehouse: Path, name: str) -> dict[str, Rows] | str:
    """The answers; or the code of the error, where it names that."""
    try:
        return answers(warehouse)
    except LakewardenError as error:
        return error.code if name in error.message else f"unnamed: {error}"


def garbled(path: Path, random: Random, tries: int) -> Iterator[tuple[int, int]]:
    """The file, with one bit after another turned over; whole again at the end."""
    data = path.read_bytes()
    try:
        for _ in range(tries):
            at, bit = random.randrange(len(data)), random.randrange(8)
            path.write_bytes(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
            yield at, bit
    finally:
        path.write_bytes(data)


@pytest.mark.slow
@often("LAKEWARDEN_GARBLED", "tries", gate=4, night=12)
@pytest.mark.parametrize("family", [*NAMED, "history", "known", ".lakewarden-floor", "manifest.json"])
def test_no_answer_is_another_one(warehouse: Path, family: str, tries: int) -> None:
    right = answers(warehouse)
    paths = [path for path in sorted(warehouse.rglob("*")) if path.is_file() and family in str(path.relative_to(warehouse))]
    assert paths
    for path in paths:
        for at, bit in garbled(path, Random(family), tries):
            assert said(warehouse, path.name if family in NAMED else "") in (right, "CORRUPT"), (path, at, bit)
    assert answers(warehouse) == right
