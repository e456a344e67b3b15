"""A bit of a log's object that turned over is found, by the object's name, or says nothing: no other row, no other user."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.base.clock import random_id
from lakewarden.errors import Corrupt
from lakewarden.log.chunk import Chunk
from lakewarden.log.objects import pack, segment
from lakewarden.log.objects.cut import LogCut, decode_cut, encode_cut
from lakewarden.log.objects.header import ID_BYTES, Header
from lakewarden.log.objects.pack import FIXED, SUM_BYTES, CarriedChunk, behind, pack_carry, pack_naming, pack_segment
from lakewarden.log.objects.segment import copied_chunks, read_carry, read_chunk, read_segment
from lakewarden.log.once import StagedPiece, WriterBatch
from lakewarden.storage.objects import Missing
from tests.log.build import Store, resummed, with_its_sum

_PUT, _BEFORE = "ab" * 16, "cd" * 9 + "00" * 7
_USERS = ["ann", "bob", "anç", "a", "ann", "zoe"]
_ROWS = [b"row %06d" % at * 3 for at in range(len(_USERS))]
_KEY = "log/x/segments/1"

Shape = tuple[bytes, Callable[[Store, str], Header]]


def _segment(store: Store, key: str) -> Header:
    return read_segment(store, key, 7)


def _shapes() -> dict[str, Shape]:
    """Of each kind one object."""
    chunks = [Chunk(user, 1 + at, _ROWS[at]) for at, user in enumerate(_USERS)]
    carried = [with_its_sum(CarriedChunk(each.user, each.rows, each.data, at << 29, 3, 5)) for at, each in enumerate(chunks)]
    pieces = [StagedPiece(3, "ann", 0, 4, 100, 60), StagedPiece(3, "bob", 1, 5, 100, 60)]
    return {
        "segment": (pack_segment(_PUT, 3, 5, chunks, after=_BEFORE), _segment),
        "segment of format 1": (pack_segment(_PUT, 3, 5, chunks, segment_format=1), _segment),
        "naming": (pack_naming(_PUT, 5, pieces, WriterBatch("w", 4), after=_BEFORE), _segment),
        "carry": (pack_carry(_PUT, carried), read_carry),
    }


def _content(store: Store, read: Callable[[Store, str], Header]) -> object:
    """What there is; of each chunk the message, behind which Arrow reads nothing."""
    header = read(store, _KEY)
    sizes = [len(each) for each in _ROWS]
    rows = [bytes(read_chunk(store, each))[:size] for each, size in zip(header.ranges, sizes, strict=False) if each.key == _KEY]
    return header.put_id, header.after, header.published, [tuple(each) for each in header.ranges], rows


def _put(store: Store, data: bytes) -> None:
    store.delete([_KEY])
    store.create(_KEY, data)


@pytest.mark.parametrize("many", [1000, 4])
@pytest.mark.parametrize("kind", ["segment", "segment of format 1", "naming", "carry"])
def test_a_bit_that_turned_over_is_found_or_says_nothing(
    store: Store, kind: str, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "MANY", many)
    monkeypatch.setattr(pack, "MANY", many)
    data, read = _shapes()[kind]
    _put(store, data)
    right = _content(store, read)

    @given(st.integers(0, len(data) - 1), st.integers(0, 7))
    def turned(at: int, bit: int) -> None:
        _put(store, data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
        try:
            found = _content(store, read)
        except Corrupt as error:
            found = right if _KEY in error.message else error
        of_link = FIXED.size <= at < FIXED.size + ID_BYTES  # not summed with an index: the object before shows it
        assert found == right or (many == 4 and of_link)

    turned()


@pytest.mark.parametrize("kind", ["segment", "carry"])
def test_an_object_of_an_earlier_release_has_no_sums_and_is_read(store: Store, kind: str) -> None:
    data, read = _shapes()[kind]
    _put(store, data)
    right = _content(store, read)
    start = FIXED.size + (ID_BYTES if kind == "segment" else 0)
    _put(store, _earlier(data, start, read(store, _KEY)))
    found = read(store, _KEY)
    assert [bytes(read_chunk(store, each)) for each in found.ranges] == right[-1]  # type: ignore[index]
    assert [(each.user, each.rows, each.first_seq) for each in found.ranges] == [
        (user, rows, first)
        for _, _, user, rows, _, _, first, *_ in right[-2]  # type: ignore[index]
    ]


def _earlier(data: bytes, start: int, header: Header) -> bytes:
    """The object as releases before wrote it."""
    end = start + int.from_bytes(data[8:12], "little")
    text = re.sub(rb',"sum":"[0-9a-f]{8}"', b"", data[start:end])
    lengths = [each.length for each in header.ranges]
    before = ",".join(map(str, lengths)).encode()
    text = text.replace(before, ",".join(str(each - SUM_BYTES) for each in lengths).encode())
    text = text.rstrip() + b" " * (-len(text.rstrip()) % 8)
    chunks = [data[each.offset : each.offset + each.length - SUM_BYTES] for each in header.ranges]
    return data[:8] + len(text).to_bytes(4, "little") + data[12:start] + text + b"".join(chunks)


def test_a_chunk_with_another_id_is_garbled_where_the_object_is_the_same(store: Store) -> None:
    data, read = _shapes()["segment"]
    _put(store, data)
    (first, *_) = read(store, _KEY).ranges
    _put(store, data[: first.offset] + b"\0" + data[first.offset + 1 :])
    with pytest.raises(Corrupt, match="garbled"):
        read_chunk(store, first)
    _put(store, resummed(data.replace(bytes.fromhex(_PUT), bytes.fromhex(random_id()))))
    with pytest.raises(Missing):
        read_chunk(store, first)


@pytest.mark.parametrize("many", [1000, 4])
def test_what_is_garbled_is_so_wherever_it_moves(store: Store, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "MANY", many)
    monkeypatch.setattr(pack, "MANY", many)
    data, read = _shapes()["segment"]
    ranges = _put_and_read(store, data.replace(_ROWS[2], b"R" + _ROWS[2][1:]), read).ranges
    copies = [*copied_chunks(store, ranges)]
    moved = pack_carry(
        _PUT, [CarriedChunk(each.user, each.rows, copy, 0, 1, 0) for each, copy in zip(ranges, copies, strict=True)]
    )
    for each in _put_and_read(store, moved, read_carry).ranges:
        if each.rows == 3:
            with pytest.raises(Corrupt, match="garbled"):
                read_chunk(store, each)
        else:
            assert bytes(read_chunk(store, each)) == _ROWS[each.rows - 1]


def test_a_chunk_of_an_earlier_release_has_a_sum_once_it_moved(store: Store) -> None:
    data, read = _shapes()["segment"]
    header = _put_and_read(store, data, read)
    copies = [*copied_chunks(store, _put_and_read(store, _earlier(data, FIXED.size + ID_BYTES, header), read).ranges)]
    assert [bytes(each) for each in copies] == [row + behind(row) for row in _ROWS]


def _put_and_read(store: Store, data: bytes, read: Callable[[Store, str], Header]) -> Header:
    _put(store, data)
    return read(store, _KEY)


@given(st.integers(0, 10_000), st.integers(0, 7))
def test_a_cut_is_whole_or_corrupt(at: int, bit: int) -> None:
    cut = LogCut(3, 17, ("carry/1",), {"ann": 5}, ("0123456789ab",), closed=("ff",), rewound={"*": 4}, published={"w": 9})
    data = encode_cut(cut)
    at %= len(data)
    assert decode_cut("c", 3, data) == cut
    with suppress(Corrupt):
        assert decode_cut("c", 3, data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]) == cut
