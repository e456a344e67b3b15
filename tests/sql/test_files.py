"""FILE('name') in INSERT: stored with its row, or not at all; and the same files through a session's gate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakewarden import Lakehouse, Upload
from lakewarden.base.setting_sections import FilesSettings
from lakewarden.base.settings import Settings
from lakewarden.errors import InvalidArgument, LakewardenError, PermissionDenied, Unsupported

pytestmark = pytest.mark.disk  # they look into the directories themselves

_TABLES = """
CREATE NAMESPACE app;
CREATE USER TABLE app.t (id INT PRIMARY KEY, note TEXT NOT NULL, photo FILE);
CREATE SHARED TABLE app.open (id INT PRIMARY KEY, photo FILE) WITH (ACCESS_LEVEL = PUBLIC);
CREATE SHARED TABLE app.shut (id INT PRIMARY KEY, photo FILE)
"""


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    files = FilesSettings(max_bytes=100, allowed_mime=("image/*", "application/octet-stream"), max_per_request=2)
    with Lakehouse.open(warehouse_uri, settings=Settings(files=files)) as opened:
        opened.sql(_TABLES)
        yield opened


def _stored(lake: Lakehouse) -> list[Path]:
    return [path for path in Path(lake.warehouse.uri).rglob("*") if "_files" in path.parts and path.is_file()]


def test_a_file_comes_along_by_name(lake: Lakehouse, tmp_path: Path) -> None:
    path = tmp_path / "cat.png"
    path.write_bytes(b"path")
    text = "INSERT INTO app.t VALUES (1, 'n', FILE(\"one\")), (2, 'n', FILE('two')), (3, 'n', NULL)"
    lake.sql(text, user="ada", files={"one": path, "two": Upload("dog.jpg", b"upload")})
    session = lake.session(user="ada")
    assert session.table("app.t").get_file({"id": 1}, "photo") == b"path"
    assert [(found.key, found.ref.name) for found in session.table("app.t").files()] == [
        ({"id": 1}, "cat.png"),
        ({"id": 2}, "dog.jpg"),
    ]


def test_on_conflict_replaces_or_leaves_nothing(lake: Lakehouse) -> None:
    insert = "INSERT INTO app.t VALUES (1, 'n', FILE('f')) ON CONFLICT"
    for data, action, kept in (
        (b"1", "DO NOTHING", b"1"),
        (b"2", "DO UPDATE SET photo = excluded.photo", b"2"),
        (b"3", "DO NOTHING", b"2"),
        (b"4", "DO UPDATE SET note = 'other'", b"2"),
    ):
        lake.sql(f"{insert} {action}", user="ada", files={"f": data})
        assert lake.table("app.t").get_file({"id": 1}, "photo", user="ada") == kept
        assert len(_stored(lake)) == 1


_FAILING: list[tuple[str, str, dict[str, Any], str]] = [
    ("INSERT INTO app.t VALUES (1, NULL, FILE('f'))", "user", {"f": b"x"}, "CONSTRAINT_VIOLATION"),
    ("INSERT INTO app.t VALUES (0, 'n', FILE('f'))", "user", {"f": b"x"}, "CONSTRAINT_VIOLATION"),
    ("INSERT INTO app.t VALUES (1, 'n', FILE('f')), (1, 'n', NULL)", "user", {"f": b"x"}, "CONSTRAINT_VIOLATION"),
    ("INSERT INTO app.t VALUES (1, FILE('f'), NULL)", "user", {"f": b"x"}, "INVALID_ARGUMENT"),
    ("INSERT INTO app.t VALUES (1, 'n', FILE('g'))", "user", {"f": b"x"}, "INVALID_ARGUMENT"),
    ("INSERT INTO app.t VALUES (1, 'n', NULL)", "user", {"f": b"x"}, "INVALID_ARGUMENT"),
    ("INSERT INTO app.t VALUES (1, 'n', FILE('f')), (2, 'n', FILE('f'))", "user", {"f": b"x"}, "INVALID_ARGUMENT"),
    ("INSERT INTO app.t VALUES (1, 'n', FILE('f'))", "user", {"f": b"x" * 101}, "INVALID_ARGUMENT"),
    ("INSERT INTO app.t VALUES (1, 'n', FILE('f'))", "user", {"f": Upload("a.exe", b"", "text/html")}, "INVALID_ARGUMENT"),
    ("INSERT INTO app.t VALUES (1, 'n', FILE('f'))", "user", {"f": Path("none.png")}, "INVALID_ARGUMENT"),
    ("INSERT INTO app.t VALUES (1, 'n', FILE('f'))", "user", {"f": "none.png"}, "INVALID_ARGUMENT"),
    ("INSERT INTO app.t VALUES (1, 'n', FILE('f'))", "user", dict.fromkeys("fgh", b""), "INVALID_ARGUMENT"),
    ("INSERT INTO app.t VALUES (1, 'n', FILE())", "user", {"f": b"x"}, "SYNTAX_ERROR"),
    ("INSERT INTO app.t VALUES (1, 'n', FILE(1 + 1))", "user", {"f": b"x"}, "SYNTAX_ERROR"),
    ("SELECT FILE('f')", "user", {"f": b"x"}, "INVALID_ARGUMENT"),
    ("INSERT INTO app.t VALUES (1, 'n', FILE('f'))", "anonymous", {"f": b"x"}, "PERMISSION_DENIED"),
    ("INSERT INTO app.open VALUES (1, FILE('f'))", "user", {"f": b"x"}, "PERMISSION_DENIED"),
    ("INSERT INTO app.t VALUES (1, 'n', FILE('f')); SELECT * FROM app.shut", "user", {"f": b"x"}, "PERMISSION_DENIED"),
    ("EXECUTE AS USER 'bob' (INSERT INTO app.t VALUES (1, 'n', FILE('f')))", "user", {"f": b"x"}, "PERMISSION_DENIED"),
]


def test_a_failed_insert_leaves_nothing(lake: Lakehouse) -> None:
    lake.sql("INSERT INTO app.t VALUES (0, 'n', NULL)", user="ada")
    for text, role, files, code in _FAILING:
        with pytest.raises(LakewardenError) as refused:
            lake.sql(text, user="ada", role=role, files=files)
        assert refused.value.code == code, text
        assert _stored(lake) == [], text
    assert lake.table("app.t").read(user="ada").num_rows == 1


def test_rights_are_the_gates(lake: Lakehouse) -> None:
    """A USER table's files are the owner's, and theirs who may take the owner's place; a SHARED one's follow its rows."""
    lake.table("app.t").put_file({"id": 1, "note": "n"}, "photo", b"x", name="a.png", user="ada")
    for name in ("app.open", "app.shut"):
        lake.table(name).put_file({"id": 1}, "photo", b"x", name="a.png")
    one = ({"id": 1}, "photo")
    for role in ("dba", "user"):
        with pytest.raises(LakewardenError):
            lake.session(user="bob", role=role).table("app.t").get_file(*one)
    assert lake.session(user="bob", role="service").execute_as("ada").table("app.t").get_file(*one) == b"x"
    with pytest.raises(PermissionDenied):
        lake.session(user="bob", role="user").execute_as("ada")
    for role in ("anonymous", "user"):
        session = lake.session(user="bob", role=role)
        assert session.table("app.open").get_file(*one) == b"x"
        with pytest.raises(PermissionDenied):
            session.table("app.open").delete_file(*one)
        with pytest.raises(PermissionDenied):
            session.table("app.open").put_file({"id": 2}, "photo", b"", name="a.png")
        with pytest.raises(PermissionDenied):
            session.table("app.shut").files()
    assert lake.session(user="bob", role="service").table("app.shut").get_file(*one) == b"x"
    with pytest.raises(Unsupported):
        lake.session(user="bob", role="service").execute_as("ada").table("app.open").get_file(*one)
    with pytest.raises(InvalidArgument, match="FILE"):
        lake.session(user="ada").table("app.t").get_file({"id": 1}, "note")
