"""What a query reads and may use: freshness, bounds on files, limits of time and size, writers that race."""

from __future__ import annotations

import threading

import pytest

from lakewarden import Lakehouse, Settings
from lakewarden.delta.bounds import Bound, files_within
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import InvalidArgument, LakewardenError, Unsupported
from lakewarden.scope import Scope, TableName
from lakewarden.settings import SqlSettings
from lakewarden.sql.functions import SCALAR_FUNCTIONS, TABLE_FUNCTIONS
from lakewarden.sql.parse import parse
from lakewarden.sql.results import Affected, Rows, Started

_TABLE = "CREATE NAMESPACE app; CREATE USER TABLE app.t (id BIGINT PRIMARY KEY, name TEXT, n INT)"


def _rows(lake: Lakehouse, text: str) -> list[tuple[object, ...]]:
    found = lake.sql(text)[-1]
    assert isinstance(found, Rows)
    return [tuple(row.values()) for row in found.to_pylist()]


def test_eventual_reads_see_what_was_flushed(warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql(f"{_TABLE}; INSERT INTO app.t VALUES (1, 'cold', 1); STORAGE FLUSH TABLE app.t")
        lake.sql("INSERT INTO app.t VALUES (2, 'hot', 2)")
        found = lake.sql("SELECT count(*) AS n FROM app.t", freshness="eventual")[-1]
        assert isinstance(found, Rows)
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


def test_a_query_has_a_limit_of_time_and_of_size_and_fails_late(warehouse_uri: str) -> None:
    settings = Settings(sql=SqlSettings(timeout_seconds=0.3, result_bytes=1 << 20))
    with Lakehouse.open(warehouse_uri, settings=settings) as lake:
        with pytest.raises(Unsupported, match=r"sql\.timeout_seconds"):
            lake.sql("SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b")
        with pytest.raises(Unsupported, match=r"sql\.result_bytes"):
            lake.sql("SELECT * FROM range(10000000)")
        with pytest.raises(InvalidArgument, match="the last one"):  # when rows flow already
            lake.sql("SELECT CASE WHEN range = 100000 THEN error('the last one') END FROM range(100001)")
        assert _rows(lake, "SELECT 1") == [(1,)]


def test_updates_that_race_all_count(warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql(f"{_TABLE}; INSERT INTO app.t VALUES (1, 'x', 0)")
        done: list[int] = []
        codes: set[str] = set()

        def work() -> None:
            for _ in range(5):
                try:
                    result = lake.sql("UPDATE app.t SET n = n + 1 WHERE id = 1")[-1]
                    done.append(result.rows if isinstance(result, Affected) else 0)
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
        assert isinstance(started, Started)
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
        assert isinstance(found, Rows)
        assert found.to_pylist() == []


def test_a_statement_knows_its_place() -> None:
    placed = parse("SELECT 1;\n  USE chat;\n\nSHOW TABLES")
    assert [(one.line, one.column) for one in placed] == [(1, 1), (2, 3), (4, 1)]


def test_secrets_stay_out_of_what_is_printed() -> None:
    (placed,) = parse("CREATE USER u WITH PASSWORD 'hush hush' ROLE user")
    assert "hush" not in repr(placed)


def test_allowed_functions_are_duckdbs_and_none_that_reaches_out() -> None:
    import duckdb

    with duckdb.connect() as connection:
        there = {row[0] for row in connection.execute("SELECT function_name FROM duckdb_functions()").fetchall()}
    assert there >= SCALAR_FUNCTIONS
    assert not {
        name for name in SCALAR_FUNCTIONS | TABLE_FUNCTIONS if name.startswith(("read_", "duckdb_", "pragma_", "parquet_"))
    }
    assert not SCALAR_FUNCTIONS & {"current_setting", "getenv", "nextval", "query", "glob", "json_execute_serialized_sql"}
