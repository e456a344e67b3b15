"""The file system calls of LocalObjects. Plain strings throughout: pathlib costs more than the calls themselves."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

from lakewarden.storage.objects import StoredObject

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
        if error.errno in _NO_UNNAMED:
            return None
        raise


def name_unnamed(descriptor: int, path: str) -> None:
    """Gives the file its name. Raises `FileExistsError` when the name is taken."""
    os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor)  # Python follows the source only beside a directory


def is_named(ours: os.stat_result, path: str) -> bool:
    """Whether the name is that of our file: a network's file system may repeat a link whose answer was lost, and then say that
    the name is taken."""
    try:
        return os.path.samestat(ours, os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def read_range(descriptor: int, start: int, length: int) -> bytes:
    parts = []
    while length > 0 and (part := os.pread(descriptor, length, start)):
        parts.append(part)
        start += len(part)
        length -= len(part)
    return b"".join(parts)


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


def files_below(directory: str, prefix: str) -> Iterator[StoredObject]:
    for key, entry in entries_below(directory, prefix):
        with suppress(FileNotFoundError):  # deleted since the directory was read
            status = entry.stat(follow_symlinks=False)
            yield StoredObject(key, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))


def entries_below(directory: str, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yields the files, with their keys."""
    try:
        entries = os.scandir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return
    with entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                yield prefix + entry.name, entry
            elif prefix or entry.name != TEMPORARY:
                yield from entries_below(entry.path, f"{prefix}{entry.name}/")


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
    while os.stat(above).st_dev == device:
        with suppress(PermissionError):
            sync_directory(above)
        if above == os.path.dirname(above):
            return
        above = os.path.dirname(above)
