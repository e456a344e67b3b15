"""Engines: of this process, and in workers. In both, no query meets another."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack

import duckdb
import pyarrow as pa
import pytest

from lakewarden import Lakehouse, Settings
from lakewarden.base.setting_sections import SqlSettings
from lakewarden.errors import Canceled, InvalidArgument, PermissionDenied, Unsupported
from lakewarden.sql.query_engine.engine import Limits, QueryEngine
from lakewarden.sql.query_engine.in_process import engine_of_process, locked_down
from lakewarden.sql.query_engine.workers.engine import Workers
from lakewarden.sql.results import ResultRows
from tests.fixtures.patience import PATIENCE

_LIMITS = Limits(60.0, 1 << 20)
_MANY = 2_000
_THREADS = 16


@pytest.fixture(scope="module", params=["in this process", "in workers"])
def engine(request: pytest.FixtureRequest) -> Iterator[QueryEngine]:
    if request.param == "in this process":
        yield engine_of_process(SqlSettings())
    else:
        workers = Workers.of(SqlSettings())
        yield workers
        workers.close()


@pytest.mark.slow
def test_a_process_has_one_database_for_all_calls(warehouse_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    connect = duckdb.connect

    def counted(*args: object, **named: object) -> object:
        opened.append(args)
        return connect(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(duckdb, "connect", counted)
    threads = 5  # no other test's
    for number in range(2):
        settings = Settings(sql=SqlSettings(threads=threads, timeout_seconds=10 + number))
        with Lakehouse.open(f"{warehouse_uri}-{number}", settings=settings) as lake, ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(lake.sql, ["SELECT 1"] * 20))
    assert len(opened) == 1


def test_other_bounds_of_memory_or_threads_are_another_engine() -> None:
    settings = SqlSettings()
    engine = engine_of_process(settings)
    assert engine_of_process(SqlSettings(timeout_seconds=1, result_bytes=1024)) is engine
    assert engine_of_process(SqlSettings(memory_bytes=settings.memory_bytes + 1)) is not engine
    assert engine_of_process(SqlSettings(threads=settings.threads + 1)) is not engine


@pytest.mark.slow
@pytest.mark.parametrize("many", [200, pytest.param(_MANY, marks=pytest.mark.night)])
def test_connections_see_what_they_registered_and_nothing_else(many: int) -> None:
    """Below every check of ours: the names of one are not there for another, and leave no trace in what all share."""
    with locked_down(1 << 28, 2) as root, ExitStack() as stack:
        cursors = [stack.enter_context(root.cursor()) for _ in range(many)]
        for number, cursor in enumerate(cursors):
            cursor.register("mine", pa.table({"n": [number]}))
            cursor.register(f"only_{number}", pa.table({"n": [number]}))

        def look(number: int) -> None:
            cursor, other = cursors[number], (number + 1) % many
            assert cursor.execute("SELECT n FROM mine").fetchall() == [(number,)]
            assert cursor.execute(f"SELECT n FROM only_{number}").fetchall() == [(number,)]
            with pytest.raises(duckdb.CatalogException):
                cursor.execute(f"SELECT n FROM only_{other}")

        order = list(range(many))
        random.Random(0).shuffle(order)
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(look, order))
        with root.cursor() as fresh:
            assert fresh.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall() == []
            assert fresh.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal").fetchall() == []
        seen = cursors[0].execute("SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1").fetchall()
        assert seen == [("mine",), ("only_0",)]


@pytest.mark.slow
@pytest.mark.parametrize("sessions", [100, pytest.param(_MANY, marks=pytest.mark.night)])
def test_sessions_that_run_at_once_see_their_own_rows(warehouse_uri: str, sessions: int) -> None:
    users = [f"u{number}" for number in range(sessions)]
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql("CREATE NAMESPACE app; CREATE USER TABLE app.t (id BIGINT PRIMARY KEY, v TEXT)")
        lake.table("app.t").write([{"id": 1, "v": f"of {user}", "user": user} for user in users], user_column="user")
        opened = {user: lake.session(user=user) for user in users}

        def look(user: str) -> None:
            found = opened[user].sql("SELECT v FROM app.t")[0]
            assert isinstance(found, ResultRows)
            assert found.to_pylist() == [{"v": f"of {user}"}]

        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(look, random.Random(1).sample(users, min(sessions, 500))))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM theirs",
        "SELECT * FROM temp.main.given",
        "SELECT * FROM (SELECT * FROM main.given)",
        "WITH theirs AS (SELECT 1) SELECT * FROM main.theirs",
    ],
)
def test_a_query_names_what_it_is_given_and_nothing_else(engine: QueryEngine, text: str) -> None:
    with pytest.raises(PermissionDenied, match="does not belong to this query"):
        engine.run(text, {"given": pa.table({"n": [1]})}, _LIMITS)


def test_a_query_names_its_own_relations(engine: QueryEngine) -> None:
    found = engine.run("WITH own AS (SELECT n FROM Given) SELECT n FROM Own", {"given": pa.table({"n": [1]})}, _LIMITS)
    assert found.table.to_pylist() == [{"n": 1}]
    assert found.types == ("BIGINT",)


@pytest.mark.slow
def test_a_query_that_takes_too_long_is_the_only_one_that_is_interrupted(engine: QueryEngine) -> None:
    endless = "SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000000) c"
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(engine.run, endless, {}, Limits(0.3, 1 << 20))
        answers = 0
        while not late.done():
            answers += engine.run("SELECT sum(n) FROM given", {"given": pa.table({"n": [1, 2]})}, _LIMITS).table.num_rows
        assert answers
        with pytest.raises(Unsupported, match=r"longer than 0\.3 seconds"):
            late.result()


@pytest.mark.slow
def test_a_query_that_is_cancelled_ends_and_the_engine_goes_on(engine: QueryEngine) -> None:
    endless = "SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000000) c"
    limits = Limits(PATIENCE, 1 << 20)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(engine.run, endless, {}, limits)
        wait([running], 0.5)
        limits.cancellation.cancel()
        with pytest.raises(Canceled):
            running.result()
    with pytest.raises(Canceled):
        engine.run("SELECT 1", {}, limits)
    assert engine.run("SELECT 1 AS n", {}, _LIMITS).table.to_pylist() == [{"n": 1}]


@pytest.mark.slow
def test_a_query_that_takes_too_much_memory_leaves_the_engine_to_the_others() -> None:
    engine = engine_of_process(SqlSettings(memory_bytes=1 << 26))
    for _ in range(2):
        with pytest.raises(Unsupported, match=r"67,108,864 bytes for all queries of this process \(sql.memory_bytes\)"):
            engine.run(
                "SELECT n, count(*) FROM (SELECT hash(a.x, b.y) AS n FROM range(3000) a(x), range(3000) b(y)) GROUP BY n",
                {},
                _LIMITS,
            )
        assert engine.run("SELECT 1", {}, _LIMITS).table.num_rows == 1


def test_no_row_and_no_text_of_a_query_stays(engine: QueryEngine) -> None:
    before = pa.total_allocated_bytes()
    secret = f"{random.Random(3).getrandbits(64):x}"

    def run() -> None:
        given = pa.table({"v": pa.array([secret] * 100_000)})
        assert engine.run(f"SELECT v FROM given WHERE v = '{secret}'", {"given": given}, Limits(60.0, 1 << 30)).table.num_rows

    run()
    gc.collect()
    assert pa.total_allocated_bytes() <= before
    assert secret not in str(vars(engine))


@pytest.mark.parametrize(
    ("text", "raised"),
    [
        ("SELECT getenv('HOME')", PermissionDenied),
        ("SELECT current_setting('memory_limit')", PermissionDenied),
        ("SELECT st_read_meta('x')", PermissionDenied),
        ("SELECT nothing_like_that(1)", InvalidArgument),
    ],
)
def test_only_functions_that_compute_are_called(engine: QueryEngine, text: str, raised: type[Exception]) -> None:
    for _ in range(2):  # what is remembered of a text refuses it too
        with pytest.raises(raised):
            engine.check(text, _LIMITS)


@pytest.mark.parametrize(
    "text",
    [
        "SET memory_limit = '1GB'",
        "SET GLOBAL threads = 8",
        "INSTALL httpfs",
        "LOAD httpfs",
        "ATTACH '/tmp/other.db'",
        "COPY (SELECT 1) TO '/tmp/out.csv'",
        "SELECT * FROM read_csv('/etc/passwd')",
    ],
)
def test_the_database_itself_reaches_nothing(text: str) -> None:
    with (
        locked_down(1 << 28, 1) as root,
        root.cursor() as cursor,
        pytest.raises(duckdb.Error, match=r"disabled|locked|not found"),
    ):
        cursor.execute(text).fetchall()


@pytest.mark.parametrize("name", ["memory_limit", "threads"])
def test_the_bounds_are_those_of_the_settings(name: str) -> None:
    with locked_down(1 << 28, 3) as root:
        assert root.execute(f"SELECT current_setting('{name}')").fetchone() in (("256.0 MiB",), (3,))


_FORKING = """
import os, sys
from lakewarden import Lakehouse
lake = Lakehouse.open(sys.argv[1])
lake.sql("SELECT sum(x) FROM range(100000) r(x)")
child = os.fork()
if child == 0:
    lake.sql("SELECT sum(x) FROM range(100000) r(x)")
    os._exit(7)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
def test_a_forked_process_has_an_engine_of_its_own(warehouse_uri: str) -> None:
    """The threads of the one that it had are not there."""
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", _FORKING, warehouse_uri], check=False, timeout=300)
    assert ran.returncode == 7


@pytest.mark.slow
def test_a_result_beyond_its_bound_is_spooled_to_disk(engine: QueryEngine) -> None:
    text = "SELECT i, i // 2 AS half, {'a': i}::JSON AS j FROM range(200000) r(i) ORDER BY i"
    expected = engine.run(text, {}, Limits(60.0, 1 << 30))
    for most, in_memory in ((1 << 30, True), (1 << 20, False)):
        spool, types = engine.spool(text, {}, Limits(60.0, most))
        assert (spool.in_memory, types) == (in_memory, expected.types)
        for _ in range(2):
            assert pa.concat_tables(spool.tables()).equals(expected.table)


def test_types_that_arrow_cannot_carry_are_text(engine: QueryEngine) -> None:
    greatest = str((1 << 128) - 1)
    sql = (
        f"""SELECT '{greatest}0'::BIGNUM AS "a b"" c", [{greatest}::UHUGEINT] AS b, {{'BIT': '101'::BIT, 'c': 'BIT'}} AS c, """
        "TIMETZ '01:00:00+15:59:59' AS d, 'BIT'::ENUM('BIT') AS e, n FROM (VALUES (2), (3), (1)) AS r(n) ORDER BY n DESC"
    )
    answer = engine.run(sql, {}, _LIMITS)
    shown = {'a b" c': f"{greatest}0", "b": [greatest], "c": {"BIT": "101", "c": "BIT"}, "d": "01:00:00+15:59:59", "e": "BIT"}
    assert answer.table.to_pylist() == [shown | {"n": n} for n in (3, 2, 1)]
    assert answer.to_pylist()[0]['a b" c'] == int(f"{greatest}0")
