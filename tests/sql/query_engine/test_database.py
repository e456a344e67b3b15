"""A database that a fatal error ended is replaced; those who did not end it notice nothing."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import duckdb
import pyarrow as pa
import pytest

from lakewarden.errors import Unsupported
from lakewarden.sql.query_engine.engine import Limits
from lakewarden.sql.query_engine.in_process import Database, InProcess, locked_down

_LIMITS = Limits(60.0, 1 << 20)


class _Opening:
    """Opens databases, and keeps them in hand."""

    def __init__(self) -> None:
        self.opened: list[duckdb.DuckDBPyConnection] = []

    def __call__(self) -> duckdb.DuckDBPyConnection:
        self.opened.append(locked_down(1 << 28, 1))
        return self.opened[-1]


def _count(cursor: duckdb.DuckDBPyConnection) -> object:
    return cursor.execute("SELECT count(*) FROM range(7)").fetchall()


def test_a_database_that_was_closed_is_replaced() -> None:
    opening = _Opening()
    engine = InProcess(Database(opening), 1 << 28)
    query, given = "SELECT n + 1 AS n FROM given", {"given": pa.table({"n": [1]})}
    for number in range(1, 4):
        assert engine.run(query, given, _LIMITS).table.to_pylist() == [{"n": 2}]
        assert len(opening.opened) == number
        opening.opened[-1].close()


def test_an_error_of_the_query_replaces_nothing() -> None:
    opening = _Opening()
    database = Database(opening)
    for text in ("SELECT nothing", "SELECT 1 FROM nowhere", "SELECT error('FATAL: not really')", "SELECT 'x'::INT"):
        with pytest.raises(duckdb.Error):
            database.run(lambda cursor, text=text: cursor.execute(text))  # type: ignore[misc]
    assert database.run(_count) == [(7,)]
    assert len(opening.opened) == 1


@pytest.mark.parametrize("error", [duckdb.FatalException, duckdb.InternalException])
def test_who_ends_it_is_told_and_nothing_is_done_again_for_them(error: type[Exception]) -> None:
    opening = _Opening()
    tries = []

    def end(cursor: duckdb.DuckDBPyConnection) -> None:
        tries.append(cursor)
        opening.opened[-1].close()
        raise error("FATAL Error: this query broke it" if error is duckdb.FatalException else "INTERNAL Error: a bug")

    database = Database(opening)
    with pytest.raises(error):
        database.run(end)
    assert len(tries) == 1
    assert database.run(_count) == [(7,)]
    assert len(opening.opened) == 2


@pytest.mark.slow
def test_a_query_that_others_end_again_and_again_gives_up() -> None:
    opening = _Opening()

    def struck(_: duckdb.DuckDBPyConnection) -> None:
        opening.opened[-1].close()
        raise duckdb.FatalException("FATAL Error: Failed: database has been invalidated because of a previous fatal error.")

    with pytest.raises(Unsupported, match="other queries stopped its engine 5 times"):
        Database(opening).run(struck)


def test_many_that_are_struck_at_once_share_the_next_one() -> None:
    opening = _Opening()
    database = Database(opening)
    everybody = Barrier(8)
    tries: list[int] = []

    def struck(number: int) -> object:
        def act(cursor: duckdb.DuckDBPyConnection) -> object:
            tries.append(number)
            if tries.count(number) == 1:
                everybody.wait()
                if number == 0:
                    opening.opened[0].close()
                everybody.wait()
                raise duckdb.FatalException("FATAL Error: database has been invalidated because of a previous fatal error")
            return _count(cursor)

        return database.run(act)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(struck, range(8))) == [[(7,)]] * 8
    assert len(opening.opened) == 2
    assert len(tries) == 16


_FATAL = """
import resource, signal, sys
import duckdb
from lakewarden.errors import Unsupported
from lakewarden.sql.query_engine.in_process import Database

opened = []

def opening():
    opened.append(duckdb.connect(f"{sys.argv[1]}/{len(opened)}.db"))
    opened[-1].execute("CREATE TABLE t AS SELECT range AS i FROM range(100)")
    opened[-1].execute("CHECKPOINT")
    opened[-1].execute("INSERT INTO t SELECT range FROM range(50000)")
    return opened[-1]

def fatal(cursor):
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 * 4096, hard))
    try:
        cursor.execute("CHECKPOINT")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

def count(cursor):
    return cursor.execute("SELECT count(*) FROM t").fetchall()

def struck(cursor):
    if len(opened) == 1:
        try:
            fatal(opened[0].cursor())
        except duckdb.FatalException:
            pass
    return count(cursor)

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
database = Database(opening)
assert database.run(struck) == [(50100,)], "another's fault goes unseen"
assert len(opened) == 2
try:
    database.run(fatal)
except duckdb.FatalException:
    pass
assert len(opened) == 2, "who ended it is told at once"
assert database.run(count) == [(50100,)]
assert len(opened) == 3
"""


@pytest.mark.slow
@pytest.mark.disk
def test_a_real_fatal_error_costs_only_the_one_who_caused_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A checkpoint that the disk refuses invalidates DuckDB for every connection."""
    place = tmp_path_factory.mktemp("fatal")
    ran = subprocess.run([sys.executable, "-c", _FATAL, str(place)], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
