"""Data and change files that no commit names: left by a writer that died, or about to be committed by one that runs.

Only age distinguishes the two, so `check` just counts them, and a vacuum removes those older than `ORPHAN_AGE`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from lakewarden.delta.commit_log.commits import without_nested
from lakewarden.delta.commit_log.publish import version_of_unnamed
from lakewarden.delta.parquet.files import CHANGE_FOLDER, SHUFFLE
from lakewarden.delta.timeline import Timeline
from lakewarden.storage.objects import StoredObject

ORPHAN_AGE = timedelta(hours=24)
"""No writer takes a day between writing a file and committing it."""


def data_files(listing: Sequence[StoredObject]) -> list[StoredObject]:
    """Parquet files of the table, without those below a hidden name or of another table inside this one's directory."""
    return [found for found in without_nested(listing) if _is_data(found.key)]


def table_files(listing: Sequence[StoredObject]) -> list[StoredObject]:
    """The same, change files, and files on the way to becoming data files: all that the table's writers write."""
    own = without_nested(listing)
    return [found for found in own if _is_data(found.key.removeprefix(f"{CHANGE_FOLDER}/")) or SHUFFLE.fullmatch(found.key)]


def orphans(listing: Sequence[StoredObject], timeline: Timeline, live: frozenset[str]) -> list[StoredObject]:
    """The files that no commit in the log names and no checkpoint has as live."""
    # Live ones too: the commit that added a file may have expired, and then the checkpoint alone has it.
    known = timeline.named | live
    return [found for found in table_files(listing) if found.key not in known]


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
        f"{len(found)} files of {size} bytes that {what}, the oldest {oldest.total_seconds() / 3600:.1f} hours old;"
        f" {ripe} are older than {hours:g} hours, after which a vacuum may remove them"
    )


def _is_data(key: str) -> bool:
    return key.endswith(".parquet") and not any(part.startswith(("_", ".")) for part in key.split("/"))
