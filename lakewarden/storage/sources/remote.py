"""A prefix of a bucket as a source (S3, Azure, Google), through the clients of `storage.remote`."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import BinaryIO, cast

import obstore
from obstore.exceptions import PreconditionError

from lakewarden.connection import Location
from lakewarden.errors import InvalidArgument
from lakewarden.storage.objects import Missing
from lakewarden.storage.remote import RemoteObjects
from lakewarden.storage.sources.uploaded import Changed, Source, Uploaded

_READ_AHEAD = 1 << 20
_PAGE = 1000


class RemoteSource(RemoteObjects, Source):
    """The objects below a prefix."""

    def __reduce__(self) -> tuple[type[RemoteSource], tuple[Location]]:
        return RemoteSource, (self._location,)

    def uploads(self, after: str = "") -> Iterator[Uploaded]:
        cut, below = len(self._prefix), self._prefix.rstrip("/") or None
        offset = f"{self._prefix}{after}" if after else None
        with self._explained("list", ""):
            try:
                for page in obstore.list(self._client(), prefix=below, offset=offset, chunk_size=_PAGE):
                    yield from (_uploaded(meta["path"][cut:], meta) for meta in page)
            except FileNotFoundError:
                raise self._no_bucket("list", "") from None

    def look(self, key: str) -> Uploaded:
        try:
            path = self._path(key)
        except InvalidArgument:
            raise Missing(key) from None
        with self._explained("read", key), self._missing(key):
            return _uploaded(key, obstore.head(self._client(), path))

    def open(self, uploaded: Uploaded) -> BinaryIO:
        return cast("BinaryIO", io.BufferedReader(_Pinned(self, uploaded), _READ_AHEAD))

    def prove(self, uploaded: Uploaded) -> None:
        """Does nothing: each read was of the object with that ETag."""

    def read(self, uploaded: Uploaded, start: int, length: int) -> bytes:
        """Returns a part of the object. Raises `Missing`, `Changed`."""
        path = self._path(uploaded.key)
        with self._explained("read", uploaded.key), self._missing(uploaded.key):
            try:
                found = obstore.get(self._client(), path, options={"if_match": uploaded.etag, "range": (start, start + length)})
                return bytes(found.bytes())
            except PreconditionError:
                raise Changed(uploaded.key) from None


class _Pinned(io.RawIOBase):
    """An object as a file: each read is a request for a range of the object with that ETag."""

    def __init__(self, source: RemoteSource, uploaded: Uploaded) -> None:
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


def _uploaded(key: str, meta: obstore.ObjectMeta) -> Uploaded:
    return Uploaded(key, meta["size"], meta["e_tag"] or "", meta["last_modified"])
