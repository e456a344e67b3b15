"""What one side of the socket sends is what the other side reads, and it refuses more than it expects."""

from __future__ import annotations

import socket
from pathlib import Path

import pyarrow as pa
import pytest

from lakewarden.base import frames
from lakewarden.sql.query_engine.workers import messages
from lakewarden.sql.query_engine.workers.messages import End, EngineRequest

_RELATIONS = {
    "empty": pa.table({"n": pa.array([], pa.int64())}),
    "chunks": pa.concat_tables([pa.table({"n": [1, None]}), pa.table({"n": [3]})]),
    "texts": pa.table({"v": ["x" * 100_000, None, "é💥"], "d": pa.array(["a", "b", "a"]).dictionary_encode()}),
    "json": pa.table({"j": pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array(['{"a": 1}']))}),
}


def test_rows_arrive_as_they_were_and_no_descriptor_stays_open() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with messages.shared(_RELATIONS) as (handle, placed):
            frames.send(ours, messages.packed(EngineRequest("run", b"SELECT", 1.0, 2, placed)), last=True, handle=handle)
        got = frames.receive(theirs, 1 << 20)
        assert got.last
        assert got.handle is not None
        found = messages.mapped(got.handle, messages.request_of(got).relations)
        assert {name: rows.to_pylist() for name, rows in found.items()} == {
            name: rows.to_pylist() for name, rows in _RELATIONS.items()
        }
        assert {name: rows.schema for name, rows in found.items()} == {name: rows.schema for name, rows in _RELATIONS.items()}
    del found
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_text_with_half_a_pair_of_surrogates_arrives() -> None:
    assert frames.decoded(frames.encoded("'\ud800' é")) == "'\ud800' é"


def test_a_frame_that_is_too_large_is_not_read() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        frames.send(ours, b"x" * 101, last=False)
        with pytest.raises(EOFError, match="101 bytes, where 100 are allowed"):
            frames.receive(theirs, 100)


@pytest.mark.parametrize("sent", [b"", b"\0", b"\1\5\0\0\0\0\0\0\0abc"])
def test_a_connection_that_ends_within_a_frame_is_an_end(sent: bytes) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            ours.sendall(sent)
        with pytest.raises(EOFError, match="closed"):
            frames.receive(theirs, 100)


def test_the_last_frame_says_how_it_ended() -> None:
    ours, theirs = socket.socketpair()
    end = End("Unsupported", frames.encoded("no \ud800"), ("INTEGER",), "a plan", worn=True)
    with ours, theirs:
        frames.send(ours, messages.packed(end), last=True)
        assert messages.end_of(frames.receive(theirs, 1000)) == end
