"""Finds out whether a commit that was reported as failed exists: the answer may be lost, or a hook may have failed after it.

A store's client repeats a request whose answer was lost, and finds the name taken, by itself; deltalake then tells of a lost
race. A checkpoint that cannot be written after the commit is reported as the commit's own failure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from lakewarden.base.connection import Location
from lakewarden.delta.commit_log.commits import CommitLog
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.errors import Conflict, LakewardenError, StorageUnavailable
from lakewarden.storage.open import open_store


@contextmanager
def certain(location: Location, version: int, stamp: CommitStamp, paths: Collection[str]) -> Iterator[None]:
    """Passes over a failure of the commit in the block, if it is there as `version` with this stamp and these new files.

    The stamp alone is not enough: two tries of one task carry the same, and only the names of files are never made twice.

    Raises:
        Conflict: there is another commit.
        StorageUnavailable: the commit does not exist, or this cannot be checked; it may still arrive.
    """
    try:
        yield
    except (Conflict, StorageUnavailable) as error:
        if not _is_there(location, version, stamp, paths, error):
            raise


def _is_there(location: Location, version: int, stamp: CommitStamp, paths: Collection[str], failed: LakewardenError) -> bool:
    log = CommitLog(open_store(location))
    try:
        commit = log.read(version)
        if commit is None or commit.info.get("userMetadata") != stamp.text():
            return False
        return set(paths) <= log.added(version)
    except StorageUnavailable as silent:
        raise StorageUnavailable(
            f"{failed.message}; and whether the commit exists cannot be determined: {silent.message}"
        ) from failed
