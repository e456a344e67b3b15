"""A state that came from a backup, and data whose columns are younger: refused with the way out, and repaired."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from lakewarden import Lakehouse
from lakewarden.errors import ConstraintViolation, Corrupt, Unsupported
from lakewarden.maintenance.repair.report import RepairReport

pytestmark = pytest.mark.disk

KINDS = {
    "user": "CREATE TABLE n.t (id BIGINT PRIMARY KEY, a INT, b TEXT) WITH (TYPE = 'USER')",
    "keyed": "CREATE SHARED TABLE n.t (id BIGINT PRIMARY KEY, a INT, b TEXT)",
    "keyless": "CREATE SHARED TABLE n.t (id BIGINT, a INT, b TEXT, p TEXT DEFAULT 'p') PARTITION BY (p)",
    "images": "CREATE DYNAMIC TABLE n.t (id BIGINT, a INT, b TEXT, PRIMARY KEY (id)) WITH ('log.changelog-mode' = 'all')",
}

SINCE = {
    "added": (["ADD COLUMN x JSON"], "x JSON came back"),
    "added NOT NULL": (["ADD COLUMN x INT NOT NULL DEFAULT 7"], "x INT came back"),
    "added twice": (["ADD COLUMN x UUID", "ADD COLUMN y DECIMAL(9,2) DEFAULT 1.5"], "x UUID came back, y DECIMAL(9,2) came back"),
    "dropped": (["DROP COLUMN b"], "b is dropped"),
    "renamed": (["RENAME COLUMN b TO c"], "b is c"),
    "the key renamed": (["RENAME COLUMN id TO key"], "id is key"),
    "swapped": (["RENAME COLUMN a TO c", "RENAME COLUMN b TO a", "RENAME COLUMN c TO b"], "a is b, b is a"),
    "wider": (["MODIFY COLUMN a BIGINT"], "a is BIGINT"),
    "again": (["DROP COLUMN b", "ADD COLUMN b INT"], "b INT came back, b is dropped"),
}


class Place:
    """A warehouse whose state goes back to its backup."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def lake(self) -> Lakehouse:
        return Lakehouse.open(str(self.root / "w"))

    def keep(self) -> None:
        shutil.copytree(self.root / "w" / "_lakewarden", self.root / "backup")

    def put_back(self) -> None:
        shutil.rmtree(self.root / "w" / "_lakewarden")
        shutil.copytree(self.root / "backup", self.root / "w" / "_lakewarden")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def rows(lake: Lakehouse, user: str = "ann") -> list[dict[str, object]]:
    found = lake.sql("SELECT * FROM n.t", user=user)[0].table.to_pylist()  # type: ignore[union-attr]
    return sorted(found, key=lambda row: str(row.get("id", row.get("key"))))


def said(found: Sequence[RepairReport]) -> list[str]:
    return [f"{one.outcome}: {one.reason}" for one in found if one.subject == "columns"]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "since"), [*zip(cycle(KINDS), SINCE, strict=False), *((kind, "added twice") for kind in KINDS)])
def test_columns_that_are_younger_than_the_state_come_back(place: Place, kind: str, since: str) -> None:
    alters, reason = SINCE[since]
    if kind == "keyless" and since == "the key renamed":
        alters, reason = ["RENAME COLUMN a TO key"], "a is key"
    with place.lake() as lake:
        lake.sql(f"CREATE NAMESPACE n; {KINDS[kind]}")
        lake.sql("INSERT INTO n.t (id, a, b) VALUES (1, 10, 'x'), (2, 20, NULL)", user="ann")
        lake.flush("n.t")
        place.keep()
        for each in alters:
            lake.sql(f"ALTER TABLE n.t {each}")
        key = "key" if since == "the key renamed" and kind != "keyless" else "id"
        lake.sql(f"INSERT INTO n.t ({key}) VALUES (3)", user="ann")
        lake.flush("n.t")
        expected, columns = rows(lake), [(each.id, each.name, str(each.type)) for each in lake.tables()[0].schemas[-1].columns]
    place.put_back()
    with place.lake() as lake:
        with pytest.raises(Corrupt, match="repair --restored"):
            rows(lake)
        findings = [one for one in lake.check() if one.check == "readable" and not one.passed]
        assert [one.code for one in findings] == ["CORRUPT"]
        assert said(lake.repair("n.t", restored=True, dry_run=True)) == [
            f"planned: the columns of the data are younger than the state: {reason}"
        ]
        with pytest.raises(Corrupt):
            rows(lake)
        found = lake.repair("n.t", restored=True)
        assert said(found) == [f"done: the columns of the data are younger than the state: {reason}"]
        assert not [one for one in found if one.outcome == "failed"]
        assert rows(lake) == expected
        assert [(each.id, each.name, str(each.type)) for each in lake.tables()[0].schemas[-1].columns] == columns
        assert said(lake.repair("n.t", restored=True)) == []
        lake.sql(f"INSERT INTO n.t ({key}) VALUES (4)", user="ann")
        lake.flush("n.t")
        assert len(rows(lake)) == 4
        assert all(one.passed for one in lake.check())


@pytest.mark.slow
def test_not_null_and_defaults_come_back_where_delta_says_them(place: Place) -> None:
    with place.lake() as lake:
        lake.sql(f"CREATE NAMESPACE n; {KINDS['user']}")
        for user in ("ann", "bob"):
            lake.sql("INSERT INTO n.t (id) VALUES (1)", user=user)
        lake.flush("n.t")
        place.keep()
        lake.sql("ALTER TABLE n.t ADD COLUMN x INT NOT NULL DEFAULT 7; ALTER TABLE n.t ADD COLUMN y TEXT DEFAULT 'y'")
        lake.sql("INSERT INTO n.t (id, x) VALUES (2, 8)", user="ann")
        lake.flush("n.t")
    place.put_back()
    with place.lake() as lake:
        lake.repair(restored=True)
        assert [(row["id"], row["x"], row["y"]) for row in rows(lake)] == [(1, 7, None), (2, 8, "y")]
        assert [(row["id"], row["x"], row["y"]) for row in rows(lake, "bob")] == [(1, 7, None)], "who wrote nothing since"
        lake.table("n.t").write([{"id": 3}], user="bob")
        assert [(row["x"], row["y"]) for row in rows(lake, "bob")] == [(7, None), (7, "y")]
        with pytest.raises(ConstraintViolation):
            lake.table("n.t").write([{"id": 4, "x": None}], user="bob")


@pytest.mark.slow
def test_scopes_of_several_versions_come_back_each(place: Place) -> None:
    with place.lake() as lake:
        lake.sql(f"CREATE NAMESPACE n; {KINDS['user']}")
        for user in ("ann", "bob", "eve"):
            lake.sql("INSERT INTO n.t VALUES (1, 10, 'x')", user=user)
        lake.flush("n.t")
        place.keep()
        lake.sql("ALTER TABLE n.t ADD COLUMN x INT")
        lake.sql("INSERT INTO n.t VALUES (2, 20, 'y', 5)", user="bob")
        lake.flush("n.t")
        lake.sql("ALTER TABLE n.t RENAME COLUMN x TO y; ALTER TABLE n.t DROP COLUMN b")
        lake.sql("INSERT INTO n.t VALUES (2, 20, 6)", user="ann")
        lake.flush("n.t")
        expected = [rows(lake, user) for user in ("ann", "bob", "eve")]
    place.put_back()
    with place.lake() as lake:
        lake.repair(restored=True)
        assert [rows(lake, user) for user in ("ann", "bob", "eve")] == expected
        lake.sql("ALTER TABLE n.t ADD COLUMN z INT")
        assert lake.tables()[0].schemas[-1].columns[-1].id == 5, "no id is given out again"


def test_columns_of_another_writer_are_still_refused(place: Place) -> None:
    with place.lake() as lake:
        lake.sql(f"CREATE NAMESPACE n; {KINDS['keyed']}; INSERT INTO n.t VALUES (1, 10, 'x')")
        lake.flush("n.t")
        DeltaTable(str(place.root / "w" / "data" / "n" / "t")).alter.add_columns([Field("strange", PrimitiveType("string"))])
        with pytest.raises(Unsupported, match="another writer"):
            rows(lake)
        assert said(lake.repair(restored=True)) == []
