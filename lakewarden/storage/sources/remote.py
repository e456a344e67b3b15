"""A prefix of a bucket as a source (S3, Azure, Google), through the clients of `storage.remote`."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, cast

import obstore
from obstore.exceptions import PreconditionError

from lakewarden.base.clock import NewId
from lakewarden.base.connection import Location
from lakewarden.errors import InvalidArgument
from lakewarden.storage.objects import Missing
from lakewarden.storage.remote import RemoteObjects
from lakewarden.storage.sources.source import ObjectChanged, ObjectSource, SourceObject

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

_READ_AHEAD = 1 << 20
_PAGE = 1000


class RemoteSource(RemoteObjects, ObjectSource):
    """The objects below a prefix."""

    def __reduce__(self) -> tuple[type[RemoteSource], tuple[Location, NewId]]:
        return RemoteSource, (self._location, self._new_id)

    def uploads(self, after: str = "") -> Iterator[SourceObject]:
        cut = len(self._prefix)
        pages = _Pages(self._prefix.rstrip("/") or None, f"{self._prefix}{after}" if after else None)
        try:
            while page := self._done("list", "", pages.following):
                yield from (_uploaded(meta["path"][cut:], meta) for meta in page)
        except FileNotFoundError:
            raise self._no_bucket("list", "") from None

    def look(self, key: str) -> SourceObject:
        try:
            path = self._path(key)
        except InvalidArgument:
            raise Missing(key) from None
        with self._missing(key):
            return _uploaded(key, self._done("read", key, lambda client: obstore.head(client, path)))

    def open(self, uploaded: SourceObject) -> BinaryIO:
        return cast("BinaryIO", io.BufferedReader(_Pinned(self, uploaded), _READ_AHEAD))

    def prove(self, uploaded: SourceObject) -> None:
        """Does nothing: each read was of the object with that ETag."""

    def read(self, uploaded: SourceObject, start: int, length: int) -> bytes:
        """Returns a part of the object. Raises `Missing`, `ObjectChanged`."""
        path = self._path(uploaded.key)

        def pinned(client: Client) -> bytes:
            try:
                found = obstore.get(client, path, options={"if_match": uploaded.etag, "range": (start, start + length)})
                return bytes(found.bytes())
            except PreconditionError:
                raise ObjectChanged(uploaded.key) from None

        with self._missing(uploaded.key):
            return self._done("read", uploaded.key, pinned)


class _Pages:
    """A listing, page by page. Another client goes on behind the last page."""

    def __init__(self, below: str | None, after: str | None) -> None:
        self._below = below
        self._after = after
        self._client: Client | None = None
        self._rest: Iterator[Sequence[obstore.ObjectMeta]] = iter(())

    def following(self, client: Client) -> Sequence[obstore.ObjectMeta]:
        if client is not self._client:
            self._client = client
            self._rest = iter(obstore.list(client, prefix=self._below, offset=self._after, chunk_size=_PAGE))
        page = next(self._rest, ())
        self._after = page[-1]["path"] if page else self._after
        return page


class _Pinned(io.RawIOBase):
    """An object as a file: each read is a request for a range of the object with that ETag."""

    def __init__(self, source: RemoteSource, uploaded: SourceObject) -> None:
        self._source = source
        self._uploaded = uploaded
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._uploaded.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast("bytearray", buffer)).cast("B")
        length = min(len(view), self._uploaded.size - self._at)
        if length <= 0:
            return 0
        data = self._source.read(self._uploaded, self._at, length)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


def _uploaded(key: str, meta: obstore.ObjectMeta) -> SourceObject:
    return SourceObject(key, meta["size"], meta["e_tag"] or "", meta["last_modified"])
