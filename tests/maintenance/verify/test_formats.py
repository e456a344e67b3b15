"""The search's own readers, against files that the library wrote."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.catalog.state.floor_entries import SCHEMA
from lakewarden.log.chunk import Chunk
from lakewarden.log.objects.pack import CarriedChunk, pack_carry, pack_segment
from lakewarden.maintenance.verify import formats


def _parquet(rows: int) -> bytes:
    out = pa.BufferOutputStream()
    table = pa.table({"text": [f"value {number}" for number in range(rows)]})
    pq.write_table(table.replace_schema_metadata({"lakewarden.user": "ann"}), out)
    return out.getvalue().to_pybytes()


def test_users_of_segments_and_carry() -> None:
    assert formats.log_users(pack_segment("ab" * 16, 1, 0, [Chunk("ann", 1, b"x"), Chunk("bob", 2, b"y")])) == {"ann", "bob"}
    assert formats.log_users(pack_carry("ab" * 16, [CarriedChunk("eve", 1, b"x", 7, 1, 0)])) == {"eve"}
    assert formats.log_users(b"LWLOG") is None


def test_users_of_an_index() -> None:
    users = [f"u{number}" for number in range(3000)]
    assert formats.log_users(pack_segment("ab" * 16, 1, 0, [Chunk(user, 1, b"x") for user in users])) == set(users)
    assert formats.log_users(pack_carry("ab" * 16, [CarriedChunk(user, 1, b"x", 7, 1, 0) for user in users])) == set(users)


def test_a_footer_is_read_from_the_end_alone() -> None:
    data = _parquet(10_000)
    length = formats.footer_bytes(data[-8:])
    assert 8 < length < len(data)
    tail = formats.only_footer(data[-length:])
    assert (formats.footer(tail) or {})["lakewarden.user"] == (formats.footer(data) or {})["lakewarden.user"] == "ann"
    assert formats.footer_bytes(b"no parq.") == 0
    assert formats.footer(b"text") is None


def test_values_are_seen_through_compression() -> None:
    assert "value 9999" in formats.values(_parquet(10_000))


def test_a_floor_holds_hashes_and_counts_alone() -> None:
    assert formats.counts_only(_stream(SCHEMA.empty_table()))
    assert formats.counts_only(_stream(SCHEMA.empty_table().replace_schema_metadata({"storages": "{}"})))
    assert not formats.counts_only(_stream(pa.table({"scope": ["ann"], "version": [1]})))
    assert not formats.counts_only(_stream(SCHEMA.empty_table().replace_schema_metadata({"user": "ann"})))
    assert not formats.counts_only(b"ann")


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def test_files_that_a_commit_adds() -> None:
    lines = [{"commitInfo": {}}, {"add": {"path": "a"}}, {"remove": {"path": "b"}}]
    assert formats.live_files("\n".join(map(json.dumps, lines)).encode()) == 1
    assert formats.live_files(b"") == 0
