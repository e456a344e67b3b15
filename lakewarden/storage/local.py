"""Stores objects as files below a directory.

A creation writes a file without a name, syncs it, links it to its name and syncs the directory: the name appears whole or
not at all, and only once. Where the file system has no files without names, and for replacements, the file is in
`<root>/.tmp/` until then; what a killed process leaves there is removed later (storage/disk.py).
Paths are plain strings: pathlib costs more than the calls themselves.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter

from lakewarden.base.clock import Clock, NewId, random_id, system_clock
from lakewarden.errors import LakewardenError, NotDurable, StorageRefused, StorageUnavailable
from lakewarden.storage.disk import (
    REFUSALS,
    TEMPORARY,
    files_below,
    is_named,
    keys_below,
    name_unnamed,
    open_unnamed,
    remove_leftovers,
    replace_file,
    sync_above,
    sync_directory,
    write_all,
    write_file,
)
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore, StoredObject, path_below


class LocalObjects(ObjectStore):
    """An `ObjectStore` on a local (or POSIX) file system. Safe for threads. The first write creates the directory."""

    def __init__(self, root: str, clock: Clock = system_clock, new_id: NewId = random_id) -> None:
        self._root = root
        self._path = partial(path_below, f"{root}/")
        self._clock = clock
        self._new_id = new_id
        self._made: set[str] = set()
        self._making = threading.Lock()

    def __reduce__(self) -> tuple[type[LocalObjects], tuple[str, Clock, NewId]]:
        return LocalObjects, (self._root, self._clock, self._new_id)

    @property
    def uri(self) -> str:
        return self._root

    def create(self, key: str, data: bytes) -> None:
        path = self._path(key)
        try:
            if os.access(path, os.F_OK):  # saves the sync in a lost race
                raise AlreadyThere(key)
            try:
                self._create(path, key, data)
            except FileNotFoundError:  # another process removed the directory since it was made
                self._made.clear()
                self._create(path, key, data)
        except OSError as error:
            raise self._explanation(error, "create", key) from error

    def confirm(self, key: str) -> None:
        path = self._path(key)
        # The bytes, then the name: a process that died in between has synced either, or none
        # (docs/decisions/0018-links-and-lost-positions.md).
        with self._explained("sync", key), _opened(path, key) as descriptor, self._durably(key):
            os.fsync(descriptor)
            sync_directory(os.path.dirname(path))

    def put(self, key: str, data: bytes) -> None:
        path = self._path(key)
        with self._explained("write", key), self._written(data) as temporary:
            self._make(os.path.dirname(path))
            # Atomic: a reader sees the old object or the new one, and the new bytes are durable already.
            os.replace(temporary, path)
            with self._durably(key):
                sync_directory(os.path.dirname(path))

    def write(self, key: str, data: bytes | memoryview) -> None:
        path = self._path(key)
        with self._explained("write", key):
            try:
                write_file(path, data)
            except FileNotFoundError:  # the first file in its directory; a look before every write would cost more
                os.makedirs(os.path.dirname(path), exist_ok=True)
                write_file(path, data)

    def replace(self, key: str, data: bytes) -> None:
        path = self._path(key)
        # a hidden name: vacuum and Delta readers skip it if a crash leaves it
        part = f"{self._root}/.{key.replace('/', '-')}-{self._new_id()}"
        with self._explained("write", key):
            replace_file(path, part, data)

    def get(self, key: str) -> bytes:
        return self._read(key, 0)[0]

    def get_dated(self, key: str) -> tuple[bytes, datetime]:
        data, status = self._read(key, 0)
        return data, datetime.fromtimestamp(status.st_mtime, UTC)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._read(key, start, length)[0]

    def _read(self, key: str, start: int, length: int | None = None) -> tuple[bytes, os.stat_result]:
        """A part of an object, by default to its end. Without a context, of which each costs as much as the system's call."""
        path = self._path(key)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                parts, status = [], os.fstat(descriptor)
                rest = status.st_size if length is None else length
                while rest > 0 and (part := os.pread(descriptor, rest, start)):
                    parts.append(part)
                    start += len(part)
                    rest -= len(part)
                return b"".join(parts), status
            finally:
                os.close(descriptor)
        except (FileNotFoundError, NotADirectoryError):
            raise Missing(key) from None
        except OSError as error:
            raise self._explanation(error, "read", key) from error

    def list(self, prefix: str) -> list[StoredObject]:
        try:
            found = files_below(self._path(prefix) if prefix else self._root, f"{prefix}/" if prefix else "")
        except OSError as error:
            raise self._explanation(error, "list", prefix) from error
        found.sort(key=attrgetter("key"))
        return found

    def keys(self, prefix: str = "") -> Sequence[str]:
        try:
            return sorted(keys_below(self._path(prefix) if prefix else self._root, f"{prefix}/" if prefix else ""))
        except OSError as error:
            raise self._explanation(error, "list", prefix) from error

    def keys_after(self, prefix: str, key: str, following: Iterable[str] = ()) -> Sequence[str]:
        """Python gives other threads a turn at each name of a listing, and waits for its own again: with many of them, a look at
        the names that could follow costs a thousandth.
        """
        directory = self._path(prefix)
        if following:
            found, names = [], iter(following)
            for name in names:
                if not os.path.exists(f"{self._root}/{name}"):
                    break
                found.append(name)
            # One behind the first that is missing: if that one is there, the missing one is not simply the log's end.
            beyond = next(names, None)
            if beyond is None or not os.path.exists(f"{self._root}/{beyond}"):
                return found  # else the one before it was created meanwhile, or is lost: the listing shows which
        home, least = f"{prefix}/", key.removeprefix(f"{prefix}/")
        with self._explained("list", prefix):
            try:
                later = sorted([name for name in os.listdir(directory) if name > least])
            except (FileNotFoundError, NotADirectoryError):
                return []
            return [home + name for name in later if not os.path.isdir(f"{directory}/{name}")]

    def source(self, key: str) -> str | bytes:
        if not os.path.exists(path := self._path(key)):
            raise Missing(key)
        return path

    def has(self, key: str) -> bool:
        return os.path.exists(self._path(key))

    def is_whole(self, key: str, size: int) -> bool:
        with self._explained("look at", key):
            try:
                # By size: a crash can leave a name with fewer bytes, or none.
                return os.stat(self._path(key)).st_size == size
            except (FileNotFoundError, NotADirectoryError):
                return False

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            with self._explained("delete", key), suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(self._path(key))

    def _create(self, path: str, key: str, data: bytes) -> None:
        directory = path.rpartition("/")[0]
        self._make(directory)
        # Before the name there are only bytes that vanish with the process: a crash leaves nothing to clean up.
        descriptor = open_unnamed(self._root)
        if descriptor is None:
            with self._written(data) as temporary:
                _name(partial(os.link, temporary, path), partial(os.stat, temporary), path, key)
        else:
            try:
                self._fill(descriptor, data, key)
                # Behind the sync of the bytes: once the name can be seen, all that it names is durable.
                _name(partial(name_unnamed, descriptor, path), partial(os.fstat, descriptor), path, key)
            finally:
                os.close(descriptor)
        try:
            sync_directory(directory)
        except OSError as error:
            raise self._not_durable(error, key) from error

    def _fill(self, descriptor: int, data: bytes, what: str) -> None:
        write_all(descriptor, data)
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise self._not_durable(error, what) from error

    @contextmanager
    def _written(self, data: bytes) -> Iterator[str]:
        """Writes these bytes to a durable file of our own, and removes it at the end."""
        temporary = f"{self._temporary()}/{self._new_id()}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            try:
                self._fill(descriptor, data, os.path.basename(temporary))
            finally:
                os.close(descriptor)
            yield temporary
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)

    def _temporary(self) -> str:
        directory = f"{self._root}/{TEMPORARY}"
        if not os.path.isdir(directory):
            # Another process may have removed it as empty; then its name has to be made durable again.
            self._made.discard(directory)
        self._make(directory)
        return directory

    def _make(self, directory: str) -> None:
        """Makes a directory and those above it durable, once per process: another process may have just created it."""
        if directory in self._made:
            return
        with self._making:
            os.makedirs(directory, exist_ok=True)
            above = directory
            with self._durably(directory):
                # A file is durable only with each directory above it, up to one that this process has synced.
                while above not in self._made and above != self._root:
                    above = os.path.dirname(above)
                    sync_directory(above)
                if self._root not in self._made:
                    sync_above(self._root)
                    remove_leftovers(self._root, self._clock)
            self._made.update({directory, self._root})

    @contextmanager
    def _durably(self, what: str) -> Iterator[None]:
        """Wraps syncs: after a failed one, the write is visible but may not be durable."""
        try:
            yield
        except OSError as error:
            raise self._not_durable(error, what) from error

    def _not_durable(self, error: OSError, what: str) -> NotDurable:
        why = REFUSALS.get(error.errno or 0, "its disk may be failing")
        return NotDurable(
            f"the disk reported an error while making {what} in {self._root} durable: {error.strerror or error}"
            f" ({why}); what was written may be lost when the machine stops"
        )

    @contextmanager
    def _explained(self, action: str, key: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._explanation(error, action, key) from error

    def _explanation(self, error: OSError, action: str, key: str) -> LakewardenError:
        what = f"cannot {action} {key or '/'} in {self._root}"
        if error.errno in REFUSALS:
            return StorageRefused(f"{what}: {REFUSALS[error.errno]} ({error.strerror})")
        return StorageUnavailable(f"{what}: {error.strerror or error}")


def _name(link: Callable[[], None], ours: Callable[[], os.stat_result], path: str, key: str) -> None:
    try:
        link()
    except FileExistsError:
        # A network's file system may repeat a link whose answer was lost: the name that is taken may be ours
        # (docs/decisions/0109-a-created-object-has-an-id.md).
        if not is_named(ours(), path):
            raise AlreadyThere(key) from None


@contextmanager
def _opened(path: str, key: str) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise Missing(key) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)
