"""The clients of buckets: made from a location and the environment, kept for the process, and made anew when a store denies one.

A client keeps the credentials that it was made with, and each store and table keeps its client. So when a store says that
credentials are expired or not accepted, every client of that bucket is out of date: the next request of any of them reads the
environment, the files and the providers again. Beside them stand the failures that clients report, and the stores that could
not be reached a moment ago.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, cast

from obstore.store import MemoryStore, S3Store, from_url

from lakewarden.base.connection import Location
from lakewarden.base.recent import Recent
from lakewarden.errors import AccessRefused, NoBucket, StorageRefused, StorageUnavailable, Unreachable
from lakewarden.storage.location import bucket_uri
from lakewarden.storage.options import (
    ANSWERS_WITHIN,
    CONNECTS_WITHIN,
    RETRIES,
    RETRIES_WITHIN_SECONDS,
    address_of,
    allows_http,
    store_options,
)

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config
    from obstore.store import ObjectStore as Client


_Pairs = tuple[tuple[str, str], ...]
_PLATFORM = ("AWS_", "AZURE_", "AZURITE_", "GOOGLE_")
_SMALL = 1 << 20
SENDS_WITHIN = 120
"""Seconds for sending more than one mebibyte, or for receiving a large answer: 64 MiB over a slow line."""
_SENT_BY_THEN = 64 << 20
"""Bytes. A larger body gets proportionally longer, in powers of two, so that few clients are needed."""
_MOST_CLIENTS = 128
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
        self._made: Recent[tuple[str, int, _Use], Client] = Recent(_MOST_CLIENTS)
        self._lock = threading.Lock()

    def generation(self, bucket: str) -> int:
        return self._generations.get(bucket, 0)

    def of(self, bucket: str, use: _Use, make: Callable[[], Client]) -> Client:
        with self._lock:
            # With the generation, so that a renewal leaves no old client to be found.
            key = (bucket, self.generation(bucket), use)
            found = self._made.get(key)
            if found is None:
                found = make()
                self._made.put(key, found)
            return found

    def renew(self, bucket: str, denied: int) -> None:
        """Begins the bucket's next generation of clients, unless another thread was denied too, and did it."""
        with self._lock:
            # Threads that were denied at the same moment renew once.
            if self.generation(bucket) == denied:
                self._generations[bucket] = denied + 1


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
        # Few kinds of bodies, so few clients: the seconds are in steps of powers of two.
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


def seconds_for(sending: int) -> int:
    """Returns the seconds for sending a large body; 0 for a small one, which needs no extra time."""
    return 0 if sending <= _SMALL else SENDS_WITHIN << ((sending - 1) // _SENT_BY_THEN).bit_length()


def _connect(location: Location, patience: int, retries: int) -> Client:
    bucket = bucket_uri(location.uri)
    if bucket.startswith("memory://"):
        return _memories.setdefault(bucket, MemoryStore())
    # The library reads these by itself when a client is made, so they are part of what the client is.
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
    # Google's client takes this among the client's options alone.
    if scheme == "gs" and allows_http(options, dict(use.platform)):
        client["allow_http"] = True
    if scheme == "s3":
        return S3Store(name, client_options=client, retry_config=retry, config=cast("S3Config", options))
    return from_url(bucket, config=cast("S3Config", options), client_options=client, retry_config=retry)


# Explains a store's failure in one sentence without XML, from the text that obstore and delta-rs report.
_ENDPOINT = re.compile(r"Error performing \w+ (https?://[^/\s?]+)")
_TOKENS = r"InvalidTokenId|InvalidToken\b|ExpiredToken|TokenRefreshRequired|InvalidSecurity"
_NO_CREDENTIALS = "no credentials: the environment has none, and no role of the machine gives any; set"
_KNOWN: list[tuple[str, type[StorageRefused | StorageUnavailable], str]] = [
    (
        r"169\.254\.169\.254/computeMetadata|metadata\.google\.internal",
        StorageRefused,
        f"{_NO_CREDENTIALS} GOOGLE_APPLICATION_CREDENTIALS",
    ),
    (
        r"169\.254\.169\.254/metadata/identity",
        StorageRefused,
        f"{_NO_CREDENTIALS} AZURE_STORAGE_ACCOUNT_KEY, or another credential of the account",
    ),
    (
        r"169\.254\.169\.254/latest|169\.254\.170\.2/",
        StorageRefused,
        f"{_NO_CREDENTIALS} AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    ),
    (r"NoSuchBucket|ContainerNotFound|The specified bucket does not exist", NoBucket, "there is no such bucket"),
    (r"InvalidBucketName", StorageRefused, "the store does not accept this as the name of a bucket"),
    (r"Account must be specified", StorageRefused, "neither the URI nor AZURE_STORAGE_ACCOUNT_NAME says which account"),
    (
        rf"InvalidAccessKeyId|SignatureDoesNotMatch|AuthenticationFailed|\b401 Unauthorized|{_TOKENS}",
        AccessRefused,
        "the store does not accept these credentials",
    ),
    (r"AccessDenied|AuthorizationPermissionMismatch|\b403 Forbidden", AccessRefused, "these credentials do not permit that"),
    (
        r"performing HEAD \S+ in [^:]*status code: 400\b",
        AccessRefused,
        "the store refuses the request and, as the answer has no body, does not say why: its credentials may have expired",
    ),
    (r"PermanentRedirect|AuthorizationHeaderMalformed", StorageRefused, "the bucket is in another region"),
    (r"Generic Config error: (?P<detail>[^\n]+)", StorageRefused, "the environment has a setting that cannot be used"),
    (r"RequestTimeout\b|IncompleteBody|BadDigest|XAmzContentSHA256Mismatch", StorageUnavailable, "a request was cut off"),
    (r"status code: (?:400|405|501)\b", StorageRefused, "the store does not know such a request"),
    (r"dns error|failed to lookup address|Name or service not known", Unreachable, "there is no such host"),
    (r"Connection refused|ConnectionRefused", Unreachable, "nothing listens there"),
    (r"operation timed out|TimedOut|deadline has elapsed", Unreachable, "it does not answer"),
    (r"error trying to connect|\bConnect\b", Unreachable, "it cannot be reached"),
    (r"error sending request", StorageUnavailable, "it cannot be reached"),
    (
        r"after [1-9]\d* retries|HTTP error|non-2xx status code: 5\d\d|error decoding response",
        StorageUnavailable,
        "it keeps failing",
    ),
]
"""The text of the store or the network, the error that it means, and the sentence for it."""


@dataclass(frozen=True)
class Failure:
    reason: str
    error: type[StorageRefused | StorageUnavailable]


def failure_of(text: str) -> Failure | None:
    """Returns what the text means, with the endpoint of the request; None when the text is not recognized."""
    # In the order of the list: texts of one failure may match several, and the first is the most exact.
    for pattern, error, reason in _KNOWN:
        if found := re.search(pattern, text):
            if "detail" in found.groupdict():
                return Failure(f"{reason}: {found['detail']}", error)
            endpoint = None if reason.startswith(_NO_CREDENTIALS) else _ENDPOINT.search(text)  # that of the machine's role
            return Failure(f"{reason} ({endpoint[1]})" if endpoint else reason, error)
    return None


# Stores that could not be reached a moment ago: a job over a thousand scopes does not wait for each of them.
#
# A request to a store that is down takes seconds until it is given up. So whoever was not answered keeps the others from trying
# for as long as it waited itself: at most half of a job's time is spent on waiting, and a store that is back is noticed soon.

_LONGEST = 10.0
"""Seconds for which no request is made."""


class _Outage(NamedTuple):
    """When it was noticed, until when no request is made, and why."""

    noticed: float
    until: float
    reason: str


class Outages:
    """By bucket and endpoint. Safe for threads."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._known: dict[str, _Outage] = {}
        self._lock = threading.Lock()

    @contextmanager
    def requesting(self, location: Location, what: str) -> Iterator[None]:
        """The block makes a request. `what` begins the message of an error, such as `cannot read <key> in <uri>`.

        Raises:
            Unreachable: it did not answer a moment ago, and no request is made now; or as the block does.
        """
        self._check(location, what)
        began = self._monotonic()
        try:
            yield
        except Unreachable as error:
            self._note(location, began, error.message.removeprefix(f"{what}: "))
            raise
        if self._known:
            self._forget(location)

    def _check(self, location: Location, what: str) -> None:
        outage = self._known.get(_address(location)) if self._known else None
        now = self._monotonic()
        if outage is not None and now < outage.until:
            moments = f"that was {now - outage.noticed:.0f} s ago, and it is tried again in {outage.until - now:.0f} s"
            raise Unreachable(f"{what}: {outage.reason}; {moments}")

    def _note(self, location: Location, began: float, reason: str) -> None:
        now = self._monotonic()
        # As long as the wait that failed: then at most half of a job's time is spent on waiting
        # (docs/decisions/0131-a-store-that-is-down-is-waited-for-once.md).
        until = now + min(now - began, _LONGEST)
        with self._lock:
            address = _address(location)
            # Requests that ran at the same time end later than the first; the longest wait counts.
            if address not in self._known or self._known[address].until < until:
                self._known[address] = _Outage(now, until, reason)

    def _forget(self, location: Location) -> None:
        with self._lock:
            self._known.pop(_address(location), None)


OUTAGES = Outages()
"""Those that this process knows of."""


def _address(location: Location) -> str:
    return address_of(replace(location, uri=bucket_uri(location.uri)), os.environ)
