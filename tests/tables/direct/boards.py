"""A SHARED table with direct writes, and the changes that tests make by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from lakewarden import Column, Lakehouse
from lakewarden.tables.changes.log_reader import Event
from lakewarden.tables.client import TableClient
from lakewarden.tables.direct.commit import DirectWrite
from lakewarden.tables.direct.effects import Keep
from lakewarden.tables.direct.value import Edit
from tests.fixtures.bucket import AnyPath, path_of
from tests.fixtures.lakes import Rows, notes

BOARD = "chat.board"
EVENTS = "chat.events"
"""A SHARED table without a primary key."""
ALL_EVENTS = f"SELECT * FROM {EVENTS}"

Decide = Callable[[pa.Table], Edit]


def make_board(lake: Lakehouse, options: Mapping[str, str] | None = None) -> TableClient:
    lake.create_namespace("chat", if_not_exists=True)
    columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
    return lake.create_table(BOARD, type="SHARED", columns=columns, primary_key=["id"], options=options)


def make_events(lake: Lakehouse, options: Mapping[str, str] | None = None) -> TableClient:
    lake.create_namespace("chat", if_not_exists=True)
    columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
    return lake.create_table(EVENTS, type="SHARED", columns=columns, primary_key=[], options=options)


def appending(*batches: pa.Table) -> DirectWrite:
    return DirectWrite("WRITE", Keep(), batches, {"mode": "Append"})


def ids(found: Iterable[Event]) -> list[object]:
    return [event.row["id"] for event in found]


def once(act: Callable[[], object]) -> Callable[[], None]:
    """The act, which later calls leave out."""
    done: list[None] = []

    def acts() -> None:
        if not done:
            done.append(None)
            act()

    return acts


def board_path(lake: Lakehouse) -> AnyPath:
    return path_of(lake.warehouse.uri) / "data" / "chat" / "board"


def stranger(lake: Lakehouse) -> DeltaTable:
    """The table as a program opens it that knows nothing of us."""
    return DeltaTable(str(board_path(lake)))


def rows(texts: Rows) -> pa.Table:
    return pa.table(
        {"id": pa.array(texts.keys(), pa.int64()), "text": pa.array(texts.values(), pa.string())},
    )


def flushed(lake: Lakehouse, table: TableClient, *batches: Rows) -> None:
    """A data file for each batch."""
    for batch in batches:
        table.write(notes(batch))
        lake.flush(BOARD)


def setting(text: str, *ids: int) -> Decide:
    """UPDATE … SET text WHERE id IN ids."""

    def decide(rows: pa.Table) -> Edit:
        hit = _numbers(rows, ids)
        new = rows.take(hit).drop_columns(["_seq"])
        return Edit(hit, new.set_column(new.column_names.index("text"), "text", pa.array([text] * len(hit), pa.string())))

    return decide


def removing(*ids: int) -> Decide:
    """DELETE … WHERE id IN ids."""

    def decide(rows: pa.Table) -> Edit:
        hit = _numbers(rows, ids)
        return Edit(hit, rows.slice(0, 0).drop_columns(["_seq"]))

    return decide


def _numbers(rows: pa.Table, ids: tuple[int, ...]) -> pa.Array[Any]:
    return pc.indices_nonzero(pc.is_in(rows.column("id"), value_set=pa.array(ids, pa.int64()))).cast(pa.int64())
