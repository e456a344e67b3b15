"""Data and change files that no commit names: left by a writer that died, or about to be committed by one that runs.

Only age distinguishes the two, so `check` just counts them, and a vacuum removes those older than `ORPHAN_AGE`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import pyarrow as pa

from lakewarden.base.attempts import Attempts
from lakewarden.base.quantities import in_units
from lakewarden.catalog.model import Table
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.commits import without_nested
from lakewarden.delta.commit_log.publish import version_of_unnamed
from lakewarden.delta.parquet.files import CHANGE_FOLDER, SHUFFLE
from lakewarden.delta.reading.rows import read_rows
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.timeline import Timeline
from lakewarden.log.table_log import TableLog
from lakewarden.log.view import PendingRows
from lakewarden.storage.objects import Missing, StoredObject
from lakewarden.tables.rows.files import is_stored_file, references

ORPHAN_AGE = timedelta(hours=24)
"""No writer takes a day between writing a file and committing it."""


def data_files(listing: Sequence[StoredObject]) -> list[StoredObject]:
    """Parquet files of the table, without those below a hidden name or of another table inside this one's directory."""
    return [found for found in without_nested(listing) if _is_data(found.key)]


def table_files(listing: Sequence[StoredObject]) -> list[StoredObject]:
    """The same, change files, and files on the way to becoming data files: all that the table's writers write."""
    own = without_nested(listing)
    return [found for found in own if _is_data(found.key.removeprefix(f"{CHANGE_FOLDER}/")) or SHUFFLE.fullmatch(found.key)]


def orphans(files: Sequence[StoredObject], timeline: Timeline, live: frozenset[str]) -> list[StoredObject]:
    """Those of the table's files that no commit in the log names and no checkpoint has as live."""
    # Live ones too: the commit that added a file may have expired, and then the checkpoint alone has it.
    known = timeline.named | live
    return [found for found in files if found.key not in known]


def unnamed_commits(listing: Sequence[StoredObject]) -> list[StoredObject]:
    """Commits that were never given their name (delta/commit_log/publish.py): their writers died, or are about to name them."""
    return [found for found in listing if version_of_unnamed(found.key) is not None]


def described(found: Sequence[StoredObject], what: str, now: datetime) -> str:
    """Describes the files: `what` they are, how many, how large and how old; empty where there are none."""
    if not found:
        return ""
    size, oldest = sum(file.size for file in found), now - min(file.modified for file in found)
    ripe = sum(now - file.modified >= ORPHAN_AGE for file in found)
    hours = ORPHAN_AGE.total_seconds() / 3600
    return (
        f"{len(found)} files of {in_units(size)} that {what}, the oldest {oldest.total_seconds() / 3600:.1f} hours old;"
        f" {ripe} are older than {hours:g} hours, after which a vacuum may remove them"
    )


def _is_data(key: str) -> bool:
    return key.endswith(".parquet") and not any(part.startswith(("_", ".")) for part in key.split("/"))


# Files of FILE columns that no row refers to: stored by a writer that died, or replaced by a plain write.
#
# A running writer stores a file before its row, so only files older than `ORPHAN_AGE` are unreferenced for certain.


def hot_files(log: TableLog, table: Table) -> dict[str | None, frozenset[str]]:
    """By user, the paths that rows in the log refer to; to be read before the scopes' tables.

    Raises:
        Conflict: flushes kept settling the rows while they were read.
    """
    columns = table.schema.of_files
    attempts = Attempts(10, f"the log of {table.name} was settled", "while it was read")
    while attempts.next():
        # The log before the tables: rows that a flush moves in between are in at least one of the two.
        pending = log.view().pending if columns else dict[str, PendingRows]()
        try:
            return {user or None: _referred(log.rows(rows, table.schemas), columns) for user, rows in pending.items()}
        except Missing:
            continue  # a flush settled them meanwhile


def _referred(rows: pa.Table, columns: Sequence[str]) -> frozenset[str]:
    return frozenset(ref.path for ref in references(rows, columns))


def stray_files(
    listing: Sequence[StoredObject], target: ScopeTarget, versions: Iterable[ScopeTable], hot: frozenset[str]
) -> list[StoredObject]:
    """The files that neither these versions nor the log refer to."""
    stored = [found for found in listing if is_stored_file(found.key)]
    columns = target.schema.of_files
    if not stored or not columns:
        return stored
    known = hot.union(*(_referred(read_rows(version, target.schemas, columns), columns) for version in versions))
    return [found for found in stored if found.key not in known]
