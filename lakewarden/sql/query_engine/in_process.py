"""The engine of a process: one DuckDB for the queries of all its sessions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from lakewarden.base.settings import SqlSettings
from lakewarden.errors import InvalidArgument, LakewardenError, PermissionDenied, Unsupported
from lakewarden.sql.query_engine.database import Database, locked_down
from lakewarden.sql.query_engine.deadline import Deadlines
from lakewarden.sql.query_engine.engine import Limits, QueryEngine, QueryRows
from lakewarden.sql.query_engine.exact import exact
from lakewarden.sql.query_engine.failures import as_ours
from lakewarden.sql.query_engine.spool import Spool
from lakewarden.sql.query_engine.tree import Reach, reach_of, reaches_outside

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

T = TypeVar("T")

_BATCH_ROWS = 100_000
_REMEMBERED = 4096
"""How many texts' references are kept: a session reads them before a statement runs, the engine when it runs."""

_engines: dict[tuple[int, int], QueryEngine] = {}
_lock = threading.Lock()


def engine_of_process(settings: SqlSettings) -> QueryEngine:
    """The engine that all sessions of this process share. It is kept: a process that opens warehouses with different bounds of
    memory or threads has one engine for each.
    """
    with _lock:
        return _engines.setdefault((settings.memory_bytes, settings.threads), InProcess.of(settings))


class InProcess:
    """`QueryEngine` on a database of this process. Safe for threads."""

    def __init__(self, database: Database, memory_bytes: int) -> None:
        self._database = database
        self._memory_bytes = memory_bytes
        self._deadlines = Deadlines()
        self._reaches: dict[bytes, Reach] = {}
        """Keyed by a digest of the text: a text contains values of rows, which must not stay in memory."""

    @classmethod
    def of(cls, settings: SqlSettings) -> InProcess:
        return cls(Database(partial(locked_down, settings.memory_bytes, settings.threads)), settings.memory_bytes)

    def check(self, sql: str, limits: Limits) -> None:
        self._checked(sql, limits)

    def run(self, sql: str, relations: Mapping[str, pa.Table], limits: Limits) -> QueryRows:
        def collected(reader: pa.RecordBatchReader) -> pa.Table:
            return pa.Table.from_batches(within(reader, limits), reader.schema)

        return QueryRows(*self.read(sql, relations, limits, collected))

    def spool(self, sql: str, relations: Mapping[str, pa.Table], limits: Limits) -> tuple[Spool, tuple[str, ...]]:
        def spooled(reader: pa.RecordBatchReader) -> Spool:
            found = Spool(limits.result_bytes)
            found.add(reader.schema.empty_table())
            for batch in within(reader, replace(limits, result_bytes=limits.spooled_bytes)):
                found.add(pa.Table.from_batches([batch]))
            return found

        return self.read(sql, relations, limits, spooled)

    def read(
        self, sql: str, relations: Mapping[str, pa.Table], limits: Limits, take: Callable[[pa.RecordBatchReader], T]
    ) -> tuple[T, tuple[str, ...]]:
        """Returns what `take` makes of the rows, and the columns' types; raises as `run`. A query that runs again because another
        ended the database calls `take` again.
        """

        def act(cursor: DuckDBPyConnection) -> tuple[T, tuple[str, ...]]:
            found = cursor.sql(sql)
            types = tuple(str(kind) for kind in found.types)
            return take(exact(found).to_arrow_reader(_BATCH_ROWS)), types

        return self._over(sql, relations, limits, act)

    def explain(self, sql: str, relations: Mapping[str, pa.Table], limits: Limits) -> str:
        return self._over(sql, relations, limits, lambda cursor: str(cursor.sql(sql).explain()))

    def _over(self, sql: str, relations: Mapping[str, pa.Table], limits: Limits, act: Callable[[DuckDBPyConnection], T]) -> T:
        self._checked(sql, limits).check(frozenset(relations))

        def limited(cursor: DuckDBPyConnection) -> T:
            with self._deadlines.limit(limits.seconds, cursor.interrupt), limits.cancellation.ending(cursor.interrupt):
                for name, rows in relations.items():
                    cursor.register(name, rows)
                return act(cursor)

        with as_ours(limits, self._memory_bytes):
            return self._database.run(limited)

    def _checked(self, sql: str, limits: Limits) -> Reach:
        digest = sha256(sql.encode(errors="surrogatepass")).digest()
        reach = self._reaches.get(digest)
        if reach is None:
            reach = reach_of(self._scalar("SELECT json_serialize_sql(?::VARCHAR)", sql, limits))
            if len(self._reaches) >= _REMEMBERED:
                self._reaches.clear()
            self._reaches[digest] = reach
        if reach.refused is not None:
            raise self._no_function(reach.refused, limits)
        return reach

    def _no_function(self, name: str, limits: Limits) -> LakewardenError:
        """The error for a function that is forbidden or does not exist. Extensions are not loaded; their names are recognized."""
        there = self._scalar("SELECT count(*) FROM duckdb_functions() WHERE lower(function_name) = lower(?)", name, limits)
        if there == "0" and not reaches_outside(name):
            return InvalidArgument(f"there is no function {name}()")
        return PermissionDenied(f"function {name}() is not available in queries: functions that read files or settings are not")

    def _scalar(self, sql: str, value: str, limits: Limits) -> str:
        """The single value of an internal query, which is too quick to be interrupted."""

        def act(cursor: DuckDBPyConnection) -> str:
            row = cursor.execute(sql, [value]).fetchone()
            assert row is not None, "a scalar query has one row"
            return str(row[0])

        with as_ours(limits, self._memory_bytes):
            return self._database.run(act)


def within(reader: pa.RecordBatchReader, limits: Limits) -> Iterator[pa.RecordBatch]:
    """Raises:
    Unsupported: the rows take more bytes than a result may.
    """
    size = 0
    for batch in reader:
        size += batch.nbytes
        if size > limits.result_bytes:
            raise Unsupported(f"the result is larger than {limits.result_bytes:,} bytes (sql.result_bytes); request fewer rows")
        yield batch
