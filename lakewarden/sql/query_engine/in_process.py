"""The engine of a process: one DuckDB for the queries of all its sessions."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from lakewarden.base.setting_sections import SqlSettings
from lakewarden.errors import InvalidArgument, LakewardenError, PermissionDenied, Unsupported
from lakewarden.sql.query_engine.deadline import Deadlines
from lakewarden.sql.query_engine.engine import Limits, QueryEngine, Spool
from lakewarden.sql.query_engine.failures import as_ours, ended_by_another, may_have_ended
from lakewarden.sql.query_engine.tree import MACROS, Reach, reach_of, reaches_outside
from lakewarden.sql.results import ResultRows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation


# Holds the in-memory DuckDB of a process, and replaces it after a fatal error.
#
# A connection has no access to files or extensions, and its settings are locked. Nothing is created except the macros of
# `bounded`: only a query's own connection sees what the query registers.

_TRIES = 5
"""How many databases other queries may end before a query gives up."""


def locked_down(memory_bytes: int, threads: int) -> DuckDBPyConnection:
    """Opens a new database without access to anything outside."""
    import duckdb  # takes a sixth of a second, which statements without a query do not need

    root = duckdb.connect(
        ":memory:",
        config={
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "temp_directory": "",
            "memory_limit": f"{memory_bytes}B",
            "threads": str(threads),
        },
    )
    for macro in MACROS:
        root.execute(macro)
    for setting in ("TimeZone='UTC'", "python_enable_replacements=false", "lock_configuration=true"):
        root.execute(f"SET GLOBAL {setting}")
    return root


class Database:
    """Opens a database for the first query, and a new one after it has ended. Safe for threads."""

    def __init__(self, open_: Callable[[], DuckDBPyConnection]) -> None:
        self._open = open_
        self._lock = threading.Lock()
        self._opened: DuckDBPyConnection | None = None
        self._inherited: list[DuckDBPyConnection] = []
        """The database of the process that this one was forked from. Never closed: that would wait for that process's threads."""
        os.register_at_fork(after_in_child=self._forked)

    def run(self, act: Callable[[DuckDBPyConnection], T]) -> T:
        """Calls `act` with a connection of its own. If another query ends the database meanwhile, calls it again on a new
        one, so it must have no effects.

        Raises:
            Unsupported: other queries ended the database too many times.
            Whatever `act` raises.
        """
        import duckdb  # as above

        for _ in range(_TRIES):
            opened = self._current()
            try:
                with closing(opened.cursor()) as cursor:
                    return act(cursor)
            except (duckdb.Error, OSError) as error:
                if not may_have_ended(error) or _answers(opened):
                    raise
                self._forget(opened)
                if not ended_by_another(error):
                    raise
        raise Unsupported(f"DuckDB cannot run this query now: other queries stopped its engine {_TRIES} times; try again")

    def _current(self) -> DuckDBPyConnection:
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def _forked(self) -> None:
        self._lock = threading.Lock()  # another thread of the parent may have held the old one
        if self._opened is not None:
            self._inherited.append(self._opened)
            self._opened = None

    def _forget(self, ended: DuckDBPyConnection) -> None:
        """Forgets a database. Queries that still run on it have their own connections."""
        import duckdb  # as above

        with self._lock:
            if self._opened is ended:
                self._opened = None
        with suppress(duckdb.Error):
            ended.close()


def _answers(opened: DuckDBPyConnection) -> bool:
    import duckdb  # as above

    try:
        with closing(opened.cursor()) as cursor:
            cursor.execute("SELECT 1")
    except duckdb.Error:
        return False
    return True


# Types of DuckDB that Arrow cannot carry: their values are text, so that none changes on its way out.
_LOST = re.compile(r"""("(?:[^"]|"")*"|'(?:[^']|'')*')|\b(?:BIGNUM|UHUGEINT|BIT|TIME WITH TIME ZONE)\b""")
"""Names and labels, which stay, and the types: a BIGNUM and a BIT would be bytes of DuckDB's, a UHUGEINT beyond 127 bits
negative, and a time of day without its zone."""


def exact(rows: DuckDBPyRelation) -> DuckDBPyRelation:
    """The same rows, with text for values of such types, also within lists and structs."""
    types = [str(kind) for kind in rows.types]
    fitting = [_LOST.sub(lambda found: found[1] or "VARCHAR", kind) for kind in types]
    if fitting == types:
        return rows
    shown = (
        f"#{at}" if kind == fit else f"CAST(#{at} AS {fit})" for at, (kind, fit) in enumerate(zip(types, fitting, strict=True), 1)
    )
    names = ('"' + name.replace('"', '""') + '"' for name in rows.columns)
    return rows.project(", ".join(f"{each} AS {name}" for each, name in zip(shown, names, strict=True)))


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

    def run(self, sql: str, relations: Mapping[str, pa.Table], limits: Limits) -> ResultRows:
        def collected(reader: pa.RecordBatchReader) -> pa.Table:
            return pa.Table.from_batches(within(reader, limits), reader.schema)

        return ResultRows(*self.read(sql, relations, limits, collected))

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
        try:
            digest = sha256(sql.encode()).digest()
        except UnicodeEncodeError as error:
            raise InvalidArgument(f"the text has half of a surrogate pair, {sql[error.start]!r}, alone") from error
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
    """Raises Unsupported: the rows take more bytes than a result may."""
    size = 0
    for batch in reader:
        size += batch.nbytes
        if size > limits.result_bytes:
            raise Unsupported(f"the result is larger than {limits.result_bytes:,} bytes (sql.result_bytes); request fewer rows")
        yield batch
