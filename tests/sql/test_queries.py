"""What a query reads and may use: freshness, bounds on files, limits of time and size, writers that race."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import duckdb
import pytest

from lakewarden import Lakehouse, Settings
from lakewarden.base.scope import Scope, TableName
from lakewarden.base.setting_sections import SqlSettings
from lakewarden.delta.reading.bounds import Bound, files_within
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import InvalidArgument, LakewardenError, Unsupported
from lakewarden.sql.parse import parse
from lakewarden.sql.query_engine.tree import SCALAR_FUNCTIONS, TABLE_FUNCTIONS
from lakewarden.sql.results import AffectedRows, ResultRows, StartedJobs

_TABLE = "CREATE NAMESPACE app; CREATE USER TABLE app.t (id BIGINT PRIMARY KEY, name TEXT, n INT)"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path_factory.mktemp("large") / "lake")) as lake:
        lake.sql(f"{_TABLE}; INSERT INTO app.t VALUES (1, '{{:1000000000}}', 1)")
        yield lake


def _rows(lake: Lakehouse, text: str) -> list[tuple[object, ...]]:
    found = lake.sql(text)[-1]
    assert isinstance(found, ResultRows)
    return [tuple(row.values()) for row in found.to_pylist()]


def test_eventual_reads_see_what_was_flushed(warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql(f"{_TABLE}; INSERT INTO app.t VALUES (1, 'cold', 1); STORAGE FLUSH TABLE app.t")
        lake.sql("INSERT INTO app.t VALUES (2, 'hot', 2)")
        found = lake.sql("SELECT count(*) AS n FROM app.t", freshness="eventual")[-1]
        assert isinstance(found, ResultRows)
        assert found.to_pylist() == [{"n": 1}]
        assert _rows(lake, "SELECT count(*) FROM app.t") == [(2,)]


def test_files_outside_of_the_bounds_are_not_read(warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql(_TABLE)
        for start in (0, 100, 200):
            lake.sql(
                f"INSERT INTO app.t SELECT {start} + x, 'n' || ({start} + x), x FROM range(10) r(x); STORAGE FLUSH TABLE app.t"
            )
        target = lake.warehouse.target(lake.warehouse.catalog.read(), Scope(TableName("app", "t"), "root"))
        table = ScopeTable.open(target.location)
        assert table is not None
        assert len(files_within(table, [Bound("id", 105, 105)])) == 1
        assert len(files_within(table, [Bound("id", 50, 60)])) == 0
        assert len(files_within(table, [Bound("name", "n2", None)])) == 2  # all of the second, n100 to n109, comes before n2
        assert _rows(lake, "SELECT n FROM app.t WHERE id = 105") == [(5,)]
        lake.sql("UPDATE app.t SET n = 500 WHERE id = 105")
        assert _rows(lake, "SELECT id FROM app.t WHERE n = 500") == [(105,)]
        assert _rows(lake, "SELECT id FROM app.t WHERE n = 5 ORDER BY id") == [(5,), (205,)]


@pytest.mark.slow
def test_a_query_has_a_limit_of_time_and_of_size_and_fails_late(warehouse_uri: str) -> None:
    hasty = Settings(sql=SqlSettings(timeout_seconds=0.3))
    with Lakehouse.open(warehouse_uri, settings=hasty) as lake, pytest.raises(Unsupported, match=r"sql\.timeout_seconds"):
        lake.sql("SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b")
    settings = Settings(sql=SqlSettings(timeout_seconds=3600, result_bytes=1 << 20))
    with Lakehouse.open(warehouse_uri, settings=settings) as lake:
        with pytest.raises(Unsupported, match=r"sql\.result_bytes"):
            lake.sql("SELECT * FROM range(10000000)")
        with pytest.raises(InvalidArgument, match="the last one"):  # when rows flow already
            lake.sql("SELECT CASE WHEN range = 100000 THEN error('the last one') END FROM range(100001)")
        assert _rows(lake, "SELECT 1") == [(1,)]


@pytest.mark.parametrize(
    "computed",
    [
        "repeat('x', 1000000000)",
        "repeat(name, n * 1000000000) FROM app.t",
        "repeat(repeat('x', 10000000), 10000000)",
        "range(1000000000)",
        "generate_series(timestamp '2020-01-01', timestamp '2030-01-01', interval 1 second)",
        "list_transform(range(5), lambda x: len(range(1000000000)))",
        "list_resize([1], 1000000000)",
        "lpad('x', 1000000000, 'y')",
        "levenshtein(repeat('x', 1000000), repeat('y', 1000000))",
        "format('{:1000000000}', 1)",
        "format('{:{}}', 1, 1000000000)",
        "printf('%1000000000d', 1)",
        "format(name, 1) FROM app.t",
    ],
)
def test_no_single_call_makes_more_than_can_be_interrupted(large: Lakehouse, computed: str) -> None:
    with pytest.raises(InvalidArgument, match=r"request fewer|takes a literal pattern"):
        large.sql(f"SELECT {computed}")


def test_bounded_functions_compute_what_duckdbs_own_do(large: Lakehouse) -> None:
    computed = (
        "repeat('ab', 2), repeat([1], 2), repeat('a'::BLOB, 2), repeat(NULL, 2), range(3), range(3, 1, -1), range(0, 5, 0)",
        "generate_series(1, 3), range(timestamp '2024-01-01', timestamp '2024-01-02', interval 12 hours), lpad('x', 3, 'y')",
        "rpad('x', 3, 'y'), list_resize([1], 2, 7), levenshtein('ab', 'b'), jaro_similarity('ab', 'abc', 0.5)",
        "format('{{{:05d}}} 123456 {}', 7, 'x'), printf('%5d%% 123456', 7)",
    )
    with duckdb.connect() as connection:
        for values in computed:
            own = connection.sql(f"SELECT {values}").fetchall()
            assert [row[: len(own[0])] for row in _rows(large, f"SELECT {values}")] == own


@pytest.mark.slow
def test_updates_that_race_all_count(warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql(f"{_TABLE}; INSERT INTO app.t VALUES (1, 'x', 0)")
        done: list[int] = []
        codes: set[str] = set()

        def work() -> None:
            for _ in range(5):
                try:
                    result = lake.sql("UPDATE app.t SET n = n + 1 WHERE id = 1")[-1]
                    done.append(result.rows if isinstance(result, AffectedRows) else 0)
                except LakewardenError as error:
                    codes.add(error.code)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert codes <= {"CONFLICT"}
        assert done
        assert _rows(lake, "SELECT n FROM app.t") == [(sum(done),)]


def test_jobs_wait_or_are_left(warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql(f"{_TABLE}; INSERT INTO app.t VALUES (1, 'x', 0)")
        started = lake.sql("STORAGE FLUSH TABLE app.t", wait=False)[-1]
        assert isinstance(started, StartedJobs)
        assert [job.status for job in lake.jobs()] == ["queued"]
        assert "already queued" in str(lake.sql("STORAGE FLUSH TABLE app.t", wait=False)[-1])
        assert [job.job_id for job in lake.run_jobs()] == list(started.job_ids)
        assert lake.pending() == []


def test_a_session_keeps_its_namespace_and_its_rows(warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql(_TABLE)
        ada, bob = lake.session(user="ada"), lake.session(user="bob")
        ada.sql("USE app")
        ada.sql("INSERT INTO t VALUES (1, 'secret of ada', 1)")
        found = bob.sql("SELECT * FROM app.t")[-1]
        assert isinstance(found, ResultRows)
        assert found.to_pylist() == []


def test_secrets_stay_out_of_what_is_printed() -> None:
    (statement,) = parse("CREATE USER u WITH PASSWORD 'hush hush' ROLE user")
    assert "hush" not in repr(statement)


def test_allowed_functions_are_duckdbs_and_none_that_reaches_out() -> None:
    import duckdb

    with duckdb.connect() as connection:
        there = {row[0] for row in connection.execute("SELECT function_name FROM duckdb_functions()").fetchall()}
    assert there >= SCALAR_FUNCTIONS
    assert not {
        name for name in SCALAR_FUNCTIONS | TABLE_FUNCTIONS if name.startswith(("read_", "duckdb_", "pragma_", "parquet_"))
    }
    assert not SCALAR_FUNCTIONS & {"current_setting", "getenv", "nextval", "query", "glob", "json_execute_serialized_sql"}
