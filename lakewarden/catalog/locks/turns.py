"""Decides who may next try for a lock: anyone, one thread of this process, or one session of a Postgres server."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Literal, Protocol

from lakewarden.errors import Conflict, InvalidArgument, StorageUnavailable

if TYPE_CHECKING:
    import psycopg2.extensions

TurnKind = Literal["objects", "process", "postgres"]

_PAUSE = 0.1


class NamedTurns(Protocol):
    """Gives turns by name. The lease in the catalog ensures safety; a turn only saves waiting for it to expire."""

    @property
    def exclusive(self) -> bool:
        """Whether the holder of the turn is alone: a lease that still exists was then left by a dead process."""
        ...

    def turn(self, name: str, seconds: float) -> AbstractContextManager[None]:
        """Holds the turn while the block runs.

        Raises:
            Conflict: the turn did not come within `seconds`.
            StorageUnavailable: the server can't be reached.
        """
        ...


def turns_of(kind: TurnKind, scope: str) -> NamedTurns:
    """Returns the turns of this kind. `scope` keeps the lock names of warehouses apart."""
    match kind:
        case "objects":
            return ObjectTurns()
        case "process":
            return ProcessTurns(scope)
        case "postgres":
            return PostgresTurns(scope)


class ObjectTurns:
    """No turns: the leases in the warehouse alone decide. Needs no server, on any store."""

    exclusive = False

    @contextmanager
    def turn(self, name: str, seconds: float) -> Iterator[None]:  # the protocol's shape
        yield


_process: dict[tuple[str, str], threading.Lock] = {}
_process_guard = threading.Lock()


class ProcessTurns:
    """Turns for a warehouse that only one process uses."""

    exclusive = True

    def __init__(self, scope: str) -> None:
        self._scope = scope

    @contextmanager
    def turn(self, name: str, seconds: float) -> Iterator[None]:
        with _process_guard:
            lock = _process.setdefault((self._scope, name), threading.Lock())
        if not lock.acquire(timeout=seconds):
            raise Conflict(f"could not lock {name} within {seconds:g} seconds: another thread holds it; try again")
        try:
            yield
        finally:
            lock.release()


class PostgresTurns:
    """Advisory locks of a Postgres server, which frees them when a holder's connection ends.

    The server is taken from libpq's own environment (PGHOST, PGDATABASE, PGUSER, PGPASSWORD, PGSERVICE, …).
    """

    exclusive = True

    def __init__(self, scope: str) -> None:
        self._scope = scope

    @contextmanager
    def turn(self, name: str, seconds: float) -> Iterator[None]:
        connection = _connect()
        try:
            _wait(connection, _key(f"{self._scope}\0{name}"), name, seconds)
            yield
        finally:
            connection.close()


def _connect() -> psycopg2.extensions.connection:
    try:
        import psycopg2  # only needed for locks of kind postgres
    except ImportError as error:
        raise InvalidArgument("locks of kind postgres need psycopg2: install lakewarden[postgres]") from error
    try:
        connection = psycopg2.connect("")
    except psycopg2.OperationalError as error:
        raise StorageUnavailable(f"cannot reach the Postgres server of the locks: {str(error).strip()}") from error
    connection.autocommit = True
    return connection


def _wait(connection: psycopg2.extensions.connection, key: int, name: str, seconds: float) -> None:
    until = time.monotonic() + seconds
    with connection.cursor() as cursor:
        while True:
            cursor.execute("SELECT pg_try_advisory_lock(%s)", (key,))
            if cursor.fetchone() == (True,):
                return
            if time.monotonic() >= until:
                raise Conflict(f"could not lock {name} within {seconds:g} seconds: another session holds it; try again")
            time.sleep(_PAUSE)


def _key(text: str) -> int:
    """Returns a signed 64-bit number, as Postgres takes it."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)
