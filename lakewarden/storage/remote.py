"""Stores objects in a bucket (S3, Google, Azure), or in memory, through obstore.

Clients are kept for the whole process: creating one costs more than a request (3 ms, and a connection).
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import lru_cache
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

from lakewarden.connection import Location
from lakewarden.errors import LakewardenError, NoBucket, StorageRefused, StorageUnavailable
from lakewarden.storage.failures import failure_of
from lakewarden.storage.keys import check_key
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore, StoredObject
from lakewarden.storage.options import (
    ANSWERS_WITHIN,
    CONNECTS_WITHIN,
    RETRIES,
    RETRIES_WITHIN_SECONDS,
    allows_http,
    store_options,
)

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config
    from obstore.store import ObjectStore as Client

_Pairs = tuple[tuple[str, str], ...]
_REFUSED = (PermissionDeniedError, UnauthenticatedError, InvalidPathError, NotSupportedError)
_PLATFORM = ("AWS_", "AZURE_", "GOOGLE_")
_SMALL = 1 << 20
_SENDS_WITHIN = 120
"""Seconds for sending more than one mebibyte, or for receiving a large answer: 64 MiB over a slow line."""
_SENT_BY_THEN = 64 << 20
"""Bytes. A larger body gets proportionally longer, in powers of two, so that few clients are needed."""
_AT_MOST = 5_000_000_000
"""Bytes that S3 and Azure take in one request. Several requests could leave parts behind, which no listing shows."""

_memories: dict[str, MemoryStore] = {}
"""`memory://name` is one store for the whole process, however often it is opened."""


class RemoteObjects(ObjectStore):
    """An `ObjectStore` below a prefix of a bucket. Takes credentials from the environment, at the first call."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._uri = location.uri
        self._bucket, _, prefix = location.uri.partition("://")[2].partition("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self._connected: dict[tuple[int, int], Client] = {}

    def __reduce__(self) -> tuple[type[RemoteObjects], tuple[Location]]:
        return RemoteObjects, (self._location,)

    @property
    def uri(self) -> str:
        return self._uri

    def create(self, key: str, data: bytes) -> None:
        """The client must not retry this: it would find the object of its own lost attempt, and treat it as another's."""
        self._check_size("create", key, len(data))
        path = self._path(key)
        lost, until = False, time.monotonic() + RETRIES_WITHIN_SECONDS
        for wait in _pauses():
            try:
                with self._explained("create", key):
                    self._create_once(self._client(len(data), retries=0), path, key, data)
                return
            except AlreadyThere:
                if not lost:
                    raise
                self._check_made(key, data)
                return
            except StorageUnavailable:
                if wait is None or time.monotonic() + wait > until:
                    raise
                lost = True
                time.sleep(wait)

    def confirm(self, key: str) -> None:
        """Does nothing: what such a store shows is durable."""

    def _check_made(self, key: str, data: bytes) -> None:
        """Settles the outcome after a lost answer. The object there now may be newer than ours, which may have been removed."""
        try:
            made = self.get(key) == data
        except Missing:
            made = False
        if not made:
            raise StorageUnavailable(f"cannot create {key} in {self._uri}: the answer was lost, and our object is not there")

    def _create_once(self, client: Client, path: str, key: str, data: bytes) -> None:
        try:
            obstore.put(client, path, data, mode="create", use_multipart=False)
        except AlreadyExistsError:
            raise AlreadyThere(key) from None
        except FileNotFoundError:
            raise self._no_bucket("create", key) from None

    def put(self, key: str, data: bytes) -> None:
        self._check_size("write", key, len(data))
        path = self._path(key)
        with self._explained("write", key):
            try:
                obstore.put(self._client(len(data)), path, data, use_multipart=False)
            except FileNotFoundError:
                raise self._no_bucket("write", key) from None

    def get(self, key: str) -> bytes:
        path = self._path(key)
        with self._explained("read", key), self._missing(key):
            return bytes(obstore.get(self._client(), path).bytes())

    def get_dated(self, key: str) -> tuple[bytes, datetime]:
        path = self._path(key)
        with self._explained("read", key), self._missing(key):
            found = obstore.get(self._client(), path)
            return bytes(found.bytes()), found.meta["last_modified"]

    def get_range(self, key: str, start: int, length: int) -> bytes:
        path = self._path(key)
        with self._explained("read", key), self._missing(key):
            try:
                if length > 0:
                    return bytes(obstore.get_range(self._client(), path, start=start, length=length))
                obstore.head(self._client(), path)
            except BaseError:
                if obstore.head(self._client(), path)["size"] > start:
                    raise
        return b""  # stores refuse a range that starts at the object's end

    def keys_after(self, prefix: str, key: str, following: Iterable[str] = ()) -> Sequence[str]:  # fewer requests
        """One page, where few are greater."""
        found = (each.key for each in self._listed(prefix, self._path(key)))
        return [each for each in found if "/" not in each[len(prefix) + 1 :]]

    def list(self, prefix: str) -> list[StoredObject]:
        return [*self._listed(prefix)]

    def delete(self, keys: Iterable[str]) -> None:
        gone = list(keys)
        if not gone:
            return
        paths = [self._path(key) for key in gone]
        with self._explained("delete", gone[0]):
            try:
                obstore.delete(self._client(), paths)
            except FileNotFoundError as error:
                if failure_of(str(error)):
                    raise self._no_bucket("delete", gone[0]) from None
                self._delete_each(paths)

    def _delete_each(self, paths: Sequence[str]) -> None:
        """Deletes one by one: some stores treat a missing object as an error and stop there."""
        for path in paths:
            with suppress(FileNotFoundError):
                obstore.delete(self._client(), path)

    def _listed(self, prefix: str, after: str | None = None) -> Sequence[StoredObject]:
        below = f"{self._prefix}{check_key(prefix)}" if prefix else self._prefix.rstrip("/")
        cut = len(self._prefix)
        with self._explained("list", prefix):
            try:
                metas = obstore.list(self._client(), prefix=below or None, offset=after, chunk_size=1000).collect()
            except FileNotFoundError:
                raise self._no_bucket("list", prefix) from None
        found = [StoredObject(meta["path"][cut:], meta["size"], meta["last_modified"]) for meta in metas]
        found.sort(key=lambda stored: stored.key)
        return found

    def _path(self, key: str) -> str:
        return f"{self._prefix}{check_key(key)}"

    def _check_size(self, action: str, key: str, size: int) -> None:
        if size > _AT_MOST:
            limit = f"the limit is {_AT_MOST:,} in one request: make the files smaller (a table's TARGET_FILE_SIZE)"
            raise StorageRefused(f"cannot {action} {key} in {self._uri}: it has {size:,} bytes, and {limit}")

    def _client(self, sending: int = 0, retries: int = RETRIES) -> Client:
        """A store answers a small request at once or not at all; a large body takes its time."""
        patience = _seconds(sending)
        if (patience, retries) not in self._connected:
            self._connected[patience, retries] = _connect(self._location, patience, retries)
        return self._connected[patience, retries]

    def _no_bucket(self, action: str, key: str) -> NoBucket:
        return NoBucket(f"cannot {action} {key or '/'} in {self._uri}: there is no bucket {self._bucket!r}")

    @contextmanager
    def _missing(self, key: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            known = failure_of(str(error))
            if known is not None and known.error is NoBucket:  # whatever else the text says
                raise self._no_bucket("read", key) from None
            raise Missing(key) from None

    @contextmanager
    def _explained(self, action: str, key: str) -> Iterator[None]:
        try:
            yield
        except BaseError as error:
            raise self._explanation(error, action, key) from error

    def _explanation(self, error: BaseError, action: str, key: str) -> LakewardenError:
        known = failure_of(str(error))
        reason = known.reason if known else str(error).partition("\n")[0]
        message = f"cannot {action} {key or '/'} in {self._uri}: {reason}"
        if known and not isinstance(error, _REFUSED):
            return known.error(message)
        return (StorageRefused if isinstance(error, _REFUSED) else StorageUnavailable)(message)


def _seconds(sending: int) -> int:
    """Returns the seconds for sending a large body; 0 for a small one, which needs no extra time."""
    return 0 if sending <= _SMALL else _SENDS_WITHIN << ((sending - 1) // _SENT_BY_THEN).bit_length()


def _connect(location: Location, patience: int, retries: int) -> Client:
    scheme, _, rest = location.uri.partition("://")
    bucket = rest.partition("/")[0]
    if scheme == "memory":
        return _memories.setdefault(bucket, MemoryStore())
    platform = tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith(_PLATFORM)))
    return _client_of(f"{scheme}://{bucket}", tuple(store_options(location, os.environ).items()), patience, retries, platform)


@lru_cache(maxsize=128)
def _client_of(
    bucket_uri: str, options: tuple[tuple[str, str], ...], patience: int, retries: int, platform: tuple[tuple[str, str], ...]
) -> Client:
    """`patience` as `_seconds` has it. `platform` is what the library takes from
    the environment by itself: with other variables it is another client."""
    client: ClientConfig = {
        "connect_timeout": CONNECTS_WITHIN,
        "read_timeout": f"{patience}s" if patience else ANSWERS_WITHIN,
        "timeout": f"{patience or _SENDS_WITHIN}s",
    }
    retry: RetryConfig = {"max_retries": retries, "retry_timeout": timedelta(seconds=RETRIES_WITHIN_SECONDS)}
    scheme, _, bucket = bucket_uri.partition("://")
    if scheme == "gs" and allows_http(dict(options), dict(platform)):
        client["allow_http"] = True
    if scheme == "s3":
        return S3Store(bucket, client_options=client, retry_config=retry, config=cast("S3Config", dict(options)))
    return from_url(bucket_uri, config=cast("S3Config", dict(options)), client_options=client, retry_config=retry)


def _pauses() -> Iterator[float | None]:
    """Yields the seconds before each further try, increasing and random; None after the last one."""
    for attempt in range(RETRIES):
        yield 0.1 * 2**attempt * random.uniform(0.5, 1)  # spreads writers, keeps no secret
    yield None
