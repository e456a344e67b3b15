"""What tools ask of PostgreSQL's catalog: psql, SQLAlchemy's inspector, and pgjdbc's metadata."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from lakewarden import Lakehouse
from tests.fixtures.pgjdbc import jdbc_machine
from tests.fixtures.servers import unavailable
from tests.serve.conftest import PASSWORD
from tests.serve.postgres.conftest import address


@pytest.fixture(scope="module", autouse=True)
def tables(lake: Lakehouse) -> None:
    lake.sql(
        "CREATE NAMESPACE other;"
        "CREATE TABLE other.secret (id BIGINT PRIMARY KEY) WITH (TYPE = 'SHARED', ACCESS_LEVEL = 'PRIVATE');"
        "CREATE TABLE other.open (id BIGINT PRIMARY KEY) WITH (TYPE = 'SHARED', ACCESS_LEVEL = 'PUBLIC');"
        "CREATE TABLE app.prices (day DATE, item TEXT, price DECIMAL(10, 2) NOT NULL, at TIMESTAMP DEFAULT NOW(),"
        " PRIMARY KEY (day, item)) WITH (TYPE = 'USER');"
        "CREATE VIEW app.dear AS SELECT item, price FROM app.prices WHERE price > 100;"
        "CREATE VIEW app.hidden AS SELECT * FROM other.secret"
    )


def _psql(port: int, command: str, *options: str) -> str:
    psql = shutil.which("psql")
    if psql is None:
        unavailable("psql", "it is not installed")
    words = [psql, "-X", "-A", "-v", "ON_ERROR_STOP=1", *options, "-c", command, address(port, "ann")]
    found = subprocess.run(words, check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_psql_lists_and_describes_what_its_user_may_see(port: int) -> None:
    assert _psql(port, r"\dt", "-t").splitlines() == ["app|notes|table|lakewarden", "app|prices|table|lakewarden"]
    assert _psql(port, r"\dv", "-t").splitlines() == ["app|dear|view|lakewarden"]
    listed = _psql(port, r"\dt *.*")
    assert "other|open|" in listed
    assert "secret" not in listed
    shown = _psql(port, r"\d prices")
    for line in ("day|date||not null|", "price|numeric(10,2)||not null|", "at|timestamp with time zone|||NOW()"):
        assert line in shown
    assert '"prices_pkey" PRIMARY KEY, btree (day, item)' in shown
    assert "item|text" in _psql(port, r"\d dear")
    assert "app|lakewarden" in _psql(port, r"\dn")
    assert "app|lakewarden|UTF8" in _psql(port, r"\l")
    assert "app|lakewarden|UTF8" in _psql(port, r"\l+")
    assert _psql(port, r"\dx", "-t") == ""


def test_psql_writes_and_reads(port: int) -> None:
    assert _psql(port, "INSERT INTO notes VALUES (801, 'by psql')", "-t") == "INSERT 0 1\n"
    assert _psql(port, "SELECT body, true FROM notes WHERE id = 801", "-t") == "by psql|t\n"


@pytest.fixture
def engine(port: int, request: pytest.FixtureRequest) -> Iterator[sa.Engine]:
    url = sa.URL.create(f"postgresql+{request.param}", "ann", PASSWORD, "127.0.0.1", port, "app")
    made = sa.create_engine(url)
    yield made
    made.dispose()


@pytest.mark.parametrize("engine", ["psycopg"], indirect=True)
def test_sqlalchemy_inspects(engine: sa.Engine) -> None:
    found = sa.inspect(engine)
    assert found.get_schema_names() == ["app", "information_schema", "other"]
    assert sorted(found.get_table_names()) == ["notes", "prices"]
    assert found.get_table_names("other") == ["open"]
    assert found.get_view_names() == ["dear"]
    assert found.has_table("prices")
    assert not found.has_table("secret", "other")
    columns = {column["name"]: (str(column["type"]), column["nullable"]) for column in found.get_columns("prices")}
    assert columns == {
        "day": ("DATE", False),
        "item": ("TEXT", False),
        "price": ("NUMERIC(10, 2)", False),
        "at": ("TIMESTAMP", True),
    }
    assert found.get_pk_constraint("prices")["constrained_columns"] == ["day", "item"]
    nothing: list[object] = [
        *found.get_indexes("prices"),
        *found.get_foreign_keys("prices"),
        *found.get_unique_constraints("prices"),
    ]
    assert nothing == []


@pytest.mark.parametrize("engine", ["psycopg", "psycopg2"], indirect=True)
def test_sqlalchemy_reads_and_writes(engine: sa.Engine) -> None:
    notes = sa.table("notes", sa.column("id", sa.BigInteger), sa.column("body", sa.Text))
    number = 810 + len(engine.driver)
    with engine.connect() as connection:
        connection.execute(sa.insert(notes).values(id=number, body="by SQLAlchemy"))
        connection.commit()
        assert connection.scalar(sa.select(notes.c.body).where(notes.c.id == number)) == "by SQLAlchemy"


def _rows(found: Any, *names: str) -> list[tuple[str, ...]]:
    rows = []
    while found.next():
        rows.append(tuple(found.getString(name) for name in names))
    return rows


def test_pgjdbc_asks_its_metadata_reads_and_writes(port: int) -> None:
    with jdbc_machine() as java:
        url = f"jdbc:postgresql://127.0.0.1:{port}/app"
        client = java.java.sql.DriverManager.getConnection(url, "ann", PASSWORD)
        asked = client.getMetaData()
        assert client.getSchema() == "app"
        assert _rows(asked.getTables(None, None, "%", None), "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE")[-4:] == [
            *(("app", "notes", "TABLE"), ("app", "prices", "TABLE"), ("other", "open", "TABLE"), ("app", "dear", "VIEW"))
        ]
        columns = _rows(asked.getColumns(None, "app", "prices", None), "COLUMN_NAME", "TYPE_NAME", "COLUMN_SIZE", "IS_NULLABLE")
        assert columns[0][:2] == ("day", "date")
        assert columns[2] == ("price", "numeric", "10", "NO")
        keys = _rows(asked.getPrimaryKeys(None, "app", "prices"), "COLUMN_NAME", "KEY_SEQ")
        assert sorted(keys) == [("day", "1"), ("item", "2")]
        for what in (
            asked.getSchemas(),
            asked.getCatalogs(),
            asked.getTypeInfo(),
            asked.getIndexInfo(None, "app", "notes", False, False),
        ):
            assert what.next()
        write = client.prepareStatement("INSERT INTO notes VALUES (?, ?)")
        read = client.prepareStatement("SELECT id, body FROM notes WHERE id >= ? AND id < ?")
        for number in range(831, 838):  # from the fifth on, numbers come in binary
            write.setLong(1, number)
            write.setString(2, f"by pgjdbc {number}")
            assert write.executeUpdate() == 1
            read.setLong(1, 831)
            read.setInt(2, number + 1)
            assert len(_rows(read.executeQuery(), "id", "body")) == number - 830
        client.setAutoCommit(False)
        read.setFetchSize(2)
        assert [row[0] for row in _rows(read.executeQuery(), "id")] == [str(number) for number in range(831, 838)]
        client.rollback()
        client.close()


def test_what_is_not_served_is_refused_by_its_name(ann: psycopg.Connection) -> None:
    for text, name in (
        ("SELECT * FROM pg_catalog.pg_authid", "pg_authid"),
        ("SELECT * FROM pg_stat_activity", "pg_stat_activity"),
        ("SELECT pg_read_file('/etc/passwd')", "pg_read_file"),
        ("SELECT * FROM pg_class, notes", "notes"),
        ("SELECT * FROM information_schema.user_mappings", "user_mappings"),
    ):
        with pytest.raises(psycopg.errors.FeatureNotSupported, match=name):
            ann.execute(text)
    with pytest.raises(psycopg.Error):
        ann.execute("SELECT version(), * FROM pg_class, read_text('/etc/passwd')")


def test_the_standards_schema_shows_the_same(ann: psycopg.Connection) -> None:
    asked = "SELECT table_schema, table_name, table_type FROM information_schema.tables ORDER BY 1, 2"
    assert ann.execute(asked).fetchall() == [
        ("app", "dear", "VIEW"),
        ("app", "notes", "BASE TABLE"),
        ("app", "prices", "BASE TABLE"),
        ("other", "open", "BASE TABLE"),
    ]
    types = ann.execute("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = %s", ("notes",))
    assert types.fetchall() == [("id", "bigint"), ("body", "text")]
    asked = "SELECT current_database(), current_schema(), 'app.notes'::regclass::oid > 0"
    assert ann.execute(asked).fetchone() == (
        "app",
        "app",
        True,
    )
