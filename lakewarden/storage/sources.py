"""Places where others upload objects: listed in order of their keys, with ETags, and read as they were listed."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Protocol

import obstore
from obstore.exceptions import InvalidPathError, PreconditionError

from lakewarden.base.clock import NewId
from lakewarden.base.connection import Location
from lakewarden.errors import InvalidArgument, StorageRefused
from lakewarden.storage.buckets import odd_pages
from lakewarden.storage.local import LocalObjects
from lakewarden.storage.location import canonical, join, local_path, within
from lakewarden.storage.meter import PAGE, count
from lakewarden.storage.objects import Missing, ObjectStore, open_ranges
from lakewarden.storage.remote import RemoteObjects

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client


# An object of a source, and what a source can do, whichever store it is in.
class ObjectChanged(Exception):
    """The object is there, and has another ETag than it was listed with."""


@dataclass(frozen=True, slots=True)
class SourceObject:
    """An object of a source. `key` is relative to the source; `size` in bytes."""

    key: str
    size: int
    etag: str
    """What changes whenever the content does; on a disk, the time of the last change and the size."""
    modified: datetime
    refused: str = ""
    """Why no store could read it under this key; empty for all but hostile names."""


class ObjectSource(Protocol):
    """A directory, or a prefix of a bucket. Every method raises `StorageUnavailable` or `StorageRefused` when the store fails."""

    @property
    def uri(self) -> str: ...

    def uploads(self, after: str = "", *, below: str = "") -> Iterator[SourceObject]:
        """Yields the objects whose keys come after that key, in their order. A source that does not exist is empty.

        Args:
            below: only those in this directory, which is named without a slash at its end.
        """
        ...

    def folders(self, below: str = "") -> Sequence[str]:
        """The directories directly in that directory, each with a slash at its end, in the order of their keys. Empty where a
        listing that begins behind a key reads all the keys before it: there it does not help to begin several."""
        return ()

    def look(self, key: str) -> SourceObject:
        """Returns one object. Raises `Missing`, also for a key that leads out of the source."""
        ...

    def open(self, uploaded: SourceObject) -> BinaryIO:
        """Opens an object for reading at any place. This, or a later read, raises `Missing` or `ObjectChanged` where it is no
        longer the one that was listed."""
        ...

    def prove(self, uploaded: SourceObject) -> None:
        """Proves, after the last read, that all reads were of the object that was listed. Raises `Missing`, `ObjectChanged`."""
        ...


# A directory as a source. Only regular files count; links to directories are not followed.
_NO_FILE = (FileNotFoundError, NotADirectoryError)


@dataclass(frozen=True)
class LocalSource(ObjectSource):
    """`root` is an absolute path."""

    root: str
    links: bool = True
    """Whether links to files elsewhere are objects, too. Without them, whoever wrote the files is not trusted, and ETags have
    the inode: they tell a file from another one that was given its time and size."""

    @property
    def uri(self) -> str:
        return self.root

    def uploads(self, after: str = "", *, below: str = "") -> Iterator[SourceObject]:
        return self._below(f"{below}/" if below else "", after)

    def store(self, below: str) -> ObjectStore:
        """Opens a directory of the source as a store."""
        return LocalObjects(join(self.root, below))

    def look(self, key: str) -> SourceObject:
        path = self._path(key)
        try:
            found = os.stat(path)
        except (*_NO_FILE, ValueError):
            raise Missing(key) from None
        except OSError as error:
            raise _refused(path, error) from error
        if not stat.S_ISREG(found.st_mode):
            raise Missing(key)
        return _object_of_file(key, found)

    def open(self, uploaded: SourceObject) -> BinaryIO:
        path = self._path(uploaded.key)
        try:
            file = open(path, "rb")  # noqa: SIM115  # the caller closes it
        except _NO_FILE:
            raise Missing(uploaded.key) from None
        except OSError as error:
            raise _refused(path, error) from error
        # By the open file, not by its name: between a look at the name and the open it may have been replaced.
        if _file_etag(os.fstat(file.fileno())) != uploaded.etag:
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
        except _NO_FILE:
            return
        except OSError as error:
            raise _refused(os.path.join(self.root, folder), error) from error
        for name, entry in sorted(found, key=lambda one: _spelled(one[0])):
            key = folder + name
            if name.endswith("/"):
                # The whole directory comes before that key, so it need not be opened.
                if not after.startswith(key) and _spelled(key) < after:
                    continue
                yield from self._below(key, after)
            elif _spelled(key) > after:
                yield from self._listed(key, entry)

    def _listed(self, key: str, entry: os.DirEntry[str]) -> Iterator[SourceObject]:
        if self.links or not entry.is_symlink() or within(entry.path, self.root):
            for found in _found(key, entry):
                yield found if self.links else replace(found, etag=f"{found.etag}-{entry.inode():x}")


def _found(key: str, entry: os.DirEntry[str]) -> Iterator[SourceObject]:
    try:
        found = entry.stat()
    except OSError:
        return  # removed since, or a link to nowhere
    if stat.S_ISREG(found.st_mode):
        spelled = _spelled(key)
        yield _object_of_file(spelled, found, "" if spelled == key else "its name is not UTF-8")


def _spelled(name: str) -> str:
    """The name in valid Unicode: bytes that are not UTF-8 as `\\xff`."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _object_of_file(key: str, found: os.stat_result, refused: str = "") -> SourceObject:
    return SourceObject(key, found.st_size, _file_etag(found), datetime.fromtimestamp(found.st_mtime, UTC), refused)


def _file_etag(found: os.stat_result) -> str:
    """Without the inode: a copy of the directory that keeps times is the same source."""
    return f"{found.st_mtime_ns:x}-{found.st_size:x}"


def _refused(path: str, error: OSError) -> StorageRefused:
    return StorageRefused(f"cannot read {path}: {error.strerror}")


# A prefix of a bucket as a source (S3, Azure, Google), through the clients of `storage.remote`.
_SEEKS = ("s3", "gs")
"""Stores that begin a listing behind a key by themselves; for others the library drops what comes before it."""

_ODD = re.compile(r"[\x00-\x1f\x7f]|//|^/")
"""In a key that the client does not take: control characters, and empty parts."""


class RemoteSource(RemoteObjects, ObjectSource):
    """The objects below a prefix."""

    def __reduce__(self) -> tuple[type[RemoteSource], tuple[Location, NewId]]:
        return RemoteSource, (self._location, self._new_id)

    def uploads(self, after: str = "", *, below: str = "") -> Iterator[SourceObject]:
        cut = len(self._prefix)
        pages = _Pages(f"{self._prefix}{below}".rstrip("/") or None, f"{self._prefix}{after}" if after else None)
        try:
            while page := self._done("list", below, pages.following):
                count("LIST")
                yield from (_object_of_bucket(meta["path"][cut:], meta) for meta in page)
        except FileNotFoundError:
            raise self._no_bucket("list", below) from None
        except StorageRefused as error:
            if not isinstance(error.__cause__, InvalidPathError):
                raise
            yield from self._odd(f"{self._prefix}{below}".rstrip("/"), pages.after or "", error.message)
        # An empty listing is a request too.
        if pages.at == 0:
            count("LIST")

    def store(self, below: str) -> ObjectStore:
        """The same. All share the clients, which take as long to make as some requests."""
        return RemoteObjects(self._location.below(below), self._new_id, self._clients)

    def _odd(self, below: str, after: str, why: str) -> Iterator[SourceObject]:
        """The rest of a listing with a key that the client refuses."""
        cut = len(self._prefix)
        for page in odd_pages(self._location, f"{below}/" if below else "", after, why):
            for each in page:
                key = each.key[cut:].removesuffix("/")  # as the client has it
                refused = "no object is read under such a name" if _ODD.search(key) else ""
                yield SourceObject(key, each.size, each.etag, each.modified, refused)

    def folders(self, below: str = "") -> Sequence[str]:
        if self._uri.partition("://")[0] not in _SEEKS:
            return ()
        prefix = f"{self._prefix}{below}".rstrip("/") or None
        try:
            found = self._done("list", below, lambda client: obstore.list_with_delimiter(client, prefix))
        except FileNotFoundError:
            raise self._no_bucket("list", below) from None
        except StorageRefused as error:
            # An odd name among them: then the caller lists without folders, which can step over it.
            if isinstance(error.__cause__, InvalidPathError):
                return ()
            raise
        count("LIST", max(1, -(-(len(found["common_prefixes"]) + len(found["objects"])) // PAGE)))
        return sorted(f"{name[len(self._prefix) :]}/" for name in found["common_prefixes"])

    def look(self, key: str) -> SourceObject:
        try:
            path = self._path(key)
        except InvalidArgument:
            raise Missing(key) from None

        def head(client: Client) -> obstore.ObjectMeta:
            return self._counting("HEAD", key, lambda _: 0, lambda: obstore.head(client, path))

        return _object_of_bucket(key, self._read(key, head))

    def open(self, uploaded: SourceObject) -> BinaryIO:
        return open_ranges(uploaded.size, partial(self.read, uploaded))

    def prove(self, uploaded: SourceObject) -> None:
        """Does nothing: each read was of the object with that ETag."""

    def read(self, uploaded: SourceObject, start: int, length: int) -> bytes:
        """Returns a part of the object. Raises `Missing`, `ObjectChanged`."""
        path = self._path(uploaded.key)

        def pinned(client: Client) -> bytes:
            def part() -> bytes:
                # Each range names the ETag: parts of two uploads are never put together.
                found = obstore.get(client, path, options={"if_match": uploaded.etag, "range": (start, start + length)})
                return bytes(found.bytes())

            try:
                return self._counting("GET", uploaded.key, len, part)
            except PreconditionError:
                raise ObjectChanged(uploaded.key) from None

        return self._read(uploaded.key, pinned)


class _Pages:
    """A listing, page by page. Another client goes on behind the last page."""

    def __init__(self, below: str | None, after: str | None) -> None:
        self._below = below
        self.after = after
        """The last key of the bucket that was listed, or behind which the listing begins."""
        self._client: Client | None = None
        self._rest: Iterator[Sequence[obstore.ObjectMeta]] = iter(())
        self.at = 0
        """How many pages there were."""

    def following(self, client: Client) -> Sequence[obstore.ObjectMeta]:
        # Credentials may be renewed between two pages; the listing goes on behind the last key
        # (docs/decisions/0111-clients-are-made-anew.md).
        if client is not self._client:
            self._client = client
            self._rest = iter(obstore.list(client, prefix=self._below, offset=self.after, chunk_size=PAGE))
        page = next(self._rest, ())
        self.after = page[-1]["path"] if page else self.after
        self.at += bool(page)
        return page


def _object_of_bucket(key: str, meta: obstore.ObjectMeta) -> SourceObject:
    return SourceObject(key, meta["size"], meta["e_tag"] or "", meta["last_modified"])


def open_source(location: Location, *, links: bool = True) -> LocalSource | RemoteSource:
    """Opens the place without touching it. `links`: of `LocalSource`.

    Raises:
        InvalidArgument: the URI does not name a place, or contains a credential.
    """
    path = local_path(location.uri)
    return RemoteSource(replace(location, uri=canonical(location.uri))) if path is None else LocalSource(str(path), links)
