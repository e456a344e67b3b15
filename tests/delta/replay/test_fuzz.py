"""Logs that are mutated at random: each ends in an error of ours or in the version that delta-rs reads, too.

`make torture` tries 100,000 (`LAKEWARDEN_LOGS`).
"""

from __future__ import annotations

import os
import random
import shutil
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakewarden.base.connection import Location
from lakewarden.delta.examination.file_notes import of_contents
from lakewarden.delta.examination.listing import TableListing
from lakewarden.delta.reading.foreign import open_foreign
from lakewarden.delta.replay.columns import all_rows
from lakewarden.delta.replay.log_state import replay
from lakewarden.errors import LakewardenError
from lakewarden.storage.open import open_store
from tests.delta.hand_written import ID, HandWritten, bitmap, inline
from tests.fixtures.examples import examples

LOGS = int(os.environ.get("LAKEWARDEN_LOGS", examples(120)))
_COMPARED = 4
"""Of so many logs one is read by delta-rs, too, which takes most of the time."""


@pytest.fixture
def original(tmp_path: Path) -> Path:
    """Seven versions with a checkpoint among them, partitions, and a vector."""
    path = tmp_path / "original"
    for number in range(6):
        write_deltalake(path, pa.table({"id": [number], "p": ["a b"]}), mode="append", partition_by=["p"])
    DeltaTable(path, version=3).create_checkpoint()
    shutil.copytree(path, tmp_path / "copy")
    table = HandWritten.__new__(HandWritten)
    table.path, table.log = path, path / "_delta_log"
    table.commit(6, table.file("p=c/v.parquet", [1, 2], partition={"p": "c"}, vector=inline(bitmap([1]), 1)))
    return path


def _mutated(data: bytes, chance: random.Random) -> bytes:
    place, length = chance.randrange(len(data)), chance.choice((1, 1, 2, 8, 60))
    match chance.randrange(6):
        case 0:
            return data[:place]
        case 1:
            return data[:place] + chance.randbytes(length) + data[place + length :]
        case 2:
            return data[:place] + data[place + length :]
        case 3:
            return data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]
        case 4:
            lines = data.splitlines(keepends=True)
            chance.shuffle(lines)
            return b"".join(lines)
    words = (b"null", b"-1", b'"x"', b"{}", b"[]", b"1e99", b"99999999999999999999", b'"../x"', b"true")
    colon = data.find(b":", place)
    end = min((found for mark in b",}" if (found := data.find(bytes([mark]), colon)) > 0), default=colon)
    return data[: colon + 1] + chance.choice(words) + data[end:]


@pytest.mark.slow
def test_a_mutated_log_ends_in_an_error_of_ours_or_in_the_right_version(original: Path) -> None:
    chance = random.Random(os.environ.get("LAKEWARDEN_SEED", "38"))
    names = sorted(entry.name for entry in (original / "_delta_log").iterdir() if entry.is_file())
    texts = {name: (original / "_delta_log" / name).read_bytes() for name in names}
    for number in range(LOGS):
        name = chance.choice(names)
        place = original / "_delta_log" / name
        if chance.random() < 0.1:
            place.unlink()
        else:
            place.write_bytes(_mutated(texts[name], chance))
        _check(original, compare=number % _COMPARED == 0)
        place.write_bytes(texts[name])


def test_a_mutated_data_file_ends_in_an_error_of_ours_or_in_rows(tmp_path: Path) -> None:
    """Its footer above all: pyarrow ends the process where it is asked for a column of one that contradicts itself."""
    chance = random.Random(os.environ.get("LAKEWARDEN_SEED", "38"))
    table = HandWritten(tmp_path / "t")
    texts = {"type": "array", "elementType": "string", "containsNull": True}
    fields = [*ID, {"name": "s", "type": texts, "nullable": True, "metadata": {}}]
    rows = pa.table({"id": pa.array(range(40), pa.int64()), "s": [[f"x{number}"] for number in range(40)]})
    table.begin(table.file("a.parquet", rows), fields=fields)
    data = (table.path / "a.parquet").read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    state = replay(table.location)
    assert state is not None
    for _ in range(LOGS * 5):
        place = chance.choice((chance.randrange(len(data)), chance.randrange(footer, len(data))))
        (table.path / "a.parquet").write_bytes(data[:place] + chance.randbytes(1) + data[place + 1 :])
        with suppress(LakewardenError):
            all_rows(state)
        list(of_contents(state, TableListing.of(open_store(table.location).list("")).files))


def _check(path: Path, *, compare: bool) -> None:
    try:
        state = replay(Location(str(path)))
        all_rows(open_foreign(Location(str(path))))
    except LakewardenError:
        return
    if not compare or state is None:
        return
    try:
        theirs = DeltaTable(path, version=state.version)
        adds = pa.RecordBatchReader.from_stream(theirs.get_add_actions()).read_all()
    except BaseException:  # noqa: BLE001  # it panics at some: a verdict, too
        return
    live = sorted(unquote(str(one)) for one in adds.column("path").to_pylist())
    assert live == sorted(unquote(str(one)) for one in state.files.column("path").to_pylist())
