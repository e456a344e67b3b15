"""Reads from a Parquet file's footer how long a value of its columns may be, before anything is unpacked.

A file that was made to harm may hold one long value in a dictionary and mean it in each of its rows. pyarrow tells the sizes of
columns, too, and ends the process at footers that contradict themselves; this raises.

Sources: the Parquet format's `parquet.thrift` (FileMetaData, RowGroup, ColumnChunk, ColumnMetaData, PageHeader), and Thrift's
compact protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_STOP = 0
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_SIZES = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8}
"""Bytes of what has always as many; the value of a flag is its kind."""

_DEEPEST = 16

_ROW_GROUPS = 4
_COLUMNS = 1
_META_DATA = 3
_DICTIONARY_OFFSET = 11
_PACKED_SIZE = 2

Wanted = Mapping[int, Any]
"""The fields of a struct that are kept, by their ids: for structs and lists of them what is kept of those, else None."""

_NOTHING: Wanted = {}
_FOOTER: Wanted = {_ROW_GROUPS: {_COLUMNS: {_META_DATA: {_DICTIONARY_OFFSET: None}}}}


def longest_dictionary(data: bytes) -> int:
    """The bytes of the largest dictionary in the file: no value that stands in one is longer.

    Raises:
        ValueError: the file is no Parquet, or its footer is garbled.
    """
    size = int.from_bytes(data[-8:-4], "little")
    if data[-4:] != b"PAR1" or size + 12 > len(data):
        raise ValueError("it is no Parquet")
    try:
        footer, _ = _struct(data, len(data) - 8 - size, _FOOTER, 0)
        columns = [column for group in footer.get(_ROW_GROUPS, ()) for column in group.get(_COLUMNS, ())]
        offsets = {column.get(_META_DATA, {}).get(_DICTIONARY_OFFSET, 0) for column in columns}
        return max((_unpacked(data, offset) for offset in offsets if offset > 0), default=0)
    except (IndexError, TypeError, AttributeError) as error:
        raise ValueError("its footer is garbled") from error


def _unpacked(data: bytes, offset: int) -> int:
    """The bytes of the page there, unpacked, by its header."""
    page, _ = _struct(data, offset, {_PACKED_SIZE: None}, 0)
    return max(int(page.get(_PACKED_SIZE, 0)), 0)


def _struct(data: bytes, place: int, wanted: Wanted, depth: int) -> tuple[dict[int, Any], int]:
    found: dict[int, Any] = {}
    field = 0
    while (head := data[place]) != _STOP:
        place += 1
        if head >> 4:
            field += head >> 4
        else:
            field, place = _number(data, place)
        value, place = _value(data, place, head & 0x0F, wanted.get(field, _NOTHING), depth)
        if field in wanted:
            found[field] = value
    return found, place + 1


def _value(data: bytes, place: int, kind: int, wanted: Any, depth: int) -> tuple[Any, int]:
    """A value and the place behind it. Of structs and lists, nothing is kept but what is wanted of them."""
    if kind == _BINARY:
        size, place = _length(data, place)
        return None, place + size
    if depth > _DEEPEST:
        raise ValueError("its footer is nested too deep")
    if kind == _STRUCT:
        return _struct(data, place, wanted, depth + 1)
    if kind in (_LIST, _SET):
        count, each, place = _list(data, place)
        values = []
        for _ in range(count):
            value, place = _value(data, place, _BYTE if each in (_TRUE, _FALSE) else each, wanted, depth + 1)
            if wanted is not _NOTHING:
                values.append(value)
        return values, place
    if kind == _MAP:
        raise ValueError("its footer has a map")
    return (None, place + _SIZES[kind]) if kind in _SIZES else _number(data, place)


def _list(data: bytes, place: int) -> tuple[int, int, int]:
    head = data[place]
    count, place = head >> 4, place + 1
    if count == 0x0F:
        count, place = _length(data, place)
    if count > len(data) - place:
        raise ValueError("its footer has a list that is longer than the file")
    return count, head & 0x0F, place


def _length(data: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while (byte := data[place]) >= 0x80:
        number |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
    return number | byte << shift, place + 1


def _number(data: bytes, place: int) -> tuple[int, int]:
    number, place = _length(data, place)
    return (number >> 1) ^ -(number & 1), place
