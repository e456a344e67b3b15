"""Dagster's storage on SQLite, with its events packed: the same files at the same places, an eighth of the bytes of an event.

The settings that `lakewarden ui` gives a home name it. Events that Dagster's own class stored are read as they are; Dagster's own
class cannot read what this one stores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as db
from dagster import EventLogEntry, StringSource
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClassData
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from lakewarden.dagster.jobs.event_log.packing import pack, unpack

_DRIVER = "lakewarden"
_UNPACK = "lakewarden_unpack"
"""The function that queries find what is packed by."""


class _PackedText(db.Text):
    def bind_processor(self, dialect: db.Dialect) -> Callable[[str | None], str | bytes | None]:  # SQLAlchemy's signature
        return lambda value: None if value is None else pack(value)

    def result_processor(self, dialect: db.Dialect, coltype: object) -> Callable[[str | bytes | None], str | None]:  # as above
        return lambda stored: None if stored is None else unpack(stored)


class PackingSqlite(SQLiteDialect_pysqlite):
    """SQLite whose columns of text pack what Dagster serialized."""

    driver = _DRIVER
    supports_statement_cache = True
    colspecs = {**SQLiteDialect_pysqlite.colspecs, db.Text: _PackedText}  # noqa: RUF012  # SQLAlchemy reads it from the class

    def on_connect(self) -> Callable[[DBAPIConnection], None]:
        prepare = super().on_connect()

        def connected(connection: DBAPIConnection) -> None:
            prepare(connection)
            connection.create_function(_UNPACK, 1, lambda stored: None if stored is None else unpack(stored), deterministic=True)

        return connected


registry.register(f"sqlite.{_DRIVER}", __name__, PackingSqlite.__name__)


class UnpackedColumn(GenericFunction[str]):
    """A column's text for a condition: a storage that packs it unpacks it, any other has it as it is."""

    type = db.Text()
    inherit_cache = True


@compiles(UnpackedColumn)
def _compile(element: UnpackedColumn, compiler: SQLCompiler, **options: Any) -> str:
    text = compiler.process(element.clauses, **options)
    return f"{_UNPACK}({text})" if isinstance(compiler.dialect, PackingSqlite) else text


class PackedEventLogStorage(SqliteEventLogStorage):
    """Dagster's event log on SQLite, packed.

    An event is stored once: where a batch fails, Dagster stores each of its events again, and those before the fault are there.
    """

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(base_dir, inst_data)
        self._stored: dict[int, EventLogEntry] = {}
        """Of the last batch that failed, by their identity."""

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        self._stored = {}
        stored = dict[int, EventLogEntry]()
        try:
            for event in events:
                self.store_event(event)
                stored[id(event)] = event
        except Exception:
            self._stored = stored
            raise

    def store_event(self, event: EventLogEntry) -> None:
        if self._stored.pop(id(event), None) is not event:
            super().store_event(event)

    def conn_string_for_shard(self, shard_name: str) -> str:
        return super().conn_string_for_shard(shard_name).replace("sqlite:", f"sqlite+{_DRIVER}:", 1)


class PackedSqliteStorage(DagsterSqliteStorage):
    """Dagster's storage on SQLite, with its events packed."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(base_dir, inst_data)
        self._event_log_storage = PackedEventLogStorage(self._event_log_storage._base_dir)

    @classmethod
    def config_type(cls) -> Mapping[str, Any]:
        return {"base_dir": StringSource}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> PackedSqliteStorage:
        return cls.from_local(inst_data=inst_data, **config_value)
