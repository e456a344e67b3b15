"""Gives a commit its name: whole or not at all, and only if no other commit has it.

On a disk the commit is written under a hidden name in the log's directory. Once that and its data files are durable, it is
linked to its own name, which fails where something has it already. On an object store it is created if absent. A process
that is killed leaves a hidden file, which holds the commit's statistics; a vacuum takes it a day later, an erasure at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256

from lakewarden.base.connection import Location
from lakewarden.base.faults import Reach, no_faults
from lakewarden.delta.commit_log.damage import check_name
from lakewarden.delta.failures import delta_errors
from lakewarden.delta.replay.log_objects import LOG, commit_name
from lakewarden.errors import Conflict, StorageUnavailable
from lakewarden.storage.disk import is_named, write_all
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import AlreadyThere, Missing
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps

Still = Callable[[], None]

_UNNAMED = re.compile(rf"{LOG}/\.(\d{{20}})\.json\.[0-9a-f]{{32}}")


def publish(location: Location, version: int, text: bytes, still: Still, reach: Reach = no_faults) -> Steps[None]:
    """Makes the commit that version.

    Args:
        still: raises `TooLate` once another process may have continued; called before it is written and before it is named.

    Raises:
        Conflict: there is such a version already, or all that lay there was removed meanwhile; nothing was changed.
        Corrupt: a torn commit has the name; nothing was changed.
        StorageUnavailable: as `ObjectStore.create`: the commit may be there all the same.
    """
    still()
    root = local_path(location.uri)
    if root is None:
        reach("before-link")
        _create(location, version, text)
        return
    unnamed = f"{root}/{unnamed_commit(version, sha256(text).hexdigest()[:32])}"
    with delta_errors(f"cannot commit to {location}"):
        try:
            if not _written(unnamed, text, first=version == 0):
                raise _lost(location)
            del text
            yield location.uri
            still()
            reach("before-link")
            if not _named(unnamed, f"{root}/{commit_name(version)}"):
                check_name(location, version)
                raise _lost(location)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(unnamed)


def _create(location: Location, version: int, text: bytes) -> None:
    try:
        open_store(location).create(commit_name(version), text)
    except AlreadyThere:
        raise _lost(location) from None
    except StorageUnavailable as failed:
        there = _there(location, version, failed)
        if there is None:
            raise
        if there != text:
            raise _lost(location) from failed


def _there(location: Location, version: int, failed: StorageUnavailable) -> bytes | None:
    """What has the name after an answer was lost. No two commits are equal, and a name is given once."""
    try:
        return open_store(location).get(commit_name(version))
    except Missing:
        return None
    except StorageUnavailable as silent:
        raise StorageUnavailable(
            f"{failed.message}; and whether the commit exists cannot be determined: {silent.message}"
        ) from failed


def _written(path: str, text: bytes, *, first: bool) -> bool:
    """False where the log's directory is gone. The table's first commit makes it."""
    if first:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileNotFoundError:
        return False
    try:
        write_all(descriptor, text)
    finally:
        os.close(descriptor)
    return True


def _named(unnamed: str, name: str) -> bool:
    """False where the name is taken, or a drop or an erasure took the hidden file."""
    try:
        os.link(unnamed, name)
    except FileNotFoundError:
        return False
    except FileExistsError:
        try:
            return is_named(os.stat(unnamed), name)
        except FileNotFoundError:
            return False
    return True


def unnamed_commit(version: int, digest: str) -> str:
    """The name of a commit that is not one yet: no reader of Delta looks at hidden files."""
    return f"{LOG}/.{version:020d}.json.{digest}"


def version_of_unnamed(name: str) -> int | None:
    """The version that such a file was to become; None for any other file."""
    found = _UNNAMED.fullmatch(name)
    return int(found[1]) if found else None


def _lost(location: Location) -> Conflict:
    return Conflict(f"cannot commit to {location}: another commit came between; nothing was changed, try again")
