"""Reads and writes files in one scope's directory or prefix.

Data files and the manifest only: deltalake handles Delta's own log. Nothing here is synced to disk; a flush syncs
once for all its scopes (storage.durability).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from lakewarden.clock import NewId, random_id
from lakewarden.connection import Location
from lakewarden.delta.failures import delta_errors
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.open import open_store


class Place(Protocol):
    """The operations on a scope's directory. Names are relative to it; errors are those of `delta_errors`, and `Missing`."""

    def write(self, name: str, data: pa.Buffer) -> None:
        """Writes a new object. A crash may leave a part of it, so nothing may name it before this returns."""
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Writes or replaces an object; readers see the old or the new one, whole."""
        ...

    def source(self, name: str) -> str | pa.Buffer:
        """Returns a source that pyarrow can open. Raises `Missing`."""
        ...

    def read(self, name: str) -> bytes:
        """Returns the object's bytes. Raises `Missing`."""
        ...

    def has(self, name: str) -> bool: ...

    def is_whole(self, name: str, size: int) -> bool:
        """Returns whether an object has that name and exactly that many bytes."""
        ...

    def names(self, folder: str = "") -> list[str]:
        """Returns every object, or every object below a folder, sorted; an absent folder is empty."""
        ...

    def sizes(self) -> dict[str, int]:
        """Returns every object and its size in bytes."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Deletes objects. An object that does not exist is not an error."""
        ...


def place_of(location: Location) -> Place:
    path = local_path(location.uri)
    return RemotePlace(location) if path is None else LocalPlace(path)


class LocalPlace:
    def __init__(self, root: Path, new_id: NewId = random_id) -> None:
        self._root = str(root)
        self._new_id = new_id

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def write(self, name: str, data: pa.Buffer) -> None:
        with delta_errors(f"cannot write {self._path(name)}"):
            try:
                _write(self._path(name), data)
            except FileNotFoundError:  # the scope's first file; a check before every write would cost more
                os.makedirs(os.path.dirname(self._path(name)), exist_ok=True)
                _write(self._path(name), data)

    def replace(self, name: str, data: bytes) -> None:
        # a hidden name: vacuum and Delta readers skip it if a crash leaves it
        part = self._path(f".{name.replace('/', '-')}-{self._new_id()}")
        with delta_errors(f"cannot write {self._path(name)}"):
            try:
                _write(part, data)
                os.replace(part, self._path(name))
            except OSError:
                Path(part).unlink(missing_ok=True)
                raise

    def source(self, name: str) -> str | pa.Buffer:
        if not os.path.exists(self._path(name)):
            raise Missing(name)
        return self._path(name)

    def read(self, name: str) -> bytes:
        with delta_errors(f"cannot read {self._path(name)}"):
            try:
                with open(self._path(name), "rb") as file:
                    return file.read()
            except FileNotFoundError:
                raise Missing(name) from None

    def has(self, name: str) -> bool:
        return os.path.exists(self._path(name))

    def is_whole(self, name: str, size: int) -> bool:
        with delta_errors(f"cannot look at {self._path(name)}"):
            try:
                return os.stat(self._path(name)).st_size == size
            except FileNotFoundError:
                return False

    def names(self, folder: str = "") -> list[str]:
        root = Path(self._path(folder)) if folder else Path(self._root)
        with delta_errors(f"cannot list {root}"):
            return sorted(str(path.relative_to(self._root)) for path in root.rglob("*") if not path.is_dir())

    def sizes(self) -> dict[str, int]:
        with delta_errors(f"cannot list {self._root}"):
            return {name: os.path.getsize(self._path(name)) for name in self.names()}

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with delta_errors(f"cannot delete {self._path(name)}"):
                Path(self._path(name)).unlink(missing_ok=True)


def _write(path: str, data: bytes | pa.Buffer) -> None:
    with open(path, "wb", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]


class RemotePlace:
    """A place on an object store. The errors of `storage` need no translation."""

    def __init__(self, location: Location) -> None:
        self._store: ObjectStore = open_store(location)

    def write(self, name: str, data: pa.Buffer) -> None:
        self._store.put(name, data.to_pybytes())

    def replace(self, name: str, data: bytes) -> None:
        self._store.put(name, data)

    def source(self, name: str) -> str | pa.Buffer:
        return pa.py_buffer(self._store.get(name))

    def read(self, name: str) -> bytes:
        return self._store.get(name)

    def has(self, name: str) -> bool:
        try:
            self._store.get_range(name, 0, 1)
        except Missing:
            return False
        return True

    def is_whole(self, name: str, size: int) -> bool:
        try:
            return len(self._store.get_range(name, size - 1, 2)) == 1
        except Missing:
            return False

    def names(self, folder: str = "") -> list[str]:
        return [found.key for found in self._store.list(folder)]

    def sizes(self) -> dict[str, int]:
        return {found.key: found.size for found in self._store.list("")}

    def delete(self, names: Iterable[str]) -> None:
        self._store.delete(names)
