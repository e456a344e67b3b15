"""Makes Dagster's SQLite storage fast enough for a thousand events.

It opens and closes two databases for each event. Each close is the last one, so it folds the write-ahead log back into the
database, and each commit waits for the disk. Here a connection of our own keeps them open, so nothing is folded meanwhile,
and commits do not wait. A power cut may then lose Dagster's newest events, but nothing of the warehouse.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from dagster._core.storage.event_log import EventLogStorage, SqliteEventLogStorage
from sqlalchemy import Engine, event

_INDEX = "index"
"""The database of all runs; each run also has its own."""


@contextmanager
def relaxed(storage: EventLogStorage, run_id: str) -> Iterator[None]:
    """Makes events cheap to store inside the block. Leaves storages other than SQLite unchanged."""
    if not isinstance(storage, SqliteEventLogStorage):
        yield
        return
    with ExitStack() as stack:
        for shard in (_INDEX, run_id):
            kept = stack.enter_context(closing(sqlite3.connect(storage.path_for_shard(shard))))
            kept.execute("SELECT count(*) FROM sqlite_master").fetchone()  # a connection opens its database at first use
        event.listen(Engine, "connect", _do_not_wait)
        stack.callback(event.remove, Engine, "connect", _do_not_wait)
        yield


def shrink(storage: SqliteEventLogStorage, run_id: str) -> None:
    """Gives the free pages of a run's database back: an ended run fills them with nothing again."""
    with closing(sqlite3.connect(storage.path_for_shard(run_id))) as connection:
        connection.execute("VACUUM")


@contextmanager
def overwriting(storage: EventLogStorage) -> Iterator[None]:
    """Overwrites deleted data with zeros inside the block: SQLite would only mark its pages as free."""
    if not isinstance(storage, SqliteEventLogStorage):
        yield
        return
    event.listen(Engine, "connect", _overwrite)
    try:
        yield
    finally:
        event.remove(Engine, "connect", _overwrite)


def _overwrite(connection: object, record: object) -> None:  # noqa: ARG001  # SQLAlchemy's signature
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA secure_delete=ON")


def _do_not_wait(connection: object, record: object) -> None:  # noqa: ARG001  # SQLAlchemy's signature
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous=NORMAL")  # in WAL mode: consistent after a power cut, if not complete
