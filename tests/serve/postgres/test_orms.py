"""Blocks as asyncpg, SQLAlchemy's ORM, pgjdbc and Django's ORM use them, in their own idioms, in front of a real port."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from py4j.protocol import Py4JJavaError
from sqlalchemy import orm
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeEngine

from lakewarden import Lakehouse
from tests.fixtures.pgjdbc import jdbc_machine
from tests.serve.conftest import PASSWORD


class _Base(orm.DeclarativeBase):
    pass


class Note(_Base):
    __tablename__ = "notes"
    id: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, primary_key=True, autoincrement=False)
    body: orm.Mapped[str | None]


class Numbered(_Base):
    """The server makes its key and its time, which the ORM asks for by RETURNING."""

    __tablename__ = "numbered"
    id: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, primary_key=True)
    body: orm.Mapped[str | None]
    made: orm.Mapped[datetime] = orm.mapped_column(sa.DateTime(timezone=True), server_default=sa.func.now())


@pytest.fixture(scope="module", autouse=True)
def numbered(lake: Lakehouse) -> None:
    columns = "id BIGINT PRIMARY KEY DEFAULT SNOWFLAKE_ID(), body TEXT, made TIMESTAMP DEFAULT NOW()"
    lake.sql(f"CREATE USER TABLE app.numbered ({columns}); CREATE USER dora WITH PASSWORD '{PASSWORD}' ROLE dba")


@pytest.fixture
def engine(port: int) -> Iterator[sa.Engine]:
    made = sa.create_engine(sa.URL.create("postgresql+psycopg", "ann", PASSWORD, "127.0.0.1", port, "app"))
    yield made
    made.dispose()


def _bodies(client: psycopg.Connection, low: int, high: int) -> list[tuple[object, ...]]:
    return client.execute("SELECT id, body FROM notes WHERE id BETWEEN %s AND %s ORDER BY id", (low, high)).fetchall()


def test_sqlalchemys_session_rolls_back_in_the_middle(engine: sa.Engine, ann: psycopg.Connection) -> None:
    with orm.Session(engine) as session:
        session.add_all([Note(id=800, body="never"), Note(id=801, body="never")])
        session.flush()
        assert session.scalar(sa.select(sa.func.count()).where(Note.id.in_([800, 801]))) == 2
        session.rollback()
        assert session.get(Note, 800) is None
        session.add(Note(id=801, body="kept"))
        session.commit()
        note = session.get_one(Note, 801)
        note.body = "undone"
        session.flush()
        session.rollback()
        assert note.body == "kept"
        with session.begin_nested() as nested:
            session.add(Note(id=802, body="undone"))
            session.flush()
            nested.rollback()
        note.body = "changed"
        session.commit()
    assert _bodies(ann, 800, 802) == [(801, "changed")]


def test_sqlalchemys_session_hears_of_a_lost_race(engine: sa.Engine, ann: psycopg.Connection) -> None:
    ann.execute("INSERT INTO notes VALUES (805, 'first')")
    with orm.Session(engine) as session:
        session.get_one(Note, 805).body = "mine"
        session.flush()
        ann.execute("UPDATE notes SET body = 'theirs' WHERE id = 805")
        with pytest.raises(sa.exc.OperationalError) as lost:
            session.commit()
        assert isinstance(lost.value.orig, psycopg.errors.SerializationFailure)
        session.rollback()
        session.get_one(Note, 805).body = "mine, again"
        session.commit()
    assert _bodies(ann, 805, 805) == [(805, "mine, again")]


def test_sqlalchemys_session_is_given_keys_that_the_server_made(engine: sa.Engine, ann: psycopg.Connection) -> None:
    with orm.Session(engine) as session:
        several = [Numbered(body=f"body {number}") for number in range(5)]
        session.add_all(several)
        session.flush()
        assert [session.get_one(Numbered, one.id).body for one in several] == [f"body {number}" for number in range(5)]
        assert all(one.made.tzinfo for one in several)
        session.rollback()
        one = Numbered(body="kept")
        session.add(one)
        session.commit()
        found = session.execute(sa.update(Numbered).values(body="new").where(Numbered.id == one.id).returning(Numbered.body))
        assert found.scalars().all() == ["new"]
        upsert = postgresql.insert(Numbered).values(id=one.id, body="again")
        same = upsert.on_conflict_do_update(index_elements=["id"], set_={"body": "new"}).returning(Numbered.id, Numbered.body)
        assert [tuple(row) for row in session.execute(same)] == [(one.id, "new")]
        session.commit()
        assert ann.execute("SELECT id, body FROM numbered").fetchall() == [(one.id, "new")]
        session.delete(one)
        session.commit()
    assert ann.execute("SELECT count(*) FROM numbered").fetchone() == (0,)


def test_sqlalchemys_create_all_makes_a_table_of_its_types(port: int) -> None:
    kinds: list[TypeEngine[Any]] = [
        sa.String(50),
        sa.Text(),
        sa.Float(),
        sa.Double(),
        sa.Numeric(10, 2),
        sa.DateTime(),
        sa.DateTime(timezone=True),
    ]
    kinds += [sa.Date(), sa.Boolean(), sa.SmallInteger(), sa.LargeBinary(), postgresql.JSONB()]
    made = sa.Table("made", sa.MetaData(), sa.Column("id", sa.BigInteger, primary_key=True))
    for number, kind in enumerate(kinds):
        made.append_column(sa.Column(f"c{number}", kind))
    engine = sa.create_engine(sa.URL.create("postgresql+psycopg", "dora", PASSWORD, "127.0.0.1", port, "app"))
    made.metadata.create_all(engine)
    with engine.begin() as client:
        client.execute(made.insert(), [{"c0": "a", "c4": 1.5, "c11": {"k": [1]}}, {"c0": "b" * 60, "c4": None, "c11": None}])
        ((first, second),) = client.execute(sa.select(sa.func.min(made.c.id), sa.func.max(made.c.id)))
        assert 0 < first < second
        found = client.execute(sa.select(made.c.c4, made.c.c11["k"][0].astext).where(made.c.c0 == "a")).all()
        assert [tuple(map(str, row)) for row in found] == [("1.50", "1")]
    made.metadata.drop_all(engine)
    engine.dispose()


def test_asyncpgs_transactions(port: int, ann: psycopg.Connection) -> None:
    async def work() -> None:
        client = await asyncpg.connect(host="127.0.0.1", port=port, user="ann", password=PASSWORD, database="app")
        with pytest.raises(ZeroDivisionError):  # noqa: PT012  # the context is what is tried
            async with client.transaction():
                await client.execute("INSERT INTO notes VALUES ($1, $2)", 810, "never")
                raise ZeroDivisionError
        async with client.transaction():
            await client.executemany("INSERT INTO notes VALUES ($1, $2)", [(811, "a"), (812, "b"), (813, "c")])
            with pytest.raises(asyncpg.IntegrityConstraintViolationError):  # noqa: PT012  # as above
                async with client.transaction():
                    await client.execute("DELETE FROM notes WHERE id = $1", 811)
                    await client.execute("INSERT INTO notes VALUES (812, 'is there')")
            assert await client.fetchval("SELECT count(*) FROM notes WHERE id BETWEEN 810 AND 819") == 3
        race = client.transaction()
        await race.start()
        await client.execute("UPDATE notes SET body = 'mine' WHERE id = 811")
        await asyncio.to_thread(ann.execute, "UPDATE notes SET body = 'theirs' WHERE id = 811")
        with pytest.raises(asyncpg.SerializationError):
            await race.commit()
        assert not client.is_in_transaction()
        await client.close()

    asyncio.run(work())
    assert _bodies(ann, 810, 819) == [(811, "theirs"), (812, "b"), (813, "c")]


@pytest.mark.slow
def test_pgjdbcs_transactions(port: int, ann: psycopg.Connection) -> None:
    with jdbc_machine() as java:
        client = java.java.sql.DriverManager.getConnection(f"jdbc:postgresql://127.0.0.1:{port}/app", "ann", PASSWORD)
        client.setAutoCommit(False)
        insert = client.prepareStatement("INSERT INTO notes VALUES (?, ?)")
        for number in range(850, 853):
            insert.setLong(1, number)
            insert.setString(2, "never")
            insert.addBatch()
        assert list(insert.executeBatch()) == [1, 1, 1]
        client.rollback()
        plain = client.createStatement()
        plain.executeUpdate("INSERT INTO notes VALUES (850, 'kept')")
        before = client.setSavepoint("before")
        plain.executeUpdate("UPDATE notes SET body = 'undone' WHERE id = 850")
        client.rollback(before)
        client.commit()
        assert _bodies(ann, 850, 859) == [(850, "kept")]
        plain.executeUpdate("UPDATE notes SET body = 'mine' WHERE id = 850")
        ann.execute("UPDATE notes SET body = 'theirs' WHERE id = 850")
        with pytest.raises(Py4JJavaError) as lost:
            client.commit()
        assert lost.value.java_exception.getSQLState() == "40001"
        made = client.prepareStatement(
            "INSERT INTO numbered (body) VALUES ('by its key')", java.java.sql.Statement.RETURN_GENERATED_KEYS
        )
        assert made.executeUpdate() == 1
        keys = made.getGeneratedKeys()
        assert keys.next()
        assert keys.getLong("id") > 0
        client.rollback()
        client.close()
    assert _bodies(ann, 850, 859) == [(850, "theirs")]


def test_djangos_atomic_blocks(port: int) -> None:
    program = [sys.executable, "-m", "tests.serve.postgres.django_orm", str(port), PASSWORD]
    ran = subprocess.run(program, capture_output=True, text=True, check=False, timeout=120)
    assert (ran.returncode, ran.stderr) == (0, "")
