"""Stores objects in a bucket (S3, Google, Azure), or in memory, through obstore.

Every creation has an id of its own, which the store keeps with the object. So whatever the store answers, and whoever repeated
the request, a look at the object tells whether it is ours: equal bytes prove nothing, since two processes may create the same.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from lakewarden.base.clock import NewId, random_id
from lakewarden.base.connection import Location
from lakewarden.base.threads import COMPUTING
from lakewarden.errors import AccessRefused, LakewardenError, NoBucket, StorageRefused, StorageUnavailable
from lakewarden.storage.clients import OUTAGES, Clients, failure_of
from lakewarden.storage.meter import PAGE, Kind, count, counting
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore, StoredObject, path_below
from lakewarden.storage.options import RETRIES, RETRIES_WITHIN_SECONDS
from lakewarden.storage.paths import STATE

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

T = TypeVar("T")

_DENIED = (PermissionDeniedError, UnauthenticatedError)
_REFUSED = (InvalidPathError, NotSupportedError)
_TAKEN = (AlreadyExistsError, PreconditionError)
"""409 and 412: stores use both for a key that is taken, and for a request that met another one and did nothing."""
_AT_MOST = 5_000_000_000
"""Bytes that S3 and Azure take in one request. Several requests could leave parts behind, which no listing shows."""
_ID = "lakewardenput"
"""The name of a creation's id among an object's metadata: letters alone, which all stores take."""


@dataclass(frozen=True)
class _Creation:
    key: str
    path: str
    data: bytes
    id: str


class RemoteObjects(ObjectStore):
    """An `ObjectStore` below a prefix of a bucket. Takes credentials from the environment, at the first call."""

    def __init__(self, location: Location, new_id: NewId = random_id, clients: Clients | None = None) -> None:
        self._location = location
        self._uri = location.uri
        self._bucket, _, prefix = location.uri.partition("://")[2].partition("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self._path = partial(path_below, self._prefix)
        self._clients = clients or Clients(location)
        self._is_state = STATE in prefix.split("/")
        self._new_id = new_id

    def __reduce__(self) -> tuple[type[RemoteObjects], tuple[Location, NewId]]:
        return RemoteObjects, (self._location, self._new_id)

    @property
    def uri(self) -> str:
        return self._uri

    def create(self, key: str, data: bytes) -> None:
        """The client must not retry this: it would find the object of its own lost attempt, and treat it as another's."""
        self._check_size("create", key, len(data))
        # One id for all tries of this creation: whichever of them the store took, the object is ours
        # (docs/decisions/0109-a-created-object-has-an-id.md).
        creation = _Creation(key, self._path(key), data, self._new_id())
        with self._requesting("create", key):
            self._create(creation)

    def _create(self, creation: _Creation) -> None:
        # We repeat the request ourselves, so that a look at the object comes between two tries.
        lost, until = False, time.monotonic() + RETRIES_WITHIN_SECONDS
        for wait in _pauses():
            try:
                if self._create_once(creation) or self._is_there(creation, lost):
                    return
                failure = self._undecided(creation.key)
            except StorageUnavailable as error:
                # From here on the request may have been done, whatever a later answer says.
                lost, failure = True, error
            if wait is None or time.monotonic() + wait > until:
                raise failure
            time.sleep(wait)

    def confirm(self, key: str) -> None:
        """Does nothing: what such a store shows is durable."""

    def _create_once(self, creation: _Creation) -> bool:
        """Whether the object is created; if not, that may be for another object, for our own, or for no object at all."""

        def create(client: Client) -> bool:
            self._count("CREATE", creation.key, bytes_out=len(creation.data))
            try:
                obstore.put(
                    client,
                    creation.path,
                    creation.data,
                    mode="create",
                    use_multipart=False,
                    attributes={_ID: creation.id},
                )
            # 409 alone says neither that the key is taken nor whose the object is: `_is_there` finds out
            # (docs/decisions/0109-a-created-object-has-an-id.md).
            except _TAKEN:
                return False
            except FileNotFoundError:
                raise self._no_bucket("create", creation.key) from None
            return True

        return self._done("create", creation.key, create, sending=len(creation.data), retries=0)

    def _is_there(self, creation: _Creation, lost: bool) -> bool:
        """Whether our object is at the key; False if none is.

        Args:
            lost: whether the answer to an earlier attempt was lost. What is there now may then be newer than ours, which may have
                been removed; and where the store keeps no ids, only the bytes tell.

        Raises:
            AlreadyThere: another's object is there.
            StorageUnavailable: that cannot be determined.
        """
        try:
            found = self._creation_id(creation)
            # A store or proxy may drop the id. Then equal bytes are proof enough only if a request of ours was lost.
            if found is None and lost and self.get(creation.key) == creation.data:
                return True
        except Missing:
            if not lost:
                return False
            raise self._lost(creation) from None
        if found == creation.id:
            return True
        # An object without an id and with other bytes may have replaced ours: who won is not known.
        if lost and found is None:
            raise self._lost(creation)
        raise AlreadyThere(creation.key)

    def _creation_id(self, creation: _Creation) -> str | None:
        self._count("HEAD", creation.key)
        found = self._read(creation.key, lambda client: obstore.get(client, creation.path, options={"head": True}))
        kept = found.attributes.get(_ID)
        return None if kept is None else str(kept)

    def _undecided(self, key: str) -> StorageUnavailable:
        return StorageUnavailable(f"cannot create {key} in {self._uri}: the store says that it exists, and does not show it")

    def _lost(self, creation: _Creation) -> StorageUnavailable:
        return StorageUnavailable(
            f"cannot create {creation.key} in {self._uri}: the answer was lost, and our object is not there"
        )

    def put(self, key: str, data: bytes) -> None:
        self._check_size("write", key, len(data))
        path = self._path(key)

        def put(client: Client) -> None:
            self._count("PUT", key, bytes_out=len(data))
            obstore.put(client, path, data, use_multipart=False)

        try:
            self._done("write", key, put, sending=len(data))
        except FileNotFoundError:
            raise self._no_bucket("write", key) from None

    def get(self, key: str) -> bytes:
        return self.get_dated(key)[0]

    def get_dated(self, key: str) -> tuple[bytes, datetime]:
        path = self._path(key)

        def dated(client: Client) -> tuple[bytes, datetime]:
            def read() -> tuple[bytes, datetime]:
                found = obstore.get(client, path)
                return bytes(found.bytes()), found.meta["last_modified"]

            return self._counting("GET", key, lambda found: len(found[0]), read)

        return self._read(key, dated)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        path = self._path(key)

        def part(client: Client) -> bytes:
            try:
                if length > 0:
                    return self._counting(
                        "GET", key, len, lambda: bytes(obstore.get_range(client, path, start=start, length=length))
                    )
                self._count("HEAD", key)
                obstore.head(client, path)
            except BaseError as error:
                # A range at or behind the end is an error of its own on stores; the object's size tells it from a failure.
                if _denied(error) or self._counting("HEAD", key, _nothing, lambda: obstore.head(client, path))["size"] > start:
                    raise
            return b""  # stores refuse a range that starts at the object's end

        return self._read(key, part)

    def keys_after(self, prefix: str, key: str, following: Iterable[str] = ()) -> Sequence[str]:  # fewer requests
        """One page, where few are greater."""
        found = (each.key for each in self._listed(prefix, self._path(key)))
        # A listing has no delimiter here, so keys further down come along.
        return [each for each in found if "/" not in each[len(prefix) + 1 :]]

    def list(self, prefix: str) -> list[StoredObject]:
        return [*self._listed(prefix)]

    def delete(self, keys: Iterable[str]) -> None:
        gone = list(keys)
        if not gone:
            return
        paths = [self._path(key) for key in gone]

        def delete(client: Client) -> None:
            self._count("DELETE", gone[0], -(-len(gone) // _deleted_at_once(self._uri)))
            try:
                obstore.delete(client, paths)
            except FileNotFoundError as error:
                # The client calls a missing bucket a missing object.
                if failure_of(str(error)):
                    raise self._no_bucket("delete", gone[0]) from None
                _delete_each(client, paths)

        self._done("delete", gone[0], delete)

    def _listed(self, prefix: str, after: str | None = None) -> Sequence[StoredObject]:
        below = self._path(prefix) if prefix else self._prefix.rstrip("/")
        cut = len(self._prefix)
        try:
            metas = self._done(
                "list",
                prefix,
                lambda client: self._pages(prefix, client, below, after),
            )
        except FileNotFoundError:
            raise self._no_bucket("list", prefix) from None
        found = [StoredObject(meta["path"][cut:], meta["size"], meta["last_modified"]) for meta in metas]
        found.sort(key=lambda stored: stored.key)
        return found

    def _pages(self, prefix: str, client: Client, below: str, after: str | None) -> Sequence[obstore.ObjectMeta]:
        found: Sequence[obstore.ObjectMeta] = ()
        try:
            found = obstore.list(client, prefix=below or None, offset=after, chunk_size=PAGE).collect()
        finally:
            self._count("LIST", prefix, max(1, -(-len(found) // PAGE)))
        return found

    def _count(self, kind: Kind, key: str, requests: int = 1, *, bytes_out: int = 0) -> None:
        count(kind, requests, bytes_out=bytes_out, table_id=_table_in(key) if self._is_state else "")

    def _counting(self, kind: Kind, key: str, size: Callable[[T], int], do: Callable[[], T]) -> T:
        return counting(kind, size, do, table_id=_table_in(key) if self._is_state else "")

    def _check_size(self, action: str, key: str, size: int) -> None:
        if size > _AT_MOST:
            limit = f"the limit is {_AT_MOST:,} in one request: make the files smaller (a table's TARGET_FILE_SIZE)"
            raise StorageRefused(f"cannot {action} {key} in {self._uri}: it has {size:,} bytes, and {limit}")

    def _done(self, action: str, key: str, do: Callable[[Client], T], sending: int = 0, retries: int = RETRIES) -> T:
        """Returns what `do` returns; with new clients once more, if the store denies it to those that are kept.

        Raises:
            FileNotFoundError: as the client does.
            StorageUnavailable, StorageRefused: the store failed.
        """
        with self._requesting(action, key) if retries else nullcontext(), COMPUTING.let_go():
            return self._answer(action, key, do, sending, retries)

    def _answer(self, action: str, key: str, do: Callable[[Client], T], sending: int, retries: int) -> T:
        # Before the request: a renewal by another thread meanwhile must not be followed by a second one.
        generation = self._clients.generation()
        try:
            try:
                return do(self._clients.of(sending, retries))
            except BaseError as error:
                if not _denied(error):
                    raise
                # A store denies before it does anything, so the request may be repeated, creations included
                # (docs/decisions/0111-clients-are-made-anew.md).
                self._clients.renew(generation)
                return do(self._clients.of(sending, retries))
        except FileNotFoundError:
            raise
        except BaseError as error:
            raise self._explanation(error, action, key) from error

    def _requesting(self, action: str, key: str) -> AbstractContextManager[None]:
        """The warehouse's state is tried each time: whoever lost an answer finds out there what became of the request."""
        return (
            nullcontext()
            if self._is_state
            else OUTAGES.requesting(self._location, f"cannot {action} {key or '/'} in {self._uri}")
        )

    def _no_bucket(self, action: str, key: str) -> NoBucket:
        return NoBucket(f"cannot {action} {key or '/'} in {self._uri}: there is no bucket {self._bucket!r}")

    def _read(self, key: str, do: Callable[[Client], T]) -> T:
        """As `_done`; raises Missing where there is no such object."""
        try:
            return self._done("read", key, do)
        except FileNotFoundError as error:
            known = failure_of(str(error))
            if known is not None and known.error is NoBucket:  # whatever else the text says
                raise self._no_bucket("read", key) from None
            raise Missing(key) from None

    def _explanation(self, error: BaseError, action: str, key: str) -> LakewardenError:
        known = failure_of(str(error))
        reason = known.reason if known else str(error).partition("\n")[0]
        message = f"cannot {action} {key or '/'} in {self._uri}: {reason}"
        if _denied(error):
            return AccessRefused(message)
        if known and not isinstance(error, _REFUSED):
            return known.error(message)
        return (StorageRefused if isinstance(error, _REFUSED) else StorageUnavailable)(message)


_OF_ONE_TABLE = frozenset({"log", "live", "scopes", "known", "whole", "totals", "tags", "leases", "failed-checks", "fleet"})
"""Families of the state's objects whose keys go on with the id of a table."""


def _table_in(key: str) -> str:
    family, _, rest = key.partition("/")
    return rest.partition("/")[0] if family in _OF_ONE_TABLE else ""


def _nothing(_answer: object) -> int:
    return 0


def _deleted_at_once(uri: str) -> int:
    """How many objects one request deletes: the library sends one for each to Google."""
    scheme = uri.partition("://")[0]
    return PAGE if scheme == "s3" else 256 if scheme in ("az", "abfs", "abfss", "azure") else 1


def _denied(error: BaseError) -> bool:
    """Whether other credentials may do what the error refuses."""
    if isinstance(error, FileNotFoundError):
        return False
    known = failure_of(str(error))
    if known is None or issubclass(known.error, StorageUnavailable):
        return isinstance(error, _DENIED)
    return known.error is AccessRefused


def _delete_each(client: Client, paths: Sequence[str]) -> None:
    """Deletes one by one: some stores treat a missing object as an error and stop there."""
    for path in paths:
        with suppress(FileNotFoundError):
            obstore.delete(client, path)


def _pauses() -> Iterator[float | None]:
    """Yields the seconds before each further try, increasing and random; None after the last one."""
    for attempt in range(RETRIES):
        yield 0.1 * 2**attempt * random.uniform(0.5, 1)  # spreads writers, keeps no secret
    yield None
