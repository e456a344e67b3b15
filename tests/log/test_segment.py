from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.base.clock import random_id
from lakewarden.errors import Corrupt
from lakewarden.log.chunk import Chunk
from lakewarden.log.objects.pack import SUM_BYTES, CarriedChunk, pack_carry, pack_segment
from lakewarden.log.objects.segment import copied_chunks, read_carry, read_chunk, read_chunks, read_put_id, read_segment
from lakewarden.log.position import seq_of
from lakewarden.storage.local import LocalObjects
from lakewarden.storage.objects import Missing
from tests.log.build import with_its_sum

chunks = st.lists(st.builds(Chunk, st.text(min_size=1), st.integers(1, 1000), st.binary()), min_size=1, max_size=20)


@given(chunks, st.integers(0, 1 << 30), st.integers(1, 1 << 20))
def test_a_segment_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, written: list[Chunk], position: int, version: int
) -> None:
    store, put_id = LocalObjects(str(tmp_path_factory.mktemp("store"))), random_id()
    store.create("s", pack_segment(put_id, version, 123_456, written))
    header = read_segment(store, "s", position)
    assert header.put_id == read_put_id(store, "s") == put_id
    assert [(each.user, each.rows) for each in header.ranges] == [(each.user, each.rows) for each in written]
    assert {(each.schema_version, each.stored_at) for each in header.ranges} == {(version, 123_456)}
    assert header.ranges[0].first_seq == seq_of(position, 0)
    assert all(two.first_seq == one.last_seq + 1 for one, two in zip(header.ranges, header.ranges[1:], strict=False))
    assert [bytes(read_chunk(store, each)) for each in header.ranges] == [each.data for each in written]
    every_other = header.ranges[::2]
    assert [bytes(data) for data in read_chunks(store, every_other)] == [each.data for each in written[::2]]


def test_carry_keeps_what_its_rows_were_given(tmp_path: Path) -> None:
    store = LocalObjects(str(tmp_path))
    carried = [CarriedChunk("u", 3, b"abc", seq_of(7, 4), 2, 10), CarriedChunk("v", 1, b"", seq_of(3, 0), 1, 20)]
    store.create("c", pack_carry(random_id(), [with_its_sum(each) for each in carried]))
    found = read_carry(store, "c").ranges
    assert [(r.user, r.rows, bytes(read_chunk(store, r)), r.first_seq, r.schema_version, r.stored_at) for r in found] == [
        *carried
    ]


@pytest.mark.slow
def test_a_header_of_many_users_takes_two_reads(tmp_path: Path) -> None:
    store = LocalObjects(str(tmp_path))
    store.create("s", pack_segment(random_id(), 1, 0, [Chunk(f"user number {n}", 1, b"x") for n in range(10_000)]))
    assert [each.user for each in read_segment(store, "s", 0).ranges[-2:]] == ["user number 9998", "user number 9999"]


def test_another_object_of_the_same_name_is_not_taken_for_the_first(tmp_path: Path) -> None:
    store = LocalObjects(str(tmp_path))
    store.create("s", pack_segment(random_id(), 1, 0, [Chunk("u", 1, b"early")]))
    where = read_segment(store, "s", 0).ranges[0]
    store.delete(["s"])
    store.create("s", pack_segment(random_id(), 1, 0, [Chunk("u", 1, b"late!")]))
    with pytest.raises(Missing):
        read_chunk(store, where)


@pytest.mark.parametrize("data", [b"", b"PAR1 and so on, for more than the fixed part", pack_segment("00" * 16, 1, 0, [])[:31]])
def test_what_is_no_segment_is_corrupt(tmp_path: Path, data: bytes) -> None:
    store = LocalObjects(str(tmp_path))
    store.create("s", data)
    with pytest.raises(Corrupt, match="s is not a segment"):
        read_segment(store, "s", 0)


def test_a_torn_header_is_corrupt(tmp_path: Path) -> None:
    store = LocalObjects(str(tmp_path))
    whole = pack_segment(random_id(), 1, 0, [Chunk("u", 1, b"x")])
    store.create("s", whole.replace(b'"users"', b'"losers'))
    with pytest.raises(Corrupt, match="header of s"):
        read_segment(store, "s", 0)


def _carry(*chunks: bytes) -> bytes:
    carried = [CarriedChunk(f"u{number}", 1, data, number, 0, 0) for number, data in enumerate(chunks)]
    return pack_carry(random_id(), [with_its_sum(each) for each in carried])


def test_a_tiny_object_is_copied_from_what_came_with_its_header(tmp_path: Path) -> None:
    store = LocalObjects(str(tmp_path))
    store.create("s", _carry(b"early", b"too"))
    header = read_carry(store, "s")
    store.delete(["s"])
    assert [bytes(each)[:-SUM_BYTES] for each in copied_chunks(store, header.ranges, header.held)] == [
        b"early",
        b"too",
    ]
    with pytest.raises(Missing):  # what goes to a table has to be there still
        read_chunk(store, header.ranges[0])
    store.create("s", _carry(b"x" * 5000))
    assert read_carry(store, "s").tiny == b""


def test_a_tiny_object_that_is_cut_off_is_corrupt(tmp_path: Path) -> None:
    store = LocalObjects(str(tmp_path))
    store.create("s", _carry(b"early", b"too")[:-1])
    header = read_carry(store, "s")
    with pytest.raises(Corrupt, match="s is cut off: rows of 'u1'"):
        list(copied_chunks(store, header.ranges, header.held))
