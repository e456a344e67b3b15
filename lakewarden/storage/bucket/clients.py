"""The clients of buckets: made from a location and the environment, kept for the process, and made anew when a store denies one.

A client keeps the credentials that it was made with, and each store and table keeps its client. So when a store says that
credentials are expired or not accepted, every client of that bucket is out of date: the next request of any of them reads the
environment, the files and the providers again.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from obstore.store import MemoryStore, S3Store, from_url

from lakewarden.connection import Location
from lakewarden.storage.location import bucket_uri
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
_PAUSE = 1.0
"""Seconds between two renewals with the same environment: what is denied for good must not cost a client each time."""

_memories: dict[str, MemoryStore] = {}
"""`memory://name` is one store for the whole process, however often it is opened."""


@dataclass(frozen=True)
class _Renewal:
    generation: int
    moment: float
    environment: tuple[_Pairs, _Pairs] | None


class _Renewals:
    """How often the clients of each bucket were made anew. Safe for threads."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._newest: dict[str, _Renewal] = {}
        self._lock = threading.Lock()
        self._monotonic = monotonic

    def generation(self, bucket: str) -> int:
        newest = self._newest.get(bucket)
        return 0 if newest is None else newest.generation

    def renew(self, bucket: str, denied: int, environment: tuple[_Pairs, _Pairs]) -> bool:
        """Whether there are newer clients than those of the generation that was denied."""
        with self._lock:
            if self.generation(bucket) != denied:
                return True  # another thread was denied too
            before, now = self._newest.get(bucket), self._monotonic()
            if before and before.environment == environment and now - before.moment < _PAUSE:
                return False
            self._newest[bucket] = _Renewal(denied + 1, now, environment)
            return True


_RENEWALS = _Renewals()


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
        generation = _RENEWALS.generation(self._bucket)
        if generation != self._generation:
            self._generation, self._kept = generation, {}
        use = seconds_for(sending), retries
        client = self._kept.get(use)
        if client is None:
            client = self._kept[use] = _connect(self._location, *use, generation)
        return client

    def generation(self) -> int:
        """Which clients `of` returns; another number after each renewal."""
        return generation_of(self._location)

    def renew(self, denied: int) -> bool:
        """Makes the bucket's clients out of date after those of this generation were denied. Returns whether another try makes
        sense."""
        return _RENEWALS.renew(self._bucket, denied, _environment(self._location))


def generation_of(location: Location) -> int:
    """Returns how often the clients of a location's bucket were made anew. What keeps a client of another library keeps this
    number with it, and opens anew when it changes."""
    return _RENEWALS.generation(bucket_uri(location.uri))


def seconds_for(sending: int) -> int:
    """Returns the seconds for sending a large body; 0 for a small one, which needs no extra time."""
    return 0 if sending <= _SMALL else SENDS_WITHIN << ((sending - 1) // _SENT_BY_THEN).bit_length()


def _environment(location: Location) -> tuple[_Pairs, _Pairs]:
    platform = tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith(_PLATFORM)))
    return tuple(store_options(location, os.environ).items()), platform


def _connect(location: Location, patience: int, retries: int, generation: int) -> Client:
    bucket = bucket_uri(location.uri)
    if bucket.startswith("memory://"):
        return _memories.setdefault(bucket, MemoryStore())
    return _client_of(bucket, *_environment(location), patience, retries, generation)


@lru_cache(maxsize=128)
def _client_of(bucket: str, options: _Pairs, platform: _Pairs, patience: int, retries: int, _generation: int) -> Client:
    """`patience` as `seconds_for` has it. `platform` is what the library takes from
    the environment by itself: with other variables it is another client."""
    client: ClientConfig = {
        "connect_timeout": CONNECTS_WITHIN,
        "read_timeout": f"{patience}s" if patience else ANSWERS_WITHIN,
        "timeout": f"{patience or SENDS_WITHIN}s",
    }
    retry: RetryConfig = {"max_retries": retries, "retry_timeout": timedelta(seconds=RETRIES_WITHIN_SECONDS)}
    scheme, _, name = bucket.partition("://")
    if scheme == "gs" and allows_http(dict(options), dict(platform)):
        client["allow_http"] = True
    if scheme == "s3":
        return S3Store(name, client_options=client, retry_config=retry, config=cast("S3Config", dict(options)))
    return from_url(bucket, config=cast("S3Config", dict(options)), client_options=client, retry_config=retry)
