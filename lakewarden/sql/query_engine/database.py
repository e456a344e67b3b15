"""One DuckDB in memory for a whole process, and what becomes of it when a fatal error ends it.

A connection has no access to files or extensions, its settings are locked, and nothing is ever created beside the macros of
`bounded`: what a query registers is seen by its own connection alone.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from lakewarden.errors import Unsupported
from lakewarden.sql.query_engine.bounded import MACROS
from lakewarden.sql.query_engine.failures import ended_by_another, may_have_ended

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

T = TypeVar("T")

_TRIES = 5
"""Databases that one query may see ended by others before it gives up."""


def locked_down(memory_bytes: int, threads: int) -> DuckDBPyConnection:
    """A new database that reaches nothing outside."""
    import duckdb  # a sixth of a second that statements without a query need not spend

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


@dataclass(frozen=True)
class _Opened:
    root: DuckDBPyConnection
    process: int


class Database:
    """Opened when the first query needs it, and again when it has ended. Safe for threads."""

    def __init__(self, open_: Callable[[], DuckDBPyConnection]) -> None:
        self._open = open_
        self._lock = threading.Lock()
        self._opened: _Opened | None = None
        self._inherited: list[_Opened] = []
        """Of the process that this one was forked from. Never closed: that would wait for threads which are not here."""

    def run(self, act: Callable[[DuckDBPyConnection], T]) -> T:
        """Does it with a connection of its own. Where another's query ends the database meanwhile, it is done again on a new
        one; so it has to be without effects.

        Raises:
            Unsupported: other queries ended it again and again.
            Whatever `act` raises.
        """
        import duckdb  # as above

        for _ in range(_TRIES):
            opened = self._current()
            try:
                with closing(opened.root.cursor()) as cursor:
                    return act(cursor)
            except (duckdb.Error, OSError) as error:
                if not may_have_ended(error) or _answers(opened):
                    raise
                self._forget(opened)
                if not ended_by_another(error):
                    raise
        raise Unsupported(f"DuckDB cannot run this query now: other queries stopped its engine {_TRIES} times; try again")

    def _current(self) -> _Opened:
        with self._lock:
            if self._opened is not None and self._opened.process != os.getpid():
                self._inherited.append(self._opened)
                self._opened = None
            if self._opened is None:
                self._opened = _Opened(self._open(), os.getpid())
            return self._opened

    def _forget(self, ended: _Opened) -> None:
        """What still runs on it has connections of its own."""
        import duckdb  # as above

        with self._lock:
            if self._opened is ended:
                self._opened = None
        with suppress(duckdb.Error):
            ended.root.close()


def _answers(opened: _Opened) -> bool:
    import duckdb  # as above

    try:
        with closing(opened.root.cursor()) as cursor:
            cursor.execute("SELECT 1")
    except duckdb.Error:
        return False
    return True
