"""A table behind the gate: what one session may do with its own scope of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from lakewarden.base.commit_metadata import Metadata
from lakewarden.catalog.access import RowAct
from lakewarden.delta.reading.history import HistoryEntry
from lakewarden.log.position import Receipt
from lakewarden.maintenance.admin.session_gate import Door
from lakewarden.sql.session_block import SessionBlock
from lakewarden.tables.changes.value import Changes
from lakewarden.tables.client import FileMode, TableClient, WriteMode
from lakewarden.tables.files import StoredFile
from lakewarden.tables.freshness import Freshness
from lakewarden.tables.rows.files import FileRef, RowFile
from lakewarden.tables.rows.intake import Rows
from lakewarden.tables.warehouse import find_table


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
            return self.block.writing(self.client, self._user)
        return self.block.reading(self.client, self._user)
