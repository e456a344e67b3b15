"""Lists in text and binary: what is written is read again, and what is not a list of one dimension is refused."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.serve.postgres.kinds import INT8, TEXT, Kind
from lakewarden.serve.postgres.parameters import items_of_binary
from lakewarden.serve.postgres.values import wire
from lakewarden.sql.dialect import items_of_text

_ITEMS = st.lists(st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0")), max_size=5)


def _sent(column: pa.ChunkedArray[Any], element: Kind, *, binary: bool) -> bytes:
    return bytes(wire(column, element.listed, binary=binary)[0].as_py())


@given(_ITEMS)
def test_a_list_is_read_as_it_was_written(items: list[str | None]) -> None:
    column = pa.chunked_array([pa.array([items], pa.list_(pa.string()))])
    text, binary = (_sent(column, TEXT, binary=form) for form in (False, True))
    assert items_of_text(text.decode()) == items
    assert [None if each is None else each.decode() for each in items_of_binary(binary)] == items


def test_as_postgresql_writes_it() -> None:
    assert items_of_text('{1,-2, NULL ,"a,\\"b\\\\",x y}') == ["1", "-2", None, 'a,"b\\', "x y"]
    assert items_of_text(" { } ") == []
    column = pa.chunked_array([pa.array([[1, None]], pa.list_(pa.int64()))])
    assert items_of_binary(_sent(column, INT8, binary=True)) == [b"\0\0\0\0\0\0\0\1", None]


@pytest.mark.parametrize("text", ["", "1,2", "{1", "{,}", "{1,}", '{1 2,"}', "{{1},{2}}", '{"a"b}', "[1:2]={1,2}"])
def test_no_list_in_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"list|value"):
        items_of_text(text)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        struct.pack("!iiIiiii", 2, 0, 20, 1, 1, 1, 1),
        struct.pack("!iiIii", 1, 0, 20, 1, 1),
        struct.pack("!iiIiii", 1, 0, 20, 1, 1, 8),
        struct.pack("!iiIiii", 1, 0, 20, 1, 1, -2),
        struct.pack("!iiIii", 1, 0, 20, 1 << 30, 1),
    ],
)
def test_no_list_in_binary(data: bytes) -> None:
    with pytest.raises((ValueError, struct.error)):
        items_of_binary(data)
