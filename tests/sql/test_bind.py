"""A statement is bound once: one look at the catalog, one question to the gate for each act, and then it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from lakewarden import Lakehouse
from lakewarden.catalog.access import Act, GuardedTable
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.session_gate import Door
from lakewarden.catalog.store import CatalogStore
from lakewarden.errors import NotFound, PermissionDenied
from lakewarden.sql.results import AffectedRows, Events, Result, ResultRows

_TABLES = """
    CREATE NAMESPACE app;
    CREATE USER TABLE app.t (id BIGINT PRIMARY KEY, v TEXT);
    CREATE USER TABLE app.other (id BIGINT PRIMARY KEY, v TEXT);
    CREATE VIEW app.seen AS SELECT t.v FROM t JOIN other USING (id);
    INSERT INTO app.t VALUES (1, 'mine');
    INSERT INTO app.other VALUES (1, 'too')
"""


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql(_TABLES, user="u", role="dba")
        yield lake


class Questions:
    """Counts what the gate is asked, and looks at the catalog."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.acts: Counter[str] = Counter()
        self.looks = 0
        allow, read = Door.allow, CatalogStore.read

        def counted(door: Door, act: Act, table: GuardedTable | None = None) -> None:
            self.acts[f"{act} {table.name}" if table else act] += 1
            allow(door, act, table)

        def looked(store: CatalogStore) -> Catalog:
            self.looks += 1
            return read(store)

        patch.setattr(Door, "allow", counted)
        patch.setattr(CatalogStore, "read", looked)


@pytest.mark.parametrize(
    ("text", "acts"),
    [
        ("SELECT 1", []),
        ("SELECT * FROM app.t", ["read app.t"]),
        ("SELECT * FROM app.seen", ["read app.t", "read app.other"]),
        ("EXPLAIN SELECT * FROM app.t", ["read app.t"]),
        ("INSERT INTO app.t VALUES (2, 'x')", ["write app.t"]),
        ("INSERT INTO app.t VALUES (1, 'x') ON CONFLICT DO UPDATE SET v = excluded.v", ["write app.t", "read app.t"]),
        ("UPDATE app.t SET v = (SELECT max(v) FROM app.other) WHERE id = 1", ["write app.t", "read app.t", "read app.other"]),
        ("DELETE FROM app.t WHERE id IN (SELECT id FROM app.other)", ["write app.t", "read app.t", "read app.other"]),
    ],
)
def test_the_gate_is_asked_once_for_each_act(
    lake: Lakehouse, monkeypatch: pytest.MonkeyPatch, text: str, acts: list[str]
) -> None:
    session = lake.session(user="u")
    asked = Questions(monkeypatch)
    session.sql(text)
    assert asked.acts == Counter(acts)


def test_a_query_looks_at_the_catalog_once(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    session = lake.session(user="u")
    asked = Questions(monkeypatch)
    session.sql("SELECT 1")
    assert asked.looks == 1


def test_a_statement_sees_what_those_before_it_made(lake: Lakehouse) -> None:
    results = lake.sql(
        """
        CREATE NAMESPACE made; USE made;
        CREATE USER TABLE n (id BIGINT PRIMARY KEY, v TEXT);
        INSERT INTO n VALUES (1, 'new');
        CREATE VIEW w AS SELECT v FROM n;
        SELECT v FROM w;
        CREATE OR REPLACE VIEW w AS SELECT v || '!' AS v FROM made.n;
        SELECT v FROM w;
        DROP TABLE n;
        CREATE SHARED TABLE n (id BIGINT PRIMARY KEY) WITH (ACCESS_LEVEL = PUBLIC);
        INSERT INTO n VALUES (7);
        SELECT id FROM n
        """
    )
    assert [one.to_pylist() for one in results if isinstance(one, ResultRows)] == [[{"v": "new"}], [{"v": "new!"}], [{"id": 7}]]


def test_what_is_not_there_is_said_when_its_turn_comes(lake: Lakehouse) -> None:
    session = lake.session(user="u")
    done: list[Result] = []
    with pytest.raises(NotFound, match=r"there is no table app\.nothing"):
        session.sql("INSERT INTO app.t VALUES (3, 'x'); SELECT * FROM app.nothing", each=done.append)
    assert done == [AffectedRows(1)]


def test_a_statement_that_may_not_be_refuses_all_of_its_text(lake: Lakehouse) -> None:
    session = lake.session(user="u")
    done: list[Result] = []
    for refused in ("SELECT * FROM system.users", "DROP NAMESPACE app", "SELECT getenv('HOME')"):
        with pytest.raises(PermissionDenied):
            session.sql(f"INSERT INTO app.t VALUES (3, 'x'); {refused}", each=done.append)
    assert done == []


def test_rights_that_change_while_a_subscription_runs_count(lake: Lakehouse) -> None:
    """It is bound anew for each look."""
    lake.sql("CREATE SHARED TABLE app.s (id BIGINT PRIMARY KEY) WITH (ACCESS_LEVEL = PUBLIC); INSERT INTO app.s VALUES (1)")
    with lake.subscribe("SELECT id FROM app.s", user="u", role="user") as subscription:
        subscription.poll()
        lake.sql("ALTER TABLE app.s SET TBLPROPERTIES (ACCESS_LEVEL = 'PRIVATE'); INSERT INTO app.s VALUES (2)")
        with pytest.raises(PermissionDenied):
            subscription.poll()


def test_a_place_that_is_taken_is_noted_once_and_only_when_it_is(lake: Lakehouse) -> None:
    lake.sql("EXECUTE AS USER 'u' (SELECT 1); EXECUTE AS USER 'u' (SELECT v FROM app.t)", role="dba")
    with pytest.raises(PermissionDenied):
        lake.sql("EXECUTE AS USER 'u' (SELECT 1); SELECT getenv('HOME')", role="dba")
    found = lake.sql("SELECT action FROM system.audit_log WHERE action LIKE 'EXECUTE%'")[0]
    assert isinstance(found, ResultRows)
    assert found.to_pylist() == [{"action": "EXECUTE_AS_USER"}] * 2


def test_subscribing_in_another_place_shows_that_users_rows(lake: Lakehouse) -> None:
    found = lake.sql("EXECUTE AS USER 'u' (SUBSCRIBE TO SELECT v FROM app.t)", role="dba")[0]
    assert isinstance(found, Events)
