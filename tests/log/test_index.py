"""The index of segments and carry objects with many chunks: what it finds, what it reads, and damage that it notices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.base.clock import random_id
from lakewarden.base.setting_sections import LogSettings
from lakewarden.errors import Corrupt
from lakewarden.log.chunk import Chunk
from lakewarden.log.objects import index, names, pack, segment
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cuts.settle import CutTerms, settle
from lakewarden.log.objects.header import Header
from lakewarden.log.objects.index import Index
from lakewarden.log.objects.pack import CarriedChunk, pack_carry, pack_segment
from lakewarden.log.objects.segment import read_carry, read_chunk, read_segment
from lakewarden.log.objects.view import read_view
from lakewarden.storage.objects import Missing
from tests.fixtures.examples import examples
from tests.log.build import LOG, Store, joined, notes, pending_ids, view_of, with_its_sum, writer

_PUT = "ab" * 16


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Whose segments have an index from four chunks on, in blocks of three, beyond the first read."""
    monkeypatch.setattr(segment, "MANY", 4)
    monkeypatch.setattr(pack, "MANY", 4)
    monkeypatch.setattr(index, "BLOCK", 3)
    monkeypatch.setattr(segment, "_FIRST_READ", 600)
    return Store(tmp_path)


def _packed(users: int = 20) -> bytes:
    return pack_segment(_PUT, 3, 5, [Chunk(f"u{number:02}", 1, b"row %d" % number) for number in range(users)])


def _read(store: Store, data: bytes) -> Header:
    store.create("s", data)
    return read_segment(store, "s", 7)


def _index_of(header: Header) -> Index:
    assert isinstance(header.chunks, Index)
    return header.chunks


_users = st.text("abç😀", min_size=1, max_size=2)
_chunks = st.lists(st.builds(Chunk, _users, st.integers(1, 9), st.binary(max_size=9)), min_size=1, max_size=30)


@given(_chunks, st.integers(0, 1 << 30))
@settings(max_examples=examples(40), deadline=None)
def test_every_user_is_found_as_in_a_list(tmp_path_factory: pytest.TempPathFactory, written: list[Chunk], position: int) -> None:
    store = Store(tmp_path_factory.mktemp("store"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment, "_FIRST_READ", 60)
        patch.setattr(segment, "MANY", 1000)
        patch.setattr(pack, "MANY", 1000)
        store.create("list", pack_segment(_PUT, 3, 5, written))
        patch.setattr(segment, "MANY", 1)
        patch.setattr(pack, "MANY", 1)
        patch.setattr(index, "BLOCK", 2)
        store.create("index", pack_segment(_PUT, 3, 5, written))
        listed, indexed = (read_segment(store, key, position) for key in ("list", "index"))
        assert (listed.rows, listed.bytes, listed.link) == (indexed.rows, indexed.bytes, indexed.link)
        assert _index_of(indexed).blocks == -(-len(written) // 2)
        for user in {*(chunk.user for chunk in written), "nobody", ""}:
            here, there = (
                [(r.user, r.rows, r.first_seq, r.schema_version, r.stored_at) for r in h.of({user})] for h in (listed, indexed)
            )
            assert here == there
        by_place = sorted(indexed.ranges, key=lambda each: each.offset)
        assert [bytes(read_chunk(store, each)) for each in by_place] == [chunk.data for chunk in written]
        assert [each.first_seq for each in by_place] == [each.first_seq for each in listed.ranges]
        assert indexed.ends["index"] == len(store.get("index"))


def test_one_user_takes_one_read_of_one_block(store: Store) -> None:
    header = _read(store, _packed(300))
    store.calls.clear()
    (found,) = header.of({"u77"})
    assert bytes(read_chunk(store, found)) == b"row 77"
    assert store.calls == {"get": 2}
    store.calls.clear()
    assert [each.user for each in header.settled({"u03": 1 << 60, "u04": 1 << 60, "u05": 0})] == ["u03", "u04"]
    assert store.calls == {"get": 1}


def test_a_user_with_chunks_in_several_blocks_has_all(store: Store) -> None:
    header = _read(store, pack_segment(_PUT, 1, 0, [Chunk(user, 1, b"x") for user in (*"aab", *"bbbbbbb", *"cdefgh")]))
    assert [len(header.of({user})) for user in "abcd"] == [2, 8, 1, 1]


def test_carry_keeps_what_its_rows_were_given(store: Store) -> None:
    carried = [CarriedChunk(f"u{number % 5}", 2, b"%d" % number, 1000 - number, number, 10 * number) for number in range(20)]
    store.create("c", pack_carry(_PUT, [with_its_sum(each) for each in carried]))
    header = read_carry(store, "c")
    found = sorted(header.ranges, key=lambda each: each.offset)
    assert _index_of(header).blocks == 7
    read = [(r.user, r.rows, bytes(read_chunk(store, r)), r.first_seq, r.schema_version, r.stored_at) for r in found]
    assert read == [tuple(each) for each in carried]


def test_an_index_that_the_first_read_holds_costs_no_other(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "_FIRST_READ", 64 << 10)
    header = _read(store, _packed())
    store.calls.clear()
    assert [each.user for each in header.of({"u13"})] == ["u13"]
    assert not store.calls


def test_a_long_head_is_of_one_object_whatever_gets_its_name_meanwhile(store: Store) -> None:
    store.create("s", _packed(300))

    def replace(_call: str, _key: str) -> None:
        store.after = lambda call, key: None
        store.delete(["s"])
        store.create("s", pack_segment("cd" * 16, 3, 5, [Chunk(f"v{number:02}", 1, b"x") for number in range(400)]))

    store.after = replace
    header = read_segment(store, "s", 7)
    assert (header.put_id, header.rows, [each.user for each in header.of({"v77"})]) == ("cd" * 16, 400, ["v77"])


def test_a_head_that_is_damaged_is_corrupt(store: Store) -> None:
    with pytest.raises(Corrupt, match="the index of s cannot be read: its checksum is another one"):
        _read(store, _packed().replace(b'"u03"', b'"u02"'))


def test_a_block_that_is_damaged_is_corrupt(store: Store) -> None:
    data = bytearray(_packed())
    data[_index_of(_read(store, bytes(data))).data - 20] ^= 1
    store.delete(["s"])
    header = _read(store, bytes(data))
    assert [each.user for each in header.of({"u00"})] == ["u00"], "other blocks are sound"
    for look in (lambda: header.of({"u19"}), lambda: header.ranges, header.check):
        with pytest.raises(Corrupt, match="the index of s cannot be read: the checksum of block 6 is another one"):
            look()


def test_an_index_that_is_cut_off_is_corrupt(store: Store) -> None:
    data = _packed()
    end = _index_of(_read(store, data)).data
    store.delete(["s"])
    header = _read(store, data[: end - 5])
    with pytest.raises(Corrupt, match="s is cut off: its index ends before its last block"):
        header.check()


@pytest.mark.parametrize("name", ["chunks", "bytes", "rows"])
def test_an_index_that_counts_other_chunks_than_it_has_is_corrupt(store: Store, name: str) -> None:
    data = _packed()
    length = int.from_bytes(data[8:12], "little")
    head = json.loads(data[48 : 48 + length - 8])
    text = json.dumps(head | {name: head[name] + 1}).encode()
    text += index._sum(bytes.fromhex(_PUT), text)
    with pytest.raises(Corrupt, match=r"cannot be read: (it counts 21 rows of 20|chunks, rows and bytes are)"):
        _read(store, data[:8] + len(text).to_bytes(4, "little") + data[12:48] + text + data[48 + length :]).check()


def test_a_block_of_another_segment_of_the_name_is_missing(store: Store) -> None:
    header = _read(store, _packed())
    store.delete(["s"])
    store.create("s", _packed().replace(bytes.fromhex(_PUT), bytes.fromhex("cd" * 16)))
    with pytest.raises(Missing):
        header.of({"u19"})


def test_a_segment_that_is_settled_before_its_index_was_read_is_looked_for_again(store: Store) -> None:
    writer(store).append(joined(*(notes(f"u{number}", number) for number in range(9))))
    cache = HeaderCache()
    read_view(store, LOG, cache, ())

    def flush(call: str, key: str) -> None:
        if call == "list" and key == f"log/{LOG}/cuts":
            store.after = lambda call, key: None
            view = view_of(store)
            settle(store, view, {f"u{number}": view.end for number in range(8)}, CutTerms(LogSettings(), random_id))

    store.after = flush
    assert read_view(store, LOG, cache, ["u7", "u8"]).pending_of(["u7", "u8"]).keys() == {"u8"}


def test_a_segment_whose_index_vanishes_is_lost(store: Store) -> None:
    writer(store).append(joined(*(notes(f"u{number}", number) for number in range(9))))
    cache = HeaderCache()
    read_view(store, LOG, cache, ())

    def lose(call: str, key: str) -> None:
        if call == "list" and key == f"log/{LOG}/cuts":
            store.after = lambda call, key: None
            store.delete([names.segment_key(LOG, 0)])

    store.after = lose
    with pytest.raises(Corrupt, match=r"position 0 of log .* is lost"):
        read_view(store, LOG, cache, ["u1"])


def test_what_is_settled_before_a_cut_was_planned_is_settled_once(store: Store) -> None:
    writer(store).append(joined(*(notes(f"u{number}", number) for number in range(9))))
    view = read_view(store, LOG, HeaderCache(), ["u1"])
    other = view_of(store)
    settle(store, other, {f"u{number}": other.end for number in range(8)}, CutTerms(LogSettings(), random_id))
    settle(store, view, {"u1": view.end}, CutTerms(LogSettings(), random_id))
    assert [pending_ids(store, f"u{number}") for number in (0, 1, 8)] == [[], [], [8]]
