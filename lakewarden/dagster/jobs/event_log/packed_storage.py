"""Dagster's storage on SQLite, with its events packed: the same files at the same places, an eighth of the bytes of an event.

The settings that `lakewarden ui` gives a home name it. Events that Dagster's own class stored are read as they are; Dagster's own
class cannot read what this one stores.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from typing import Any

import sqlalchemy as db
from dagster import EventLogEntry, StringSource
from sqlalchemy import Engine, event
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from lakewarden.dagster.instance_internals import (
    ConfigurableClassData,
    DagsterSqliteStorage,
    EventLogStorage,
    SqliteEventLogStorage,
)

# Packs the JSON of Dagster's events into an eighth of its bytes, for storages that do not compress.
#
# Most of an event is the same in all of them: the names of Dagster's classes and of our metadata. A frame has these; zlib takes
# it as the text that came before. What is packed names its frame, so a frame never changes: one that fits better is added.

_SERIALIZED = '{"__class__": '
"""How everything begins that Dagster serializes; nothing else is packed."""

_FEW = 256
"""Characters that are not worth packing."""

_FIRST_FRAME = (
    '{"__class__": "MarkdownMetadataEntryData", "md_str": "{"__class__": "UrlMetadataEntryData", "url": "'
    '{"__class__": "BoolMetadataEntryData", "value": true{"__class__": "FloatMetadataEntryData", "value": '
    '{"__class__": "AssetObservation", "asset_key": {"__class__": "AssetObservationData", "asset_observation": '
    '"event_type_value": "ASSET_OBSERVATION", "restore: done", "optimize: done", "compact: done", "vacuum: done", '
    '"rows_deleted=0 files_removed=0 bytes_removed=0", "{"__class__": "EventLogEntry", "dagster_event": '
    '{"__class__": "DagsterEvent", "event_specific_data": {"__class__": "StepMaterializationData", "asset_lineage": [], '
    '"materialization": {"__class__": "AssetMaterialization", "asset_key": {"__class__": "AssetKey", "path": ["app", '
    '"events"]}, "description": "flush: done", "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, '
    '"entry_data": {"__class__": "PathMetadataEntryData", "path": "s3://warehouse/data/app/events/"}, "label": "path"}, '
    '{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 10}, '
    '"label": "dagster/partition_row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": '
    '{"__class__": "TextMetadataEntryData", "text": "flush"}, "label": "operation"}, {"__class__": "EventMetadataEntry", '
    '"description": null, "entry_data": {"__class__": "TimestampMetadataValue", "value": 179}, "label": "committed_at"}, '
    '{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, '
    '"label": "hot/backlog_bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": '
    '"IntMetadataEntryData", "value": 0}, "label": "delta/version"}, {"__class__": "EventMetadataEntry", "description": null, '
    '"entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "delta/num_files"}, {"__class__": '
    '"EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": '
    '"delta/bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": '
    '"TextMetadataEntryData", "text": "job_id=FL-0"}, "label": "parameters"}, {"__class__": "EventMetadataEntry", "description": '
    'null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "rows_upserted=1 rows_inserted=1 rows_written=1 '
    'files_added=1 bytes_written=1"}, "label": "metrics"}, {"__class__": "EventMetadataEntry", "description": null, '
    '"entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "[to an earlier version](/guess/restore_app__events'
    "/playground/setup?config=ops:%0A++restore_table:%0A++++config:%0A++++++to:+%27%27&tags%5B0%5D%5Bkey%5D=dagster/partition"
    '&tags%5B0%5D%5Bvalue%5D=)"}, "label": "restore"}], "partition": "", "tags": null}}, "event_type_value": '
    '"ASSET_MATERIALIZATION", "logging_tags": {"job_name": "flush_job", "op_name": "flush", "resource_fn_name": "None", '
    '"resource_name": "None", "run_id": "", "step_key": "flush"}, "message": "flush: done", "pid": 1, "pipeline_name": '
    '"flush_job", "solid_handle": {"__class__": "SolidHandle", "name": "flush", "parent": null}, "step_handle": {"__class__": '
    '"StepHandle", "key": "flush", "solid_handle": {"__class__": "SolidHandle", "name": "flush", "parent": null}}, "step_key": '
    '"flush", "step_kind_value": "COMPUTE"}, "error_info": null, "level": 10, "message": "", "pipeline_name": "flush_job", '
    '"run_id": "", "step_key": "flush", "timestamp": 179, "user_message": "flush: done"}'
)

_FRAMES = (_FIRST_FRAME.encode(),)


def pack(text: str) -> str | bytes:
    """The text itself if it is short, or nothing that Dagster serialized."""
    if len(text) < _FEW or not text.startswith(_SERIALIZED):
        return text
    newest = len(_FRAMES) - 1
    packing = zlib.compressobj(zdict=_FRAMES[newest])
    return bytes([newest]) + packing.compress(text.encode()) + packing.flush()


def unpack(stored: str | bytes) -> str:
    """Raises ValueError: a later release packed it, or it is damaged."""
    if isinstance(stored, str):
        return stored
    frame = _FRAMES[stored[0]] if stored and stored[0] < len(_FRAMES) else None
    if frame is None:
        raise ValueError(f"an event is packed by a later release of Lakewarden (frame {stored[:1]!r}); use that release")
    try:
        return zlib.decompressobj(zdict=frame).decompress(stored[1:]).decode()
    except zlib.error as error:
        raise ValueError(f"a packed event is damaged: {error}") from error


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
        except Exception:  # whatever it was: the retry goes on behind the events that are stored
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


# Makes Dagster's SQLite storage fast enough for a thousand events.
#
# It opens and closes two databases for each event. Each close is the last one, so it folds the write-ahead log back into the
# database, and each commit waits for the disk. Here a connection of our own keeps them open, so nothing is folded meanwhile,
# and commits do not wait. A power cut may then lose Dagster's newest events, but nothing of the warehouse.

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
        # in WAL mode: consistent after a power cut, if not complete
        with _told("PRAGMA synchronous=NORMAL"):
            yield


def shrink(storage: SqliteEventLogStorage, run_id: str) -> None:
    """Gives the free pages of a run's database back: an ended run fills them with nothing again."""
    with closing(sqlite3.connect(storage.path_for_shard(run_id))) as connection:
        connection.execute("VACUUM")


def overwriting(storage: EventLogStorage) -> AbstractContextManager[None]:
    """Overwrites deleted data with zeros inside the block: SQLite would only mark its pages as free."""
    return _told("PRAGMA secure_delete=ON") if isinstance(storage, SqliteEventLogStorage) else nullcontext()


@contextmanager
def _told(pragma: str) -> Iterator[None]:
    """Each connection to SQLite that is made inside the block begins with the pragma."""

    def connected(connection: object, record: object) -> None:  # noqa: ARG001  # SQLAlchemy's signature
        if isinstance(connection, sqlite3.Connection):
            connection.execute(pragma)

    event.listen(Engine, "connect", connected)
    try:
        yield
    finally:
        event.remove(Engine, "connect", connected)
