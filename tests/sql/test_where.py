"""The operator's queries run in this process, and start no other; everyone else's run in workers, and open no DuckDB here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakewarden import Lakehouse, Settings
from lakewarden.base.setting_sections import SqlSettings
from lakewarden.sql.query_engine import in_process
from lakewarden.sql.query_engine.workers import engine
from lakewarden.sql.query_engine.workers import engine as worker
from lakewarden.sql.query_engine.workers.engine import pool_of_process
from lakewarden.sql.results import ResultRows
from tests.fixtures.lakes import lake_fixture

pytestmark = pytest.mark.slow  # each starts processes

_TABLE = "CREATE NAMESPACE app; CREATE USER TABLE app.t (id BIGINT PRIMARY KEY, v TEXT)"
_ALL = (
    "INSERT INTO app.t VALUES (1, upper('a')), (2, 'b') ON CONFLICT DO UPDATE SET v = excluded.v || '!'",
    "UPDATE app.t SET v = v || '?' WHERE id = 1",
    "DELETE FROM app.t WHERE length(v) > 100",
    "EXPLAIN SELECT * FROM app.t",
    "SELECT count(*) AS n FROM app.t",
)


_SETTINGS = Settings(sql=SqlSettings(threads=3))
lake = lake_fixture(sql=_TABLE, settings=_SETTINGS)


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    """Keeps the processes that run the queries from one test to the next."""
    release = pool_of_process(_SETTINGS.sql).hold()
    yield
    release()


def _refused(*_: object) -> None:
    raise AssertionError("it runs here")


def test_the_operator_starts_no_worker(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.Worker, "start", _refused)
    monkeypatch.setattr(engine.Workers, "_call", _refused)
    ways = (
        lake.sql,
        lambda text: lake.sql(f"EXECUTE AS USER 'ada' ({text})"),
        lake.session(user="root", role="system").execute_as("ada").sql,
    )
    for text in _ALL:
        for run in ways:
            (found,) = run(text)
    assert isinstance(found, ResultRows)
    assert found.to_pylist() == [{"n": 2}]


@pytest.mark.parametrize(("user", "role"), [("ada", "user"), ("root", "dba"), ("admin", "system"), ("sam", "service")])
def test_no_other_query_runs_in_this_process(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch, user: str, role: str) -> None:
    monkeypatch.setattr(in_process.InProcess, "_over", _refused)
    monkeypatch.setattr(in_process.InProcess, "check", _refused)
    session = lake.session(user=user, role=role)
    for text in _ALL:
        session.sql(text)
    (found,) = session.sql("SELECT v FROM app.t ORDER BY id")
    assert isinstance(found, ResultRows)
    assert found.to_pylist() == [{"v": "A?"}, {"v": "b"}]
    with session.subscribe("SELECT id FROM app.t WHERE length(v) > 0", last_rows=2) as followed:
        assert len(followed.poll()) > 0
