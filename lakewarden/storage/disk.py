"""A local disk: the file system calls of LocalObjects, what makes written bytes durable, and what is left there."""

from __future__ import annotations

import ctypes
import errno
import os
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path, PurePosixPath

from lakewarden.base.clock import Clock, system_clock
from lakewarden.errors import LakewardenError, NotDurable, StorageRefused
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import StoredObject

# The file system calls of LocalObjects. Plain strings throughout: pathlib costs more than the calls themselves.
TEMPORARY = ".tmp"
"""The directory below a root that holds files until they are whole. No listing shows it."""

REFUSALS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "this process may not write or read there",
    errno.EPERM: "this process has no permission, or the file system has no hard links, which an atomic creation needs",
    errno.EOPNOTSUPP: "the file system has no hard links, which an atomic creation needs",
    errno.EXDEV: "another file system is mounted below the root; give it a storage of its own",
    errno.ENAMETOOLONG: "the name is too long for the file system",
    errno.ENOTDIR: "there is a file where a directory should be",
    errno.EISDIR: "there is a directory where a file should be",
    errno.EFBIG: "the file is larger than the file system allows",
}
"""Errors that do not pass by themselves, in words."""

_UNNAMED = getattr(os, "O_TMPFILE", 0) if os.path.isdir("/proc/self/fd") else 0
_NO_UNNAMED = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL})


def open_unnamed(directory: str) -> int | None:
    """Opens a new file without a name on the directory's file system; None where it has no such files.

    The file is gone when it is closed, or its process dies, before `name_unnamed`.
    """
    if not _UNNAMED:
        return None
    try:
        return os.open(directory, _UNNAMED | os.O_WRONLY | os.O_CLOEXEC, 0o666)
    except OSError as error:
        # The file system has no files without names: the caller uses `.tmp` instead.
        if error.errno in _NO_UNNAMED:
            return None
        raise


def name_unnamed(descriptor: int, path: str) -> None:
    """Gives the file its name. Raises `FileExistsError` when the name is taken."""
    # A link and no rename: a rename would replace another's object of that name.
    os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor)  # Python follows the source only beside a directory


def is_named(ours: os.stat_result, path: str) -> bool:
    """Whether the name is that of our file: a network's file system may repeat a link whose answer was lost, and then say that
    the name is taken."""
    try:
        return os.path.samestat(ours, os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def write_file(path: str, data: bytes | memoryview) -> None:
    with open(path, "wb", buffering=0) as file:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]


def replace_file(path: str, part: str, data: bytes) -> None:
    """Writes the bytes to `part`, which then takes the name `path`; after a failure there is no `part`."""
    try:
        write_file(part, data)
        os.replace(part, path)
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(part)
        raise


def write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def files_below(directory: str, prefix: str) -> list[StoredObject]:
    found = []
    for key in keys_below(directory, prefix):
        try:
            status = os.lstat(f"{directory}/{key[len(prefix) :]}")
        except FileNotFoundError:  # deleted since the directory was read
            continue
        found.append(StoredObject(key, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC)))
    return found


def keys_below(directory: str, prefix: str) -> list[str]:
    """The keys of the files, in no order. No generator: a step of it for each entry costs more than the entry."""
    found, folders = list[str](), list[str]()
    try:
        entries = os.scandir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return found
    with entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                found.append(prefix + entry.name)
            elif prefix or entry.name != TEMPORARY:  # at the root only: what is not whole yet is not an object
                folders.append(entry.name)
    for folder in folders:
        found += keys_below(f"{directory}/{folder}", f"{prefix}{folder}/")
    return found


def sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_above(root: str) -> None:
    """Makes the root's own name durable, with new directories above it. Those may belong to another user."""
    above = os.path.dirname(root)
    device = os.stat(root).st_dev
    # On another file system the directory was there before: it is the mount point.
    while os.stat(above).st_dev == device:
        with suppress(PermissionError):
            sync_directory(above)
        if above == os.path.dirname(above):
            return
        above = os.path.dirname(above)


# Makes everything written to a local disk durable, whichever library wrote it: one call for any number of files.
def sync(uris: Iterable[str]) -> None:
    """Makes everything written below these places durable, with one call per file system.

    Object stores need nothing: what they acknowledged is durable.

    Raises:
        NotDurable, StorageRefused: the disk reported an error; what was written may be lost.
    """
    for failure in sync_each(uris).values():
        raise failure


def sync_each(uris: Iterable[str]) -> dict[str, LakewardenError]:
    """Does the same and returns the failures by place, so that a failing disk does not hold back work on another."""
    devices: dict[int, Path] = {}
    below: dict[int, list[str]] = defaultdict(list)
    for uri in uris:
        if (path := local_path(uri)) is not None:
            # mostly the place itself: to make all of its parents would take longer than the look
            present = next(above for above in chain((path,), path.parents) if above.exists())
            # By device, since `syncfs` serves all places on one file system at once
            # (docs/decisions/0019-durable-before-named.md).
            device = present.stat().st_dev
            devices.setdefault(device, present)
            below[device].append(uri)
    failed: dict[str, LakewardenError] = {}
    for device, present in devices.items():
        try:
            _sync_file_system(present)
        except LakewardenError as error:
            # All places on it: `syncfs` does not say which file failed.
            failed.update(dict.fromkeys(below[device], error))
    return failed


def _sync_file_system(path: Path) -> None:
    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is None:  # not Linux
        os.sync()
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError as error:
        raise StorageRefused(f"cannot sync {path}: this process may not read it") from error
    try:
        if call(descriptor) != 0:
            raise NotDurable(f"cannot sync {path}: {os.strerror(ctypes.get_errno())}; what was written last may be lost")
    finally:
        os.close(descriptor)


# Removes what is left on a disk alone: bytes that never got a name, and directories that became empty.
#
# A killed process or a stopped machine leaves such bytes in `.tmp`. They may hold rows, so they are removed once no process can
# still be writing them. Removing one too early does no harm beyond that write: a writer whose file is gone fails, and has named
# nothing.

AGE = timedelta(days=1)
"""No write takes this long. A writer that was paused for longer finds its file gone, and fails."""

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def machine_start(now: Clock = system_clock) -> datetime:
    """Returns when this machine started: no process still writes a file last written before then. If unknown, long ago."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return _LONG_AGO if clock is None else now() - timedelta(seconds=time.clock_gettime(clock))


def remove_all_leftovers(place: str) -> None:
    """Removes the files whatever their age: where a table is given up, no writer may name anything any more."""
    remove_leftovers(place, started=lambda: datetime.max.replace(tzinfo=UTC))


def remove_leftovers(place: str, clock: Clock = system_clock, started: Clock = machine_start) -> int:
    """Removes files last written a day ago, or before the machine started, and returns how many.

    Args:
        place: the root of a store, as a URI. Object stores have no leftovers: an object exists whole or not at all.
        clock: the clock that dates files: the machine's own.
        started: when the machine started, by that clock.
    """
    root = local_path(place)
    if root is None:
        return 0
    # What was written before the machine started has no process any more, however young it is.
    before, removed = max(clock() - AGE, started()).timestamp(), 0
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError), os.scandir(root / TEMPORARY) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # its writer is alive, and done with it
                if entry.stat(follow_symlinks=False).st_mtime < before:
                    os.unlink(entry.path)
                    removed += 1
    return removed


def remove_empty_directories(place: str) -> None:
    """Removes the place's directories in which nothing is, and the place itself: their names may be the id of an erased user, or
    values of partition columns.
    """
    root = local_path(place)
    for folder, _, _ in () if root is None else os.walk(root, topdown=False):
        with suppress(OSError):  # not empty, or used again just now
            os.rmdir(folder)


def remove_emptied_directories(place: str, keys: Iterable[str]) -> None:
    """Removes the directories below the place that held these keys and hold nothing any more."""
    root = local_path(place)
    if root is None:
        return
    folders = {parent for key in keys for parent in PurePosixPath(key).parents if parent.name}
    # The deepest first: a directory is empty only when those in it are gone.
    for folder in sorted(folders, key=lambda each: len(each.parts), reverse=True):
        with suppress(OSError):  # as above
            os.rmdir(root / folder)
