"""A version as a `ScopeTable` sees it when it is known without opening the table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from lakewarden.base.connection import Location
from lakewarden.delta.commit_log.actions import TableHead
from lakewarden.delta.commit_log.log_version import LogVersion
from lakewarden.delta.parquet.column_ends import Bounds
from lakewarden.delta.parquet.files import DataFile
from lakewarden.delta.parquet.said_bounds import SaidEnds, bounds_of, said_ends
from lakewarden.delta.replay.log_state import LogState, replay
from lakewarden.delta.snapshot import Snapshot
from lakewarden.errors import Corrupt


class KeptVersion:
    """A version by a snapshot. `TableVersion` says what the methods return; what the snapshot lacks is read from the log."""

    def __init__(self, location: Location, snapshot: Snapshot) -> None:
        self._location = location
        self._snapshot = snapshot

    @property
    def version(self) -> int:
        return self._snapshot.version

    @property
    def head(self) -> TableHead:
        return self._snapshot.head

    @cached_property
    def state(self) -> LogState:
        found = replay(self._location, self.version)
        if found is None:
            raise Corrupt(f"{self._location}: version {self.version} cannot be read from its log")
        return found

    @property
    def files(self) -> tuple[DataFile, ...]:
        return self._snapshot.files

    @property
    def has_files(self) -> bool:
        return bool(self._snapshot.files)

    @property
    def stats(self) -> Mapping[str, str]:
        return self._snapshot.stats or {}

    def bounds(self, column: str) -> Bounds | None:
        return bounds_of(self.head.schema, column, self._ends)

    def transaction(self, app_id: str) -> int | None:
        known = self._snapshot.transactions
        return known[app_id] if app_id in known else LogVersion(self.state).transaction(app_id)

    @property
    def known_transactions(self) -> Mapping[str, int | None]:
        return self._snapshot.transactions

    @property
    def digest(self) -> str:
        return self._snapshot.digest

    @cached_property
    def _ends(self) -> list[SaidEnds]:
        stats = self.stats
        return [said_ends(stats.get(file.path)) for file in self.files]
