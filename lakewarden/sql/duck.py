"""DuckDB as an engine for one query over given Arrow relations, and nothing else that it could reach.

What a query may name is decided twice: `relations` and `guard` read sqlglot's tree; `Duck.check` reads DuckDB's own tree of
the very text that it will run, so that a difference between the two parsers opens no door. Below both, the connection has
no access to files or extensions, and its settings are locked.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakewarden.errors import BadSyntax, InvalidArgument, LakewardenError, PermissionDenied, Unsupported
from lakewarden.settings import SqlSettings
from lakewarden.sql.bounded import MACROS, check_bounded
from lakewarden.sql.deadline import Deadlines
from lakewarden.sql.depth import deeper
from lakewarden.sql.functions import SCALAR_FUNCTIONS, SESSION_FUNCTIONS, TABLE_FUNCTIONS

if TYPE_CHECKING:
    import duckdb

_BATCH_ROWS = 100_000
_REMEMBERED = 128
_SHORT = 4096
"""Characters of a text whose tree is worth the memory: the gate, the statement and the next one ask for it again."""

_RELATIONS = frozenset({"BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EXPRESSION_LIST", "PIVOT", "EMPTY", "COLUMN_DATA"})
_OUTSIDE = re.compile(
    "(st_)?(read|write|copy|load|install|attach|pragma|duckdb|pg|postgres|mysql|sqlite|http)_.*"
    "|.*_(scan|query|attach|execute|metadata)|getenv|sql_auto_complete|shell|system"
)
"""Names as extensions of DuckDB and its command line give them to functions that reach outside; none of them is loaded."""

_ENTRIES = {"left", "right", "from_table", "source"}


class Duck:
    """One in-memory database, made when the first query needs it; queries in several threads share it."""

    def __init__(self, settings: SqlSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._deadlines = Deadlines(settings.timeout_seconds)
        self._database: duckdb.DuckDBPyConnection | None = None
        self._trees: dict[str, list[Mapping[str, Any]]] = {}

    def check(self, sql: str, relations: frozenset[str]) -> None:
        """Raises:
        PermissionDenied: the query names a function that is not allowed, or a relation that is neither given nor its own.
        BadSyntax, Unsupported: DuckDB does not read it as a query.
        """
        nodes = self._checked(sql)
        known = relations | {name.lower() for node in nodes for name in _ctes(node)}
        for node in nodes:
            _check_relation(node, known)

    def check_functions(self, sql: str) -> None:
        """`check` without the relations, for a query whose names are still to be looked up."""
        self._checked(sql)

    def _checked(self, sql: str) -> list[Mapping[str, Any]]:
        nodes = self._nodes(sql)
        for node in nodes:
            for name in _refused_functions(node):
                raise self._no_function(name)
            check_bounded(node)
        return nodes

    def _no_function(self, name: str) -> LakewardenError:
        """Forbidden, or not there at all. What extensions bring is not loaded here, so their usual names tell."""
        with self._cursor() as cursor:
            there = _one(cursor, "SELECT count(*) FROM duckdb_functions() WHERE lower(function_name) = lower(?)", name)
        if there == "0" and not _OUTSIDE.fullmatch(name.lower()):
            return InvalidArgument(f"there is no function {name}()")
        return PermissionDenied(
            f"function {name}() is not for queries: only those that compute are, none that reads files or settings"
        )

    def _nodes(self, sql: str) -> list[Mapping[str, Any]]:
        """The nodes of DuckDB's tree of a query; they depend on its text alone, and short ones are remembered."""
        if sql in self._trees:
            return self._trees[sql]
        with self._cursor() as cursor:
            text = _one(cursor, "SELECT json_serialize_sql(?::VARCHAR)", sql)
        tree = _tree(text)
        if tree.get("error"):
            raise _refused(tree)
        if len(tree["statements"]) != 1:
            raise PermissionDenied("one query at a time")
        nodes = list(_nodes(tree))
        if len(sql) < _SHORT:
            if len(self._trees) >= _REMEMBERED:
                self._trees.clear()
            self._trees[sql] = nodes
        return nodes

    def run(self, sql: str, relations: Mapping[str, pa.Table]) -> tuple[pa.Table, list[str]]:
        """The query's rows, and DuckDB's name of each column's type.

        Raises:
            PermissionDenied: as `check`, which runs first.
            InvalidArgument: DuckDB cannot bind or compute it; its message says why.
            Unsupported: the result, the memory or the time would be more than the settings allow.
        """
        self.check(sql, frozenset(relations))
        with self._cursor() as cursor, self._deadlines.limit(cursor.interrupt):
            for name, rows in relations.items():
                cursor.register(name, rows)
            found = cursor.sql(sql)
            types = [str(kind) for kind in found.types]
            return self._collected(found.to_arrow_reader(_BATCH_ROWS)), types

    def explain(self, sql: str, relations: Mapping[str, pa.Table]) -> str:
        """DuckDB's plan of the query as text; raises as `run`."""
        self.check(sql, frozenset(relations))
        with self._cursor() as cursor, self._deadlines.limit(cursor.interrupt):
            for name, rows in relations.items():
                cursor.register(name, rows)
            return str(cursor.sql(sql).explain())

    def _collected(self, reader: pa.RecordBatchReader) -> pa.Table:
        batches, size = [], 0
        for batch in reader:
            batches.append(batch)
            size += batch.nbytes
            if size > self._settings.result_bytes:
                raise Unsupported(
                    f"the result is larger than {self._settings.result_bytes:,} bytes (sql.result_bytes); ask for less of it"
                )
        return pa.Table.from_batches(batches, reader.schema)

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection of its own: what one query registers, no other sees."""
        import duckdb  # a sixth of a second that statements without a query need not spend

        with self._lock:
            if self._database is None:
                self._database = self._opened()
            cursor = self._database.cursor()
        try:
            with _engine_errors(duckdb, self._settings):
                yield cursor
        finally:
            cursor.close()

    def _opened(self) -> duckdb.DuckDBPyConnection:
        import duckdb  # as above

        database = duckdb.connect(
            ":memory:",
            config={
                "enable_external_access": "false",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "allow_community_extensions": "false",
                "temp_directory": "",
                "memory_limit": f"{self._settings.memory_bytes}B",
                "threads": str(self._settings.threads),
            },
        )
        for macro in MACROS:
            database.execute(macro)
        for setting in ("TimeZone='UTC'", "python_enable_replacements=false", "lock_configuration=true"):
            database.execute(f"SET GLOBAL {setting}")
        return database


@contextmanager
def _engine_errors(duckdb: Any, settings: SqlSettings) -> Iterator[None]:
    """DuckDB's errors as ours. All of them are about the query: there is nothing else that could fail in there."""
    try:
        yield
    except duckdb.ParserException as error:
        raise BadSyntax(_said(error)) from error
    except duckdb.InterruptException as error:
        raise _too_long(settings) from error
    except duckdb.OutOfMemoryException as error:
        raise _too_large(settings) from error
    except OSError as error:  # once rows flow, pyarrow makes this of every error, with DuckDB's words
        said = _said(error)
        interrupted, exhausted = said.startswith("INTERRUPT"), said.startswith("Out of Memory")
        raise (_too_long(settings) if interrupted else _too_large(settings) if exhausted else InvalidArgument(said)) from error
    except duckdb.PermissionException as error:
        raise PermissionDenied(_said(error)) from error
    except (duckdb.NotImplementedException, duckdb.InternalException, duckdb.FatalException) as error:
        raise Unsupported(f"DuckDB cannot run this query: {_said(error)}") from error
    except (duckdb.Error, UnicodeError, pa.ArrowException) as error:
        raise InvalidArgument(_said(error)) from error


def _too_long(settings: SqlSettings) -> Unsupported:
    return Unsupported(f"the query took longer than {settings.timeout_seconds:g} seconds (sql.timeout_seconds)")


def _too_large(settings: SqlSettings) -> Unsupported:
    return Unsupported(f"the query needs more than {settings.memory_bytes:,} bytes of memory (sql.memory_bytes)")


def _said(error: Exception) -> str:
    """The message alone: what follows it shows the rewritten text, which nobody wrote."""
    return (str(error).splitlines() or ["no reason given"])[0].strip()


def _one(cursor: duckdb.DuckDBPyConnection, sql: str, value: str) -> str:
    row = cursor.execute(sql, [value]).fetchone()
    assert row is not None, "a scalar query has one row"
    return str(row[0])


def _tree(text: str) -> Mapping[str, Any]:
    try:
        with deeper():
            found: Mapping[str, Any] = json.loads(text)
    except RecursionError as error:
        raise BadSyntax("the query is nested too deep to be read") from error
    return found


def _refused(tree: Mapping[str, Any]) -> LakewardenError:
    said = str(tree.get("error_message", "it is no query"))
    if tree.get("error_type") == "parser":
        return BadSyntax(said)
    return Unsupported(f"only queries run here: {said}")


def _nodes(tree: Any) -> Iterator[Mapping[str, Any]]:
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield node
            left += node.values()
        elif isinstance(node, list):
            left += node


def _ctes(node: Mapping[str, Any]) -> Iterator[str]:
    for entry in (node.get("cte_map") or {}).get("map", ()):
        yield str(entry["key"])
    if node.get("type") == "RECURSIVE_CTE_NODE":
        yield str(node["cte_name"])


def _refused_functions(node: Mapping[str, Any]) -> Iterator[str]:
    """The functions of a node that no query may call.

    Raises:
        PermissionDenied: what it reads is no relation of a query.
    """
    if "function_name" in node and not _is_scalar(name := str(node["function_name"])):
        yield name
    if node.get("type") == "TABLE_FUNCTION" and (name := str(node["function"]["function_name"])).lower() not in TABLE_FUNCTIONS:
        yield name
    for key in _ENTRIES & node.keys():
        entry = node[key]
        is_relation = isinstance(entry, dict) and "alias" in entry and "sample" in entry
        if is_relation and entry["type"] not in _RELATIONS:
            raise PermissionDenied(f"{entry['type']} is not for queries")


def _is_scalar(name: str) -> bool:
    """Allowed where a value is computed; operators are functions without a letter in their name."""
    lower = name.lower()
    known = lower in SCALAR_FUNCTIONS or lower in TABLE_FUNCTIONS or lower in SESSION_FUNCTIONS
    return known or not any(letter.isalnum() for letter in lower)


def _check_relation(node: Mapping[str, Any], known: frozenset[str]) -> None:
    if node.get("type") != "BASE_TABLE":
        return
    name = str(node["table_name"])
    if node["catalog_name"] or node["schema_name"] or not {name, name.lower()} & known:
        raise PermissionDenied(f"relation {name!r} is none of this query's own")
