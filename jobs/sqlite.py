"""Dagster's SQLite storage made bearable for a thousand events.

It opens two databases for each event, and closes them: as the last one there, each close folds the write-ahead log back into
the database, and each commit waits for the disk. Here a connection of our own keeps them open, so that nothing is folded
meanwhile, and commits do not wait. What a power cut then takes is the end of Dagster's picture; the truth lies in the warehouse.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from dagster._core.storage.event_log import EventLogStorage, SqliteEventLogStorage
from sqlalchemy import Engine, event

_INDEX = "index"
"""The database of all runs; each run has one of its own beside it."""


@contextmanager
def relaxed(storage: EventLogStorage, run_id: str) -> Iterator[None]:
    """While the block runs, events are cheap to store. Another storage than SQLite's is left as it is."""
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


@contextmanager
def overwriting(storage: EventLogStorage) -> Iterator[None]:
    """While the block runs, what is deleted is overwritten by zeros: SQLite would only mark its pages as free."""
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
