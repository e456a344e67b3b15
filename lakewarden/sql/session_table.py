"""A table as a session sees it: through the session's block, and behind the gate its own scope of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa

from lakewarden.base.commit_metadata import Metadata
from lakewarden.base.scope import TableName
from lakewarden.catalog.access import RowAct
from lakewarden.catalog.session_gate import Door
from lakewarden.delta.reading.history import HistoryEntry
from lakewarden.errors import Unsupported
from lakewarden.log.position import Receipt
from lakewarden.sql.session_block import SessionBlock
from lakewarden.tables.changes.value import Changes
from lakewarden.tables.client.client import TableClient, WriteMode
from lakewarden.tables.client.file_columns import FileMode
from lakewarden.tables.client.reader import TableReader
from lakewarden.tables.client.versions import MakeReader
from lakewarden.tables.files import StoredFile
from lakewarden.tables.freshness import Freshness
from lakewarden.tables.rows.files import FileRef, RowFile
from lakewarden.tables.rows.intake import Rows
from lakewarden.tables.warehouse import find_table


def client_to_write(block: SessionBlock, client: TableClient, user: str | None, *, past_log: bool = False) -> TableClient:
    """The client for a write of a session: in a block, one whose rows the block keeps.

    Args:
        user: whose scope it is.
        past_log: whether the statement would be carried out straight in Delta.

    Raises:
        Unsupported: the write cannot be part of the block; nothing of it was kept.
    """
    if not block.open:
        return client
    _check_takes(block, client, user, past_log)
    if (rows := block.writes_to) is None:
        from lakewarden.tables.client.block import TableBlock  # imports what writes need, which a query does not

        rows = TableBlock(client.reader, user, block.most_bytes)
        block.keep(rows)
    return replace(client, make_reader=rows.reader)


def reader_in(block: SessionBlock, table: TableName, user: str | None) -> MakeReader:
    """What makes the reader of a session: one that sees what the block wrote to the scope."""
    rows = block.writes_to if block.open else None
    return TableReader if rows is None or not block.keeps(table, user) else rows.reader


def _check_takes(block: SessionBlock, client: TableClient, user: str | None, past_log: bool) -> None:
    table, mine = client.table, block.writes_to
    if mine is not None and mine.table.name != table.name:
        raise Unsupported(
            f"the block has written to {mine.table.name}, and a block writes to one table: one position of that table's log"
            f" decides about all of it. COMMIT before {table.name}, or write to it in a block of its own"
        )
    if mine is not None and mine.user != user:
        raise Unsupported(
            f"the block has written rows of {mine.user!r}, and a block writes rows of one user: COMMIT before those of {user!r}"
        )
    if past_log or not (table.schema.keyed or table.schema.append_only):
        raise Unsupported(
            f"this write to {table.name} goes straight into Delta, past the write log that a block's COMMIT is in: run it"
            " outside a block (autocommit)"
        )
    if table.schema.of_files:
        raise Unsupported(
            f"{table.name} has FILE columns, whose files are stored and removed at once: write to it outside a block (autocommit)"
        )


@dataclass(frozen=True)
class SessionTable:
    """Made by `SqlSession.table`. As `TableClient`, for the session's user; every call may raise PermissionDenied."""

    client: TableClient
    door: Door
    block: SessionBlock
    """The session's."""

    def write(self, rows: Rows, *, mode: WriteMode = "upsert", metadata: Metadata | None = None) -> Receipt:
        return self._to("write").write(rows, user=self._user, mode=mode, metadata=metadata)

    def delete(self, key_rows: Rows, *, metadata: Metadata | None = None) -> Receipt:
        return self._to("write").delete(key_rows, user=self._user, metadata=metadata)

    def read(
        self, *, freshness: Freshness = "strong", version: int | None = None, timestamp: datetime | str | None = None
    ) -> pa.Table:
        return self._to("read").read(user=self._user, freshness=freshness, version=version, timestamp=timestamp)

    def history(self, *, limit: int | None = 20, before_version: int | None = None) -> list[HistoryEntry]:
        return self._to("read").history(user=self._user, limit=limit, before_version=before_version)

    def changes(self, *, after: int | None = None, limit: int | None = None) -> Changes:
        return self._to("read").changes(user=self._user, after=after, limit=limit)

    def put_file(
        self,
        row: Mapping[str, object],
        column: str,
        data: bytes,
        *,
        name: str,
        mime: str | None = None,
        mode: FileMode = "upsert",
        metadata: Metadata | None = None,
    ) -> FileRef:
        table = self._to("write")
        return table.put_file(row, column, data, name=name, mime=mime, user=self._user, mode=mode, metadata=metadata)

    def get_file(self, key: Mapping[str, object], column: str) -> bytes:
        return self._to("read").get_file(key, column, user=self._user)

    def open_file(self, key: Mapping[str, object], column: str) -> StoredFile:
        return self._to("read").open_file(key, column, user=self._user)

    def delete_file(self, key: Mapping[str, object], column: str, *, metadata: Metadata | None = None) -> None:
        self._to("write").delete_file(key, column, user=self._user, metadata=metadata)

    def files(self) -> list[RowFile]:
        return self._to("read").files(user=self._user)

    @property
    def _user(self) -> str | None:
        return None if self.client.table.type == "SHARED" else self.door.principal.user

    def _to(self, act: RowAct) -> TableClient:
        """The current table: its access level may have changed since this object was created."""
        table = find_table(self.client.warehouse.catalog.read(), self.client.table.name)
        self.door.allow(act, table)
        self.block.check()
        if act == "write":
            return client_to_write(self.block, self.client, self._user)
        return replace(self.client, make_reader=reader_in(self.block, table.name, self._user)) if self.block.open else self.client
