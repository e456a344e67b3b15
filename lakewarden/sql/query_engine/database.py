"""Holds the in-memory DuckDB of a process, and replaces it after a fatal error.

A connection has no access to files or extensions, and its settings are locked. Nothing is created except the macros of
`bounded`: only a query's own connection sees what the query registers.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TYPE_CHECKING, TypeVar

from lakewarden.errors import Unsupported
from lakewarden.sql.query_engine.bounds import MACROS
from lakewarden.sql.query_engine.failures import ended_by_another, may_have_ended

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

T = TypeVar("T")

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
