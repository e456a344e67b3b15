"""Finds what a power cut or a lost object left at the end of a scope's Delta log, and how much of it readers skip.

A commit of ours is durable before it has its name (delta/commit_log/publish.py). What others wrote, and releases before
that, may be torn: empty or cut off. On a disk, a torn commit with nothing above it is taken for one that is not there. Only
`lakewarden repair` moves it aside, and until then nothing is committed on top. Commits that were emptied below a fence are
no torn ones: the fence is above them. Checkpoints are derived from the commits: one that is missing or can't be read is
passed over (`delta.replay.log_state`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakewarden.base.connection import Location
from lakewarden.delta.replay.actions import is_torn
from lakewarden.delta.replay.checkpoints import read_checkpoint
from lakewarden.delta.replay.log_objects import (
    LAST_CHECKPOINT,
    MOST_COMMIT,
    CheckpointFiles,
    LogFiles,
    LogObjects,
    Pointer,
    commit_name,
    read_object,
    version_named,
)
from lakewarden.errors import Corrupt
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import Missing
from lakewarden.storage.open import open_store


@dataclass(frozen=True)
class LogDamage:
    """What is wrong at the top of a log; falsy where nothing is."""

    torn: tuple[int, ...] = ()
    """Versions above the one that readers see whose commits are empty or cut off, ascending."""
    checkpoints: tuple[str, ...] = ()
    """Names, relative to the scope, of checkpoints that can't be read, from the newest down to the first that can; and
    `_delta_log/_last_checkpoint` where it names one that is not there."""

    def __bool__(self) -> bool:
        return bool(self.torn or self.checkpoints)

    @property
    def said(self) -> list[str]:
        """Each of it, in words."""
        torn = [f"commit {version} is empty or cut off" for version in self.torn]
        return [*torn, *(f"{name} cannot be read" for name in self.checkpoints)]


def damage_of(location: Location) -> LogDamage:
    """Reads the newest commits and checkpoints of a scope's log; a place without a log has no damage.

    Raises:
        StorageUnavailable, StorageRefused: the log can't be listed or read.
    """
    log = LogObjects(location)
    files = log.files()
    hint = [LAST_CHECKPOINT] if leads_nowhere(log.pointer(), files) else []
    return LogDamage(tuple(reversed([*_torn_commits(log, files)])), (*_unreadable(location, files), *hint))


def _torn_commits(log: LogObjects, files: LogFiles) -> Iterator[int]:
    """The torn commits at the top of a log, the newest first. An object store has none: an object is there whole or not at
    all."""
    for version in sorted(files.commits, reverse=True) if log.on_disk else ():
        if not is_torn(log.read(commit_name(version), MOST_COMMIT)):
            return
        yield version


def check_name(location: Location, version: int) -> None:
    """To be called where a commit was to become that version and the name was taken, or before that.

    Raises:
        Corrupt: a torn commit has the name.
    """
    if local_path(location.uri) is None:
        return
    try:
        text = read_object(open_store(location), commit_name(version), MOST_COMMIT)
    except Missing:
        return
    if is_torn(text):
        raise torn_error(location, version)


def torn_error(location: Location, version: int) -> Corrupt:
    return Corrupt(
        f"the newest commit of the Delta table at {location}, version {version}, is torn: it is empty or cut off, as a power cut"
        " leaves it; nothing can be committed before lakewarden repair has put it aside"
    )


def has_readable_checkpoint(location: Location, files: LogFiles, version: int) -> bool:
    """Whether that version has a checkpoint that leads readers on without the commits below it."""
    return any(each.version == version and _can_be_read(location, each) for each in files.checkpoints)


def _unreadable(location: Location, files: LogFiles) -> Iterator[str]:
    for checkpoint in files.checkpoints:
        if _can_be_read(location, checkpoint):
            return
        yield from checkpoint.names


def _can_be_read(location: Location, checkpoint: CheckpointFiles) -> bool:
    try:
        read_checkpoint(LogObjects(location), checkpoint)
    except Corrupt:
        return False
    return True


def leads_nowhere(pointer: Pointer | None, files: LogFiles) -> bool:
    """Whether it names a checkpoint that is not there."""
    version = version_named(pointer)
    return version is not None and all(each.version != version for each in files.checkpoints)
