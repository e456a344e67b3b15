"""The body of a message of Arrow: where the values of a few columns are in its bytes.

For each column a bitmap of what is not NULL (absent where nothing is), for text the places at which values end, and the
values; each padded to eight bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Block = NDArray[np.uint8]


def is_known(kind: pa.DataType) -> bool:
    """Whether columns of this type have the buffers that are known here."""
    return pa.types.is_primitive(kind) or pa.types.is_decimal128(kind) or _is_text(kind)


def variable_bytes(data: pa.Table, which: Numbers, users: int) -> list[Numbers]:
    """What makes messages of as many rows differ in their form: for each user, the NULLs and the bytes of text in each column.

    Args:
        which: for each row, the place of its user.
    """
    found = []
    for column in data.columns:
        array: Any = column.combine_chunks()
        if array.null_count:
            found.append(np.bincount(which, _unset(array), users).astype(np.int64))
        if _is_text(array.type):
            lengths = np.diff(_ends(array)) * (1 - _unset(array))  # a NULL may have bytes, which are not encoded
            found.append(np.bincount(which, lengths, users).astype(np.int64))
    return found


@dataclass(frozen=True)
class Body:
    """Rows, from which bodies are made."""

    columns: tuple[_Column, ...]

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> Body:
        return cls(tuple(_Column.of(column) for column in rows.columns))

    def fill(self, messages: Block, start: int, rows: int) -> None:
        """Writes the values of neighbouring users into their messages.

        Args:
            messages: one in each line, of the same form, for the same number of rows.
            start: where the first user's rows begin.
        """
        parts = [part for column in self.columns for part in column.parts(start, len(messages), rows)]
        at = messages.shape[1] - sum(_padded(part.shape[1]) for part in parts)
        for part in parts:
            messages[:, at : at + part.shape[1]] = part
            at += _padded(part.shape[1])


@dataclass(frozen=True)
class _Column:
    values: Block
    """A line for each row: its bytes, or one bit; of text, all bytes in one line."""
    ends: NDArray[np.int32] | None
    """Of text: where the first value begins, and where each ends."""
    is_bits: bool
    unset: Block
    """Of each row, whether it is NULL."""

    @classmethod
    def of(cls, array: pa.Array[Any]) -> _Column:
        unset, data = _unset(array), array.buffers()[-1]
        if _is_text(array.type):
            return cls(_bytes(data)[None, :], _ends(array), False, unset)
        if pa.types.is_boolean(array.type):
            return cls((_bits(data, array.offset, len(array)) & (1 - unset))[:, None].astype(np.uint8), None, True, unset)
        width = array.type.bit_width // 8
        values = _bytes(data)[array.offset * width : (array.offset + len(array)) * width].reshape(-1, width)
        return cls(values, None, False, unset)

    def parts(self, start: int, users: int, rows: int) -> Iterator[Block]:
        """The column's buffers, a line for each user; those without a byte are left out."""
        end = start + users * rows
        if self.unset[start : start + rows].any():
            yield _packed(1 - self.unset[start:end].reshape(users, rows))
        if self.ends is None:
            values = self.values[start:end].reshape(users, -1)
            yield _packed(values) if self.is_bits else values
            return
        begins = self.ends[start:end].reshape(users, rows)
        lasts = self.ends[start + rows : end + 1 : rows]
        ends = np.column_stack([begins, lasts]) - begins[:, :1]
        yield np.ascontiguousarray(ends, np.int32).view(np.uint8)
        if size := (int(self.ends[end]) - int(self.ends[start])) // users:
            yield self.values[0, self.ends[start] : self.ends[end]].reshape(users, size)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_binary(kind)


def _padded(size: int) -> int:
    return -(-size // 8) * 8


def _packed(bits: Block) -> Block:
    return np.packbits(bits, axis=1, bitorder="little")


def _ends(array: Any) -> NDArray[np.int32]:
    found: NDArray[np.int32] = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    return found


def _unset(array: pa.Array[Any]) -> Block:
    valid = array.buffers()[0]
    return np.zeros(len(array), np.uint8) if valid is None else np.uint8(1) - _bits(valid, array.offset, len(array))


def _bits(data: Any, start: int, count: int) -> Block:
    found: Block = np.unpackbits(_bytes(data), bitorder="little", count=start + count)[start:]
    return found


def _bytes(data: Any) -> Block:
    return np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
