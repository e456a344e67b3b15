"""The clients of buckets: made from a location and the environment, kept for the process, and made anew when a store denies one.

A client keeps the credentials that it was made with, and each store and table keeps its client. So when a store says that
credentials are expired or not accepted, every client of that bucket is out of date: the next request of any of them reads the
environment, the files and the providers again.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, cast

from obstore.store import MemoryStore, S3Store, from_url

from lakewarden.base.connection import Location
from lakewarden.storage.location import bucket_uri, local_path
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
_PLATFORM = ("AWS_", "AZURE_", "GOOGLE_")
_SMALL = 1 << 20
SENDS_WITHIN = 120
"""Seconds for sending more than one mebibyte, or for receiving a large answer: 64 MiB over a slow line."""
_SENT_BY_THEN = 64 << 20
"""Bytes. A larger body gets proportionally longer, in powers of two, so that few clients are needed."""
_AT_MOST = 128
"""Clients that a process keeps."""

_memories: dict[str, MemoryStore] = {}
"""`memory://name` is one store for the whole process, however often it is opened."""


class _Use(NamedTuple):
    """What a client is made for, and from. `patience` as `seconds_for` has it. `platform` is what the library takes from the
    environment by itself: with other variables it is another client."""

    options: _Pairs
    platform: _Pairs
    patience: int
    retries: int


class _Made:
    """The clients of this process, and how often those of each bucket were made anew. Safe for threads."""

    def __init__(self) -> None:
        self._generations: dict[str, int] = {}
        self._made: OrderedDict[tuple[str, _Use], Client] = OrderedDict()
        self._lock = threading.Lock()

    def generation(self, bucket: str) -> int:
        return self._generations.get(bucket, 0)

    def of(self, bucket: str, use: _Use, make: Callable[[], Client]) -> Client:
        with self._lock:
            found = self._made.get((bucket, use))
            if found is None:
                found = self._made[bucket, use] = make()
                while len(self._made) > _AT_MOST:
                    self._made.popitem(last=False)
            return found

    def renew(self, bucket: str, denied: int) -> None:
        """Forgets the bucket's clients, unless another thread was denied too, and did it."""
        with self._lock:
            if self.generation(bucket) == denied:
                self._generations[bucket] = denied + 1
                for key in [key for key in self._made if key[0] == bucket]:
                    del self._made[key]


_MADE = _Made()


class Clients:
    """The clients of one place, by what they are used for. Reads the environment at the first use, and after a denial."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._bucket = bucket_uri(location.uri)
        self._generation = 0
        self._kept: dict[tuple[int, int], Client] = {}

    def of(self, sending: int = 0, retries: int = RETRIES) -> Client:
        """A store answers a small request at once or not at all; a large body takes its time.

        Raises:
            StorageRefused: the environment lacks what the location's credentials refer to.
        """
        generation = _MADE.generation(self._bucket)
        if generation != self._generation:
            self._generation, self._kept = generation, {}
        use = seconds_for(sending), retries
        client = self._kept.get(use)
        if client is None:
            client = self._kept[use] = _connect(self._location, *use)
        return client

    def generation(self) -> int:
        """Which clients `of` returns; another number after each renewal."""
        return _MADE.generation(self._bucket)

    def renew(self, denied: int) -> None:
        """Makes the bucket's clients anew after one of this generation was denied."""
        _MADE.renew(self._bucket, denied)


def client_of(location: Location) -> object:
    """Returns the client of a location, as it would be made now; None for a directory. What keeps another library's client keeps
    this one beside it, and opens anew when this is another one.

    Raises:
        StorageRefused: the environment lacks what the location's credentials refer to.
    """
    return None if local_path(location.uri) else Clients(location).of()


def seconds_for(sending: int) -> int:
    """Returns the seconds for sending a large body; 0 for a small one, which needs no extra time."""
    return 0 if sending <= _SMALL else SENDS_WITHIN << ((sending - 1) // _SENT_BY_THEN).bit_length()


def _connect(location: Location, patience: int, retries: int) -> Client:
    bucket = bucket_uri(location.uri)
    if bucket.startswith("memory://"):
        return _memories.setdefault(bucket, MemoryStore())
    platform = tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith(_PLATFORM)))
    use = _Use(tuple(store_options(location, os.environ).items()), platform, patience, retries)
    return _MADE.of(bucket, use, lambda: _client(bucket, use))


def _client(bucket: str, use: _Use) -> Client:
    options, patience = dict(use.options), use.patience
    client: ClientConfig = {
        "connect_timeout": CONNECTS_WITHIN,
        "read_timeout": f"{patience}s" if patience else ANSWERS_WITHIN,
        "timeout": f"{patience or SENDS_WITHIN}s",
    }
    retry: RetryConfig = {"max_retries": use.retries, "retry_timeout": timedelta(seconds=RETRIES_WITHIN_SECONDS)}
    scheme, _, name = bucket.partition("://")
    if scheme == "gs" and allows_http(options, dict(use.platform)):
        client["allow_http"] = True
    if scheme == "s3":
        return S3Store(name, client_options=client, retry_config=retry, config=cast("S3Config", options))
    return from_url(bucket, config=cast("S3Config", options), client_options=client, retry_config=retry)
