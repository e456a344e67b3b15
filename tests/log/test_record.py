from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.base.setting_sections import LogSettings
from lakewarden.catalog.model import TableSchema
from lakewarden.errors import Conflict, Corrupt, InvalidArgument
from lakewarden.log.chunk import Chunk, RowRange
from lakewarden.log.record import DELETE, OP, SEQ, UPSERT, USER, LogBatch, decode, encode, log_batch, log_schema
from tests.log.build import NOTES, column, joined, notes

EVERYTHING = TableSchema(
    1,
    tuple(
        column(number, f"c{number}", kind)
        for number, kind in enumerate(
            [
                "BIGINT",
                "BOOLEAN",
                "SMALLINT",
                "INT",
                "DOUBLE",
                "TEXT",
                "BYTES",
                "DATE",
                "TIMESTAMP",
                "DECIMAL(12,3)",
                "TIME",
                "UUID",
            ]
        )
    ),
    ("c0",),
)
_VALUES: list[st.SearchStrategy[Any]] = [
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.booleans(),
    st.integers(-(1 << 15), (1 << 15) - 1),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.dates(date(1, 1, 1)),
    st.datetimes(datetime(1, 1, 1, tzinfo=UTC).replace(tzinfo=None), timezones=st.just(UTC)),
    st.decimals(-999_999_999, 999_999_999, places=3).map(lambda value: value + Decimal("0.000")),
    st.integers(0, 86_399_999_999),
    st.uuids().map(str),
]
row = st.tuples(st.sampled_from(["", "a", "b", "ü/%2e"]), *(st.none() | values for values in _VALUES))


def ranges(chunks: Sequence[Chunk], version: int = 1) -> list[RowRange]:
    found, first = [], 100
    for chunk in chunks:
        found.append(RowRange("k", "", chunk.user, chunk.rows, 0, 0, first, version, 0))
        first += chunk.rows
    return found


@pytest.mark.slow
@given(st.lists(row, min_size=1, max_size=30), st.integers(1, 40))
def test_rows_of_every_type_come_back_by_scope_in_their_order(rows: list[tuple[Any, ...]], segment_rows: int) -> None:
    columns = {f"c{n}": pa.array([each[n + 1] for each in rows], c.type.arrow) for n, c in enumerate(EVERYTHING.columns)}
    batch = log_batch(EVERYTHING, pa.table(columns), pa.array([each[0] for each in rows]), UPSERT)
    chunks = encode(batch, LogSettings(segment_max_rows=segment_rows))
    assert all(chunk.rows <= segment_rows for chunk in chunks)
    for user in {each[0] for each in rows}:
        mine = [chunk for chunk in chunks if chunk.user == user]
        table = decode([chunk.data for chunk in mine], ranges(mine), (EVERYTHING,))
        assert table.drop_columns([SEQ, OP]).to_pylist() == [
            {f"c{n}": value for n, value in enumerate(each[1:])} for each in rows if each[0] == user
        ]


def test_rows_in_several_arrow_chunks_come_back_too() -> None:
    rows = pa.concat_tables([notes("u", 1, 2).rows, notes("v", 3).rows, notes("u", 4).rows, notes("w", 5).rows])
    chunks = encode(LogBatch(1, rows), LogSettings())
    assert [(chunk.user, chunk.rows) for chunk in chunks] == [("u", 3), ("v", 1), ("w", 1)]
    assert decode([chunks[0].data], ranges(chunks[:1]), (NOTES,)).column("id").to_pylist() == [1, 2, 4]


def test_a_tombstone_needs_its_key_alone() -> None:
    batch = log_batch(NOTES, pa.table({"id": [7]}), "u", DELETE)
    assert batch.rows.schema.equals(log_schema(NOTES).append(pa.field(USER, pa.string())))
    chunks = encode(batch, LogSettings())
    rows = decode([chunks[0].data], ranges(chunks), (NOTES,))
    assert rows.to_pylist() == [{"id": 7, "text": None, SEQ: 100, OP: DELETE}]


def test_columns_are_matched_by_their_ids() -> None:
    newer = TableSchema(2, (column(1, "number", "BIGINT"), column(3, "text", "DOUBLE"), column(4, "more", "TEXT")), ("number",))
    chunks = encode(notes("u", 1, 2), LogSettings())
    rows = decode([chunks[0].data], ranges(chunks), (NOTES, newer))
    assert rows.column_names == ["number", "text", "more", SEQ, OP]
    assert rows.drop_columns([SEQ, OP]).to_pylist() == [
        {"number": 1, "text": None, "more": None},
        {"number": 2, "text": None, "more": None},
    ]


def test_rows_of_two_schema_versions_are_one_table() -> None:
    newer = TableSchema(2, (*NOTES.columns, column(3, "more", "TEXT")), ("id",))
    later = log_batch(newer, pa.table({"id": [2], "text": ["t"], "more": ["m"]}), "u", UPSERT)
    old, new = encode(notes("u", 1), LogSettings()), encode(later, LogSettings())
    rows = decode([old[0].data, new[0].data], [*ranges(old), *ranges(new, 2)], (NOTES, newer))
    assert rows.column("more").to_pylist() == [None, "m"]


def test_rows_of_a_schema_yet_unknown_ask_for_a_newer_catalog() -> None:
    chunks = encode(notes("u", 1), LogSettings())
    with pytest.raises(Conflict, match="schema version 9, later than 1"):
        decode([chunks[0].data], ranges(chunks, 9), (NOTES,))


def test_damaged_rows_are_corrupt() -> None:
    chunks = encode(notes("u", 1), LogSettings())
    with pytest.raises(Corrupt, match="rows of 'u' in k"):
        decode([chunks[0].data[:40]], ranges(chunks), (NOTES,))
    with pytest.raises(Corrupt, match="holds 1 rows of 'u' where its header says 2"):
        decode([chunks[0].data], [ranges(chunks)[0]._replace(rows=2)], (NOTES,))


def test_no_rows_are_an_empty_table_of_the_right_columns() -> None:
    assert decode([], [], (NOTES,)).column_names == ["id", "text", SEQ, OP]


def test_columns_of_no_table_or_type_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="no such column in the table: nope; it has id, text"):
        log_batch(NOTES, pa.table({"nope": [1]}), "u", UPSERT)
    with pytest.raises(InvalidArgument, match="not of the types of schema version 1"):
        log_batch(NOTES, pa.table({"id": ["x"]}), "u", UPSERT)


def test_a_chunk_holds_no_byte_of_its_neighbours() -> None:
    chunks = encode(joined(*(notes(user, 1, 2) for user in ("first-user", "second-user", "third-user"))), LogSettings())
    assert [chunk.user for chunk in chunks] == ["first-user", "second-user", "third-user"]
    for chunk in chunks:
        others = {"first-user", "second-user", "third-user"} - {chunk.user}
        assert not any(other.encode() in bytes(chunk.data) for other in others)
