"""Deletion vectors in each form of storage and of container, and each way in which one can be damaged."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lakewarden.delta.replay.actions import Vector
from lakewarden.delta.replay.vectors import mask_of, vector_key, z85
from lakewarden.errors import Corrupt, Unsupported
from lakewarden.storage.open import open_store
from tests.delta import hand_written
from tests.delta.hand_written import HandWritten, bitmap, runs
from tests.fixtures.examples import examples


@pytest.fixture
def table(tmp_path: Path) -> HandWritten:
    return HandWritten(tmp_path / "t")


def deleted(table: HandWritten, vector: Vector, rows: int) -> list[int]:
    return [int(row) for row in np.flatnonzero(mask_of(vector, rows, open_store(table.location), table.location))]


def _inline(data: bytes, count: int) -> Vector:
    return Vector("i", hand_written.z85(data), len(data), count)


@pytest.mark.parametrize("count", [0, 1, 3, 4096, 4097, 150_000])
def test_rows_of_containers_as_arrays_and_as_bits(table: HandWritten, count: int) -> None:
    rows = sorted(random.Random(count).sample(range(200_000), count))
    assert deleted(table, _inline(bitmap(rows), count), 200_000) == rows


def test_rows_of_runs(table: HandWritten) -> None:
    assert deleted(table, _inline(runs((0, 2), (7, 1), (20, 3)), 6), 30) == [0, 1, 7, 20, 21, 22]


def test_rows_behind_32_bits_are_of_no_file_here(table: HandWritten) -> None:
    with pytest.raises(Corrupt, match="row 4294967301 of a file of 10"):
        deleted(table, _inline(bitmap([1, (1 << 32) + 5]), 2), 10)


def test_z85_is_that_of_its_specification() -> None:
    assert z85("HelloWorld") == bytes([0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B])
    assert z85("HelloWorld##093") == z85("HelloWorld") + bytes([3, 0])
    for text in ("Hello World", "é1234", "12", "%nSc1"):
        with pytest.raises(Corrupt, match="not in base 85"):
            z85(text)


def test_a_file_of_the_protocols_own_example(table: HandWritten) -> None:
    """Delta's protocol, "JSON Example 1 — On Disk with Relative Path (with Random Prefix)"."""
    vector = Vector("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 6, 4)
    assert vector_key(vector, table.location) == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert vector.id == "uab^-aqEH.-t@S}K{vb[*k^@4"


Harm = Callable[[bytes], bytes]

HARMS: dict[str, Harm] = {
    "cut off": lambda data: data[:-1],
    "its size": lambda data: data[:1] + struct.pack(">I", 3) + data[5:],
    "its checksum": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "a bit": lambda data: data[:30] + bytes([data[30] ^ 1]) + data[31:],
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_file_is_named(table: HandWritten, harm: str) -> None:
    size = table.vector("v.bin", bitmap([1, 5]))
    vector = Vector("p", f"{table.path}/v.bin", size, 2, 1)
    assert deleted(table, vector, 9) == [1, 5]
    place = table.path / "v.bin"
    place.write_bytes(HARMS[harm](place.read_bytes()))
    with pytest.raises(Corrupt, match="vector-short"):
        deleted(table, vector, 9)
    place.unlink()
    with pytest.raises(Corrupt, match="vector-gone"):
        deleted(table, vector, 9)


def test_what_the_log_says_of_a_vector_is_compared(table: HandWritten) -> None:
    data = bitmap([1, 5])
    with pytest.raises(Corrupt, match="has 2 rows, and the log says that it has 3"):
        deleted(table, _inline(data, 3), 9)
    with pytest.raises(Corrupt, match="row 5 of a file of 5"):
        deleted(table, _inline(data, 2), 5)
    with pytest.raises(Corrupt, match="vector-short"):
        deleted(table, Vector("i", hand_written.z85(data), len(data) + 100, 2), 9)
    with pytest.raises(Unsupported, match="unknown-storage-type"):
        deleted(table, Vector("r", "x", 1, 1), 9)
    with pytest.raises(Unsupported, match="format 1681511376"):
        deleted(table, _inline(struct.pack("<IQ", 1681511376, 0), 0), 9)


@pytest.mark.parametrize("size", [-1, 1 << 40])
def test_a_size_that_no_vector_has_is_refused(table: HandWritten, size: int) -> None:
    with pytest.raises(Unsupported, match="bytes; at most"):
        deleted(table, Vector("i", "", size, 0), 9)


@pytest.mark.slow
def test_garbage_ends_in_an_error_with_a_name(table: HandWritten) -> None:
    chance = random.Random(38)
    data = bitmap(chance.sample(range(100_000), 5_000))
    for _ in range(examples(300)):
        place = chance.randrange(len(data))
        harmed = data[:place] + chance.randbytes(chance.randrange(9)) + data[place + chance.randrange(9) :]
        try:
            deleted(table, _inline(harmed, 5_000), 100_000)
        except (Corrupt, Unsupported):
            continue
