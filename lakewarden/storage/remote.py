"""Objects in a bucket (S3, Google, Azure), or in memory, through obstore."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, cast

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import MemoryStore, S3Store, from_url

from lakewarden.errors import LakewardenError, StorageRefused, StorageUnavailable
from lakewarden.storage.keys import check_key
from lakewarden.storage.location import s3_settings
from lakewarden.storage.objects import AlreadyThere, Missing, StoredObject

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config
    from obstore.store import ObjectStore as Client

_REFUSED = (PermissionDeniedError, UnauthenticatedError, InvalidPathError, NotSupportedError)
_memories: dict[str, MemoryStore] = {}
"""`memory://name` is one store for the whole process, however often it is opened."""


class RemoteObjects:
    """An `ObjectStore` below a prefix of a bucket. Takes credentials from the environment, at the first call."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        scheme, _, rest = uri.partition("://")
        self._bucket, _, prefix = rest.partition("/")
        self._scheme = scheme
        self._prefix = f"{prefix}/" if prefix else ""
        self._connected: Client | None = None

    def __reduce__(self) -> tuple[type[RemoteObjects], tuple[str]]:
        return RemoteObjects, (self._uri,)

    @property
    def uri(self) -> str:
        return self._uri

    def create(self, key: str, data: bytes) -> None:
        path = self._path(key)
        with self._explained("create", key):
            try:
                obstore.put(self._client(), path, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                raise AlreadyThere(key) from None
            except FileNotFoundError:
                raise self._no_bucket("create", key) from None

    def put(self, key: str, data: bytes) -> None:
        path = self._path(key)
        with self._explained("write", key):
            try:
                obstore.put(self._client(), path, data)
            except FileNotFoundError:
                raise self._no_bucket("write", key) from None

    def get(self, key: str) -> bytes:
        path = self._path(key)
        with self._explained("read", key), _missing(key):
            return bytes(obstore.get(self._client(), path).bytes())

    def get_range(self, key: str, start: int, length: int) -> bytes:
        path = self._path(key)
        with self._explained("read", key), _missing(key):
            try:
                if length > 0:
                    return bytes(obstore.get_range(self._client(), path, start=start, length=length))
                obstore.head(self._client(), path)
            except BaseError:
                if obstore.head(self._client(), path)["size"] > start:
                    raise
        return b""  # stores refuse a range that begins at the object's end

    def list(self, prefix: str) -> list[StoredObject]:
        below = f"{self._prefix}{check_key(prefix)}" if prefix else self._prefix.rstrip("/")
        cut = len(self._prefix)
        with self._explained("list", prefix):
            try:
                metas = obstore.list(self._client(), prefix=below or None, chunk_size=1000).collect()
            except FileNotFoundError:
                raise self._no_bucket("list", prefix) from None
        found = [StoredObject(meta["path"][cut:], meta["size"], meta["last_modified"]) for meta in metas]
        found.sort(key=lambda stored: stored.key)
        return found

    def delete(self, keys: Iterable[str]) -> None:
        paths = [self._path(key) for key in keys]
        if not paths:
            return
        with self._explained("delete", paths[0]):
            try:
                obstore.delete(self._client(), paths)
            except FileNotFoundError:
                self._delete_each(paths)

    def _delete_each(self, paths: Sequence[str]) -> None:
        """Some stores call a missing object an error and stop there."""
        for path in paths:
            with suppress(FileNotFoundError):
                obstore.delete(self._client(), path)

    def _path(self, key: str) -> str:
        return f"{self._prefix}{check_key(key)}"

    def _client(self) -> Client:
        if self._connected is None:
            self._connected = _connect(self._scheme, self._bucket)
        return self._connected

    def _no_bucket(self, asked: str, key: str) -> StorageRefused:
        return StorageRefused(f"cannot {asked} {key or '/'} in {self._uri}: there is no bucket {self._bucket!r}")

    @contextmanager
    def _explained(self, asked: str, key: str) -> Iterator[None]:
        try:
            yield
        except BaseError as error:
            raise self._explanation(error, asked, key) from error

    def _explanation(self, error: BaseError, asked: str, key: str) -> LakewardenError:
        reason = str(error).partition("\n")[0]
        message = f"cannot {asked} {key or '/'} in {self._uri}: {reason}"
        if isinstance(error, _REFUSED) or "NoSuchBucket" in str(error):
            return StorageRefused(message)
        return StorageUnavailable(message)


def _connect(scheme: str, bucket: str) -> Client:
    if scheme == "memory":
        return _memories.setdefault(bucket, MemoryStore())
    client: ClientConfig = {"connect_timeout": "5s", "timeout": "60s"}
    retry: RetryConfig = {"max_retries": 5, "retry_timeout": timedelta(seconds=30)}
    if scheme == "s3":
        return S3Store(bucket, client_options=client, retry_config=retry, config=cast("S3Config", s3_settings(os.environ)))
    return from_url(f"{scheme}://{bucket}", client_options=client, retry_config=retry)


@contextmanager
def _missing(key: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise Missing(key) from None
