"""A file that is read in pieces has the same records as one that is read at once, each at its own line."""

from __future__ import annotations

import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.errors import InvalidArgument
from lakewarden.rows import records
from lakewarden.rows.records import Block, Records, count, record_lines

_VALUES = st.lists(st.sampled_from(["a", "", '"b\nc"', '""', '"x""y\n\n"', "é"]), min_size=2, max_size=2).map(",".join)
_FILES = st.tuples(st.lists(_VALUES, max_size=8), st.sampled_from(["\n", "\r\n", ""])).map(
    lambda parts: ("\n".join(parts[0]) + parts[1]).encode()
)


def _whole(data: bytes) -> list[tuple[int, bytes]]:
    """Each record with its line, by the simplest reading."""
    found, line, held, first = [], 1, b"", 1
    for piece in data.splitlines(keepends=True) if b"\r" not in data else data.replace(b"\r\n", b"\n").splitlines(keepends=True):
        first = first if held else line
        held, line = held + piece, line + 1
        if held.count(b'"') % 2 == 0:
            found.append((first, held))
            held = b""
    return [(line, record) for line, record in found + ([(first, held)] if held else []) if record.strip(b"\n")]


def _in_blocks(blocks: list[Block]) -> list[tuple[int, bytes]]:
    found = []
    for block in blocks:
        own = [record for _, record in _whole(block.data)]
        found += list(zip(record_lines(block, quotes=True).tolist(), own, strict=True))
    return found


@given(data=_FILES, cuts=st.sets(st.integers(1, 60)), block=st.integers(1, 20))
def test_pieces_have_the_records_of_the_file(data: bytes, cuts: set[int], block: int) -> None:
    ends = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "BLOCK_BYTES", block)
        blocks: list[Block] = []
        quotes, line = 0, 1
        for first, last in pairwise(ends):
            file = io.BytesIO(data)
            file.seek(first)
            reader = Records(file, quotes=True, inside=quotes % 2 == 1, line=line)
            if first:
                reader.skip_one()
            blocks += reader.blocks(last - file.tell())
            found = count(io.BytesIO(data), first, last)
            quotes, line = quotes + found.quotes, line + found.breaks
    assert _in_blocks(blocks) == _whole(data)


def test_an_open_quote_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="opened on or after line 2 is never closed"):
        list(Records(io.BytesIO(b'1,a\n2,"b\n3,c\n'), quotes=True).blocks())


def test_a_record_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "BLOCK_BYTES", 4)
    with pytest.raises(InvalidArgument, match="a record from line 1 on"):
        list(Records(io.BytesIO(b"a" * 32), quotes=True, longest=8).blocks())
