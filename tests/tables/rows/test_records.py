"""A file that is read in pieces has the same records as one that is read at once, each at its own line."""

from __future__ import annotations

import csv
import io
from itertools import pairwise

import pyarrow.csv as pc_csv
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakewarden.errors import InvalidArgument
from lakewarden.tables.rows import records
from lakewarden.tables.rows.records import CSV_LINES, RecordBlock, RecordForm, Records, State, count, record_lines

_PARTS = ["a", "", '"b\nc"', '"d\re"', '""', '"x""y\n\n"', "é", '5"', 'a""b', '"q"r"s']
_VALUES = st.lists(st.sampled_from(_PARTS), min_size=2, max_size=2)
_ENDS = st.sampled_from(["\n", "\r", "\r\n"])
_LINES = st.lists(st.tuples(_VALUES.map(",".join), _ENDS), max_size=8).map(lambda lines: "".join(map("".join, lines)).encode())
_WILD = st.text(st.sampled_from('a,"\r\n'), max_size=24).map(str.encode)


def _oracle(data: bytes) -> list[tuple[int, bytes]] | None:
    """Each record that is not empty with its line, letter by letter; None where a quote is never closed."""
    found, held, line, first, state = list[tuple[int, bytes]](), b"", 1, 1, "start"
    for at in range(len(data)):
        letter, after = data[at : at + 1], data[at + 1 : at + 2]
        held += letter
        if letter == b"\n" or (letter == b"\r" and after != b"\n"):
            line += 1
        if state == "quoted":
            state = "quote" if letter == b'"' else "quoted"
        elif letter == b'"' and state in ("start", "quote"):
            state = "quoted"
        elif letter == b"\r" and after == b"\n":
            state = "value"
        elif letter in b"\r\n":
            found.append((first, held))
            held, first, state = b"", line, "start"
        else:
            state = "start" if letter == b"," else "value"
    if state == "quoted":
        return None
    return [(line, record) for line, record in [*found, (first, held)] if record.strip(b"\r\n")]


def _in_blocks(blocks: list[RecordBlock]) -> list[tuple[int, bytes]]:
    found = []
    for block in blocks:
        own = [record for _, record in _oracle(block.data) or []]
        found += list(zip(record_lines(block, CSV_LINES).tolist(), own, strict=True))
    return found


def _in_pieces(data: bytes, cuts: set[int]) -> list[RecordBlock]:
    ends = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    blocks: list[RecordBlock] = []
    state: State = "start"
    line = 1
    for first, last in pairwise(ends):
        file = io.BytesIO(data)
        file.seek(first)
        reader = Records(file, CSV_LINES, state, line, passed=first)
        if first:
            reader.skip_one()
        blocks += reader.blocks(last - reader.passed)
        found = count(io.BytesIO(data), first, last, CSV_LINES)
        state, line = found.ends[state], line + found.breaks
    return blocks


@given(data=st.one_of(_LINES, _WILD), cuts=st.sets(st.integers(1, 60)), block=st.integers(1, 20), little=st.integers(1, 9))
@example(data=b"a\r\nb\rc\n", cuts={2, 5}, block=1, little=1)
@example(data=b'a""\n"b""\n"\n', cuts={2, 3, 6, 7}, block=2, little=1)
def test_pieces_have_the_records_of_the_file(data: bytes, cuts: set[int], block: int, little: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "BLOCK_BYTES", block)
        patch.setattr(records, "_LITTLE", little)
        expected = _oracle(data)
        if expected is None:
            with pytest.raises(InvalidArgument, match="never closed"):
                _in_pieces(data, cuts)
        else:
            assert _in_blocks(_in_pieces(data, cuts)) == expected


@given(data=st.one_of(_LINES, _WILD))
def test_records_are_those_of_common_readers(data: bytes) -> None:
    expected = _oracle(data)
    if expected is None or not expected:
        return
    rows = [row for row in csv.reader(io.StringIO(data.decode(), newline="")) if row]
    assert len(rows) == len(expected)
    width = max(map(len, rows))
    if all(len(row) == width for row in rows):
        names = [str(at) for at in range(width)]
        read = pc_csv.read_csv(
            io.BytesIO(data), pc_csv.ReadOptions(column_names=names), pc_csv.ParseOptions(newlines_in_values=True)
        )
        assert read.num_rows == len(rows)


def test_a_mark_in_front_is_no_part_of_a_value() -> None:
    data = b'\xef\xbb\xbf"a\nb",c\r1,2\r'
    reader = Records(io.BytesIO(data), CSV_LINES)
    reader.skip_mark()
    assert reader.skip_one() == b'"a\nb",c\r'
    assert [block.data for block in reader.blocks()] == [b"1,2\r"]
    assert count(io.BytesIO(data), 0, 6, CSV_LINES).ends["start"] == "quoted"


def test_the_delimiter_says_where_values_begin() -> None:
    reader = Records(io.BytesIO(b'1;"a\n,b"\n2;,"\n'), RecordForm(delimiter=b";"))
    assert [reader.skip_one(), reader.skip_one(), reader.skip_one()] == [b'1;"a\n,b"\n', b'2;,"\n', b""]


def test_an_open_quote_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="opened on or after line 2 is never closed"):
        list(Records(io.BytesIO(b'1,a\n2,"b\n3,c\n'), CSV_LINES).blocks())


def test_a_record_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "BLOCK_BYTES", 4)
    with pytest.raises(InvalidArgument, match="a record from line 1 on"):
        list(Records(io.BytesIO(b"a" * 32), CSV_LINES, longest=8).blocks())
