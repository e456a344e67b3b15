"""Rows of many users in one call: encoded by columns, they are byte for byte what they are user by user."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakewarden.base.setting_sections import LogSettings
from lakewarden.log import crowd, record
from lakewarden.log.chunk import Chunk
from lakewarden.log.crowd import Crowd, crowd_of, names_in, rows_in
from lakewarden.log.objects import pack, segment
from lakewarden.log.objects.group import parcels_of
from lakewarden.log.objects.pack import INDEXED, LINKED, pack_segment
from lakewarden.log.objects.segment import read_segment
from lakewarden.log.position import seq_of
from lakewarden.log.record import OP, USER, LogBatch, encode
from lakewarden.storage.objects import ObjectStore
from tests.log.build import Store

_USERS = 40

_COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "yes": (pa.bool_(), [True, False, None]),
    "small": (pa.int16(), [1, -2, None]),
    "whole": (pa.int64(), [1 << 40, -1]),
    "half": (pa.float32(), [0.5, None]),
    "exact": (pa.decimal128(20, 2), [Decimal("1.25"), Decimal("-7"), None]),
    "day": (pa.date32(), [date(2026, 1, 1), None]),
    "at": (pa.timestamp("us", "UTC"), [datetime(2026, 1, 1, tzinfo=UTC)]),
    "text": (pa.string(), ["", "a", "ü😀 and more than eight bytes", None]),
    "raw": (pa.binary(), [b"\0", b""]),
    OP: (pa.int8(), [0]),
}


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd, "MANY", 4)
    monkeypatch.setattr(crowd, "_USERS_OF_A_SHAPE", 0)


def _batch(rows: int = 300, column: str | None = None) -> LogBatch:
    random = np.random.default_rng(rows)
    chosen = {name: _COLUMNS[name] for name in _COLUMNS if column in (None, name)}
    columns = {
        name: pa.array([values[at] for at in random.integers(0, len(values), rows)], kind)
        for name, (kind, values) in chosen.items()
    }
    users = [f"u{number}" for number in random.integers(0, _USERS, rows)]
    return LogBatch(1, pa.table({**columns, USER: pa.array(users, pa.string())}))


def _alone(batch: LogBatch, monkeypatch: pytest.MonkeyPatch) -> list[Chunk]:
    with monkeypatch.context() as patch:
        patch.setattr(record, "crowd_of", lambda *_: None)
        return sorted(Chunk(user, rows, bytes(data)) for user, rows, data in encode(batch, LogSettings()))


@pytest.mark.parametrize("column", [*_COLUMNS, None])
def test_each_user_has_the_bytes_that_the_rows_have_alone(column: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for rows in (60, 300):
        batch = _batch(rows, column)
        found = encode(batch, LogSettings())
        assert isinstance(found, Crowd)
        assert sorted(Chunk(user, count, bytes(data)) for user, count, data in found) == _alone(batch, monkeypatch)
        assert (len(found), rows_in(found), sorted(names_in(found))) == (
            len(set(names_in(found))),
            rows,
            sorted(set(names_in(found))),
        )


def test_values_that_a_null_covers_are_not_encoded() -> None:
    secret = pa.array([b"secret" + bytes([at]) for at in range(60)], pa.binary())
    hidden = pa.Array.from_buffers(secret.type, 60, [pa.py_buffer(bytes(8)), *secret.buffers()[1:]], null_count=60)
    numbers = pa.Array.from_buffers(pa.int64(), 60, [pa.py_buffer(bytes(8)), pa.py_buffer(b"secret!!" * 60)], null_count=60)
    users = pa.array([f"u{number % 20}" for number in range(60)], pa.string())
    batch = LogBatch(1, pa.table({"raw": hidden, "number": numbers, OP: pa.array([0] * 60, pa.int8()), USER: users}))
    found = encode(batch, LogSettings())
    assert isinstance(found, Crowd)
    assert not any(b"secret" in bytes(chunk.data) for chunk in found)


def test_parts_keep_to_the_limits_and_lose_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = _batch()
    settings = LogSettings(segment_max_rows=64, segment_max_bytes=16 << 10)
    parcels = parcels_of(1, encode(batch, settings), settings)
    chunks = [Chunk(user, rows, bytes(data)) for parcel in parcels for user, rows, data in parcel.chunks]
    assert sorted(chunks) == _alone(batch, monkeypatch)
    assert all(isinstance(parcel.chunks, Crowd) for parcel in parcels)
    assert all(parcel.rows <= 64 and parcel.bytes <= 16 << 10 for parcel in parcels)
    assert all(one.rows + other.rows > 64 or one.bytes + other.bytes > 16 << 10 for one, other in pairwise(parcels))
    assert [(parcel.rows, parcel.bytes) for parcel in parcels] == [
        (sum(chunk.rows for chunk in parcel.chunks), sum(len(chunk.data) for chunk in parcel.chunks)) for parcel in parcels
    ]


@pytest.mark.parametrize(("format_", "many"), [(INDEXED, 4), (INDEXED, 1000), (LINKED, 4)])
def test_a_segment_holds_them_with_an_index_and_without(
    format_: int, many: int, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack, "MANY", many)
    monkeypatch.setattr(segment, "MANY", many)
    chunks = encode(_batch(), LogSettings())
    store.create("crowd", pack_segment("ab" * 16, 3, 5, chunks, segment_format=format_))
    store.create("list", pack_segment("ab" * 16, 3, 5, [*chunks], segment_format=format_))
    assert store.get("crowd") == store.get("list")
    header = read_segment(store, "crowd", 7)
    first = seq_of(7, 0)
    for chunk in chunks:
        (there,) = header.of({chunk.user})
        assert (there.first_seq, there.rows, store.get_range("crowd", there.offset + 16, there.length - 24)) == (
            first,
            chunk.rows,
            chunk.data,
        )
        first += chunk.rows


@pytest.fixture
def store(tmp_path: Any) -> ObjectStore:
    return Store(tmp_path)


def test_it_is_not_tried_where_it_does_not_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"id": pa.array(range(100), pa.int64()), OP: pa.array([0] * 100, pa.int8())})
    users, which = pa.array([f"u{number}" for number in range(50)]), np.arange(100) % 50
    assert crowd_of(rows, users, which, 2) is not None
    assert crowd_of(rows, users, which, 1) is None, "a user has more rows than fit a chunk"
    assert crowd_of(rows.append_column("list", pa.array([[1]] * 100)), users, which, 2) is None
    monkeypatch.setattr(crowd, "MANY", 51)
    assert crowd_of(rows, users, which, 2) is None
    monkeypatch.setattr(crowd, "MANY", 4)
    monkeypatch.setattr(crowd, "_USERS_OF_A_SHAPE", 51)
    assert crowd_of(rows, users, which, 2) is None


def test_another_layout_of_arrow_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakewarden.log.crowd._padded", lambda size: -(-size // 64) * 64)
    batch = _batch(60)
    assert not isinstance(encode(batch, LogSettings()), Crowd)
