"""One version of a scope's table as a value: all that a commit, a read and a report need, and the same after a commit of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lakewarden.base.clock import to_millis
from lakewarden.catalog.report import ScopeState
from lakewarden.delta.commit_log.actions import CommitChange, TableHead
from lakewarden.delta.commit_log.committing import BATCH_APP, SWEPT
from lakewarden.delta.parquet.files import DataFile

MOST_KEPT = 50_000
"""Live files that a process keeps of its last versions, of which each takes a kilobyte."""


@dataclass(frozen=True)
class OwnCommit:
    """What a commit of ours made."""

    version: int
    change: CommitChange
    at: datetime
    """What it says of the age of its files."""
    digest: str
    """SHA-256 of its text."""


@dataclass(frozen=True)
class Snapshot:
    """One version of a table."""

    version: int
    head: TableHead
    files: tuple[DataFile, ...]
    """Its live files, oldest rows first."""
    stats: Mapping[str, str] | None
    """Delta's statistics of each file that has any, as JSON, by path; None where it can't be kept: of a table with features or
    vectors of others, and of more files than `MOST_KEPT`."""
    app_id: str
    """The application id of the watermark."""
    transactions: Mapping[str, int | None]
    """What is known of its transaction identifiers: version by application id, None where there is none."""
    digest: str
    """SHA-256 of the commit that made it; empty where that is unknown."""

    @property
    def watermark(self) -> int | None:
        return self.transactions.get(self.app_id)

    @property
    def last_batch(self) -> int:
        """The number of the scope's last batch file; -1 before the first."""
        last = self.transactions.get(BATCH_APP)
        return -1 if last is None else last

    @property
    def state(self) -> ScopeState:
        """Includes rows that other writers deleted by deletion vectors."""
        return state_of(self.version, self.files, self.watermark)

    def after(self, made: OwnCommit) -> Snapshot:
        """Returns the version that a commit on top of this one made."""
        change = made.change
        gone = {file.path for file in change.removes}
        kept = self.files if not gone else tuple(file for file in self.files if file.path not in gone)
        stats = None if self.stats is None else {path: text for path, text in self.stats.items() if path not in gone}
        return replace(
            self,
            version=made.version,
            head=change.head or self.head,
            files=(*kept, *(file.live(to_millis(made.at)) for file in change.adds)),
            stats=None if stats is None else stats | {file.path: file.stats for file in change.adds},
            transactions={**self.transactions, **change.transactions},
            digest=made.digest,
        )


def state_of(version: int, files: Sequence[DataFile], watermark: int | None) -> ScopeState:
    """Returns a version in numbers."""
    return ScopeState(
        version=version,
        rows=sum(file.rows or 0 for file in files),
        files=len(files),
        bytes=sum(file.size for file in files),
        last_seq=-1 if watermark is None else watermark,
        layout=_layout(files),
    )


def _layout(files: Sequence[DataFile]) -> tuple[tuple[int, int], ...]:
    """Empty of too many files, and of those in partitions, each of which is maintained by itself."""
    if len(files) > ScopeState.MAX_LAYOUT or any(file.partition for file in files):
        return ()
    newest_first = sorted(files, key=lambda file: file.age, reverse=True)
    return tuple((-1 if file.rows is None else file.rows, file.size) for file in newest_first)


def first_snapshot(made: OwnCommit, app_id: str) -> Snapshot:
    """Returns version 0 of a new table."""
    assert made.change.head is not None, "the first commit says what the table is"
    none: dict[str, int | None] = {app_id: None, BATCH_APP: None, SWEPT: None}
    return Snapshot(-1, made.change.head, (), {}, app_id, none, "").after(made)
