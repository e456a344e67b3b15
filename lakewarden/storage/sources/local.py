"""A directory as a source. Only regular files count; links to directories are not followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO

from lakewarden.errors import StorageRefused
from lakewarden.storage.objects import Missing
from lakewarden.storage.sources.source import ObjectChanged, ObjectSource, SourceObject

_ABSENT = (FileNotFoundError, NotADirectoryError)


@dataclass(frozen=True)
class LocalSource(ObjectSource):
    """`root` is an absolute path."""

    root: str

    @property
    def uri(self) -> str:
        return self.root

    def uploads(self, after: str = "") -> Iterator[SourceObject]:
        return self._below("", after)

    def look(self, key: str) -> SourceObject:
        path = self._path(key)
        try:
            found = os.stat(path)
        except (*_ABSENT, ValueError):
            raise Missing(key) from None
        except OSError as error:
            raise _refused(path, error) from error
        if not stat.S_ISREG(found.st_mode):
            raise Missing(key)
        return _uploaded(key, found)

    def open(self, uploaded: SourceObject) -> BinaryIO:
        path = self._path(uploaded.key)
        try:
            file = open(path, "rb")  # noqa: SIM115  # the caller closes it
        except _ABSENT:
            raise Missing(uploaded.key) from None
        except OSError as error:
            raise _refused(path, error) from error
        if _etag(os.fstat(file.fileno())) != uploaded.etag:
            file.close()
            raise ObjectChanged(uploaded.key)
        return file

    def prove(self, uploaded: SourceObject) -> None:
        if self.look(uploaded.key).etag != uploaded.etag:
            raise ObjectChanged(uploaded.key)

    def _path(self, key: str) -> str:
        if not key or key.startswith("/") or not {"", ".", ".."}.isdisjoint(key.split("/")) or "\0" in key:
            raise Missing(key)
        return os.path.join(self.root, *key.split("/"))

    def _below(self, folder: str, after: str) -> Iterator[SourceObject]:
        """A directory sorts as its name and a slash, so that keys come in the order of their letters, as buckets list them."""
        try:
            with os.scandir(os.path.join(self.root, folder)) as entries:
                found = [(entry.name + "/" if entry.is_dir(follow_symlinks=False) else entry.name, entry) for entry in entries]
        except _ABSENT:
            return
        except OSError as error:
            raise _refused(os.path.join(self.root, folder), error) from error
        for name, entry in sorted(found, key=lambda one: _spelled(one[0])):
            key = folder + name
            if name.endswith("/"):
                if not after.startswith(key) and _spelled(key) < after:
                    continue
                yield from self._below(key, after)
            elif _spelled(key) > after:
                yield from _listed(key, entry)


def _listed(key: str, entry: os.DirEntry[str]) -> Iterator[SourceObject]:
    try:
        found = entry.stat()
    except OSError:
        return  # removed since, or a link to nowhere
    if stat.S_ISREG(found.st_mode):
        spelled = _spelled(key)
        yield _uploaded(spelled, found, "" if spelled == key else "its name is not UTF-8")


def _spelled(name: str) -> str:
    """The name in valid Unicode: bytes that are not UTF-8 as `\\xff`."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _uploaded(key: str, found: os.stat_result, refused: str = "") -> SourceObject:
    return SourceObject(key, found.st_size, _etag(found), datetime.fromtimestamp(found.st_mtime, UTC), refused)


def _etag(found: os.stat_result) -> str:
    """Without the inode: a copy of the directory that keeps times is the same source."""
    return f"{found.st_mtime_ns:x}-{found.st_size:x}"


def _refused(path: str, error: OSError) -> StorageRefused:
    return StorageRefused(f"cannot read {path}: {error.strerror}")
