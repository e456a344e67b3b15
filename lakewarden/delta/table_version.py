"""What a `ScopeTable` has to learn of its version, wherever it is known from: its log, or what was kept of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from lakewarden.delta.commit_log.actions import TableHead
from lakewarden.delta.parquet.column_ends import Bounds
from lakewarden.delta.parquet.files import DataFile
from lakewarden.delta.replay.log_state import LogState


class TableVersion(Protocol):
    """One version of a table. Whatever fails raises as `ScopeTable.open`."""

    @property
    def version(self) -> int: ...

    @property
    def head(self) -> TableHead: ...

    @property
    def state(self) -> LogState:
        """The version by its log, which is read where that was not needed before."""
        ...

    @property
    def files(self) -> tuple[DataFile, ...]:
        """Its live files, in any order."""
        ...

    @property
    def has_files(self) -> bool: ...

    @property
    def stats(self) -> Mapping[str, str]:
        """Delta's statistics of each file that has any, as JSON, by path."""
        ...

    def bounds(self, column: str) -> Bounds | None:
        """The bounds of the column in each of `files`; None where no file has any."""
        ...

    def transaction(self, app_id: str) -> int | None:
        """The version of that transaction identifier; None where there is none."""
        ...

    @property
    def known_transactions(self) -> Mapping[str, int | None]:
        """Those that are known without another look, as `transaction` returns them."""
        ...

    @property
    def digest(self) -> str:
        """SHA-256 of the commit that made it; empty when that has left the log."""
        ...
