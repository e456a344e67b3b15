"""What Lakewarden needs of a store: create if absent, read, list, delete. Any store with these will do.

Three verbs write durably: `create`, `confirm`, `put`. Two leave that to a sync for many files together (`storage.steps`,
`storage.disk`), which only a disk needs: `write` and `replace`. A store whose writes are all durable inherits them.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Protocol, cast

from lakewarden.errors import InvalidArgument


class Missing(Exception):
    """The object does not exist. Callers turn this into an error that names what they looked for."""


class AlreadyThere(Exception):
    """A conditional creation failed: the key is taken."""


@dataclass(frozen=True)
class StoredObject:
    """One line of a listing. `key` is relative to the store's root; `size` in bytes."""

    key: str
    size: int
    modified: datetime


class ObjectStore(Protocol):
    """Objects under one root, by `/`-separated keys: the state's, and the files of a scope's table.

    Every method raises `StorageUnavailable` or `StorageRefused` (lakewarden.errors) when the store fails, naming the
    store and the request.
    """

    @property
    def uri(self) -> str:
        """The root, as people write it. Never contains a credential."""
        ...

    def create(self, key: str, data: bytes) -> None:
        """Creates the object durably if the key is absent, else raises `AlreadyThere`. Atomic: no reader sees a part of it.

        `StorageUnavailable` means that the outcome is unknown: the object may exist. One case is `NotDurable`: the
        object may exist now, and be lost when the machine crashes.
        """
        ...

    def confirm(self, key: str) -> None:
        """Makes the object under the key durable: the process that created it may not have done so yet.

        Raises `NotDurable`, and `Missing` when the object does not exist.
        """
        ...

    def put(self, key: str, data: bytes) -> None:
        """Writes or replaces the object durably: every reader, also after a crash, sees the old or the new bytes, whole."""
        ...

    def write(self, key: str, data: bytes | memoryview) -> None:
        """Writes a new object, durable after the next sync of its place. Until then a crash may leave a part of it, and a
        reader may see one: nothing may name it before this returns."""
        self.put(key, bytes(data))

    def replace(self, key: str, data: bytes) -> None:
        """Writes or replaces an object whole for every reader, durable after the next sync of its place."""
        self.put(key, data)

    def get(self, key: str) -> bytes:
        """Returns the object's bytes. Raises `Missing`."""
        ...

    def source(self, key: str) -> str | bytes:
        """Returns what a reader of files opens without a copy: a path on a disk, else the bytes. Raises `Missing`."""
        return self.get(key)

    def get_dated(self, key: str) -> tuple[bytes, datetime]:
        """Returns the object's bytes, and when it was last written, by the store's clock. Raises `Missing`."""
        ...

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Returns bytes `[start, start + length)`, fewer at the object's end. Raises `Missing`."""
        ...

    def list(self, prefix: str) -> list[StoredObject]:
        """Returns all objects whose key starts with `prefix + "/"` (recursive), sorted by key. An absent prefix is empty."""
        ...

    def keys(self, prefix: str = "") -> Sequence[str]:
        """Returns the keys of what `list(prefix)` returns. On a disk, this looks at no file."""
        return [found.key for found in self.list(prefix)]

    def keys_after(self, prefix: str, key: str, following: Iterable[str] = ()) -> Sequence[str]:
        """Returns the keys directly below a prefix that are greater than a key which is there too, in order.

        Args:
            following: the keys behind `key`, where each of them is created only if the one before it is there. A disk looks for
                these one by one, and lists only where one is missing before another.
        """
        return [each for each in self.keys(prefix) if each > key and "/" not in each[len(prefix) + 1 :]]

    def has(self, key: str) -> bool:
        return self._tail(key, 0, 1) is not None

    def is_whole(self, key: str, size: int) -> bool:
        """Returns whether the object exists and has exactly that many bytes. `size` is above 0."""
        # Two bytes from the last one on: an object of the right size has exactly one of them.
        return len(self._tail(key, size - 1, 2) or b"") == 1

    def _tail(self, key: str, start: int, length: int) -> bytes | None:
        try:
            return self.get_range(key, start, length)
        except Missing:
            return None

    def delete(self, keys: Iterable[str]) -> None:
        """Removes objects. An object that does not exist is not an error."""
        ...


_NO_PART = frozenset({"", ".", ".."})


def path_below(root: str, key: str) -> str:
    """Returns where the key is below a root, which is empty or ends with `/`.

    Raises:
        InvalidArgument: the key is empty, absolute, or steps out of the store's root.
    """
    # Keys come from catalogs, commits and listings: none may lead out of the store, whoever wrote it.
    if not _NO_PART.isdisjoint(key.split("/")) or "\0" in key:
        raise InvalidArgument(f"object key {key!r} must be parts joined by '/', none of them empty, '.' or '..'")
    return root + key


_READ_AHEAD = 1 << 20


def open_ranges(size: int, read: Callable[[int, int], bytes], read_ahead: int = _READ_AHEAD) -> BinaryIO:
    """An object of `size` bytes as a file, for readers that seek.

    `read` takes an offset and a length; it may return less, but something, and raises what the caller shall see.
    """
    return cast("BinaryIO", io.BufferedReader(_RangeFile(size, read), read_ahead))


class _RangeFile(io.RawIOBase):
    """Each read is a request for a range."""

    def __init__(self, size: int, read: Callable[[int, int], bytes]) -> None:
        self._size = size
        self._read = read
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast("bytearray", buffer)).cast("B")
        length = min(len(view), self._size - self._at)
        if length <= 0:
            return 0
        data = self._read(self._at, length)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)
