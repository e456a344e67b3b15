"""Lists a place independently: every file and object, including those that other rooms skip."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lakewarden.base.connection import Location
from lakewarden.errors import StorageUnavailable
from lakewarden.storage.location import join, local_path
from lakewarden.storage.objects import Missing
from lakewarden.storage.open import open_store


@dataclass(frozen=True)
class ListedObject:
    """One object; `key` is relative to `location`, `size` in bytes."""

    location: Location
    key: str
    size: int

    @property
    def uri(self) -> str:
        return join(self.location.uri, self.key)


def everything(place: Location) -> Iterator[ListedObject]:
    """Raises:
    StorageUnavailable, StorageRefused: the place cannot be listed, so nothing is known of it.
    """
    root = local_path(place.uri)
    if root is None:
        for stored in open_store(place).list(""):
            yield ListedObject(place, stored.key, stored.size)
        return
    for folder, _, names in os.walk(root, onerror=_refused):
        for name in names:
            path = Path(folder, name)
            try:
                yield ListedObject(place, path.relative_to(root).as_posix(), path.lstat().st_size)
            except FileNotFoundError:
                continue  # gone since the directory was read


def content(found: ListedObject) -> bytes | None:
    """The bytes; None where the object is gone."""
    root = local_path(found.location.uri)
    try:
        return open_store(found.location).get(found.key) if root is None else Path(root, found.key).read_bytes()
    except (Missing, FileNotFoundError):
        return None


def part(found: ListedObject, start: int, length: int) -> bytes:
    """Some of the bytes; empty where the object is gone."""
    root = local_path(found.location.uri)
    try:
        if root is None:
            return open_store(found.location).get_range(found.key, start, length)
        with Path(root, found.key).open("rb") as file:
            file.seek(start)
            return file.read(length)
    except (Missing, FileNotFoundError):
        return b""


def _refused(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):  # nothing is below a file
        raise StorageUnavailable(f"cannot list {error.filename}: {error.strerror}; what is there was not searched") from error
