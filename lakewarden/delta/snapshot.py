"""A scope's table in one version, in numbers, and the same after a commit of ours without opening the table again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lakewarden.clock import to_millis
from lakewarden.delta.parquet.files import DataFile, NewFile
from lakewarden.report import ScopeState


@dataclass(frozen=True)
class Snapshot:
    """The live files of one version, the watermark, and when the table was created."""

    version: int
    files: tuple[DataFile, ...]
    watermark: int | None
    created_ms: int

    @classmethod
    def first(cls, adds: Sequence[NewFile], watermark: int, now: datetime) -> Snapshot:
        """Returns version 0 of a new table."""
        return cls(0, tuple(live(file, now) for file in adds), watermark, to_millis(now))

    @property
    def state(self) -> ScopeState:
        """Includes rows that other writers deleted by deletion vectors."""
        return ScopeState(
            version=self.version,
            rows=sum(file.rows or 0 for file in self.files),
            files=len(self.files),
            bytes=sum(file.size for file in self.files),
            last_seq=-1 if self.watermark is None else self.watermark,
            layout=self._layout() if len(self.files) <= ScopeState.MAX_LAYOUT else (),
        )

    def _layout(self) -> tuple[tuple[int, int], ...]:
        newest_first = sorted(self.files, key=lambda file: file.age, reverse=True)
        return tuple((-1 if file.rows is None else file.rows, file.size) for file in newest_first)

    def after(
        self, version: int, adds: Sequence[NewFile], removes: Sequence[DataFile], now: datetime, watermark: int | None = None
    ) -> Snapshot:
        """Returns the snapshot after a commit with these files as `version`."""
        gone = {file.path for file in removes}
        kept = self.files if not gone else tuple(file for file in self.files if file.path not in gone)
        return replace(
            self,
            version=version,
            files=(*kept, *(live(file, now) for file in adds)),
            watermark=self.watermark if watermark is None else watermark,
        )


def live(file: NewFile, now: datetime) -> DataFile:
    return DataFile(file.path, file.size, file.rows, to_millis(now), file.min_seq, file.max_seq, file.schema_version)
