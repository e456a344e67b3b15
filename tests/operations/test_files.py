"""FILE columns: stored beside the scope, replaced and removed with their rows, and nothing left by what failed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.catalog.evolution import AddColumn
from lakewarden.errors import ConstraintViolation, Corrupt, InvalidArgument, NotFound, Unsupported
from lakewarden.operations.files import FileRef
from lakewarden.settings import FilesSettings, Settings
from lakewarden.table import TableClient

pytestmark = pytest.mark.disk  # they look into the directories themselves

_NAME = "chat.photos"


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    files = FilesSettings(max_bytes=100, max_per_folder=2, allowed_mime=("image/*", "text/plain"))
    with Lakehouse.open(warehouse_uri, settings=Settings(files=files)) as opened:
        opened.create_namespace("chat")
        columns = [Column("id", "BIGINT"), Column("note", "TEXT", nullable=False), Column("photo", "FILE")]
        opened.create_table(_NAME, type="USER", columns=columns, primary_key=["id"])
        yield opened


@pytest.fixture
def photos(lake: Lakehouse) -> TableClient:
    return lake.table(_NAME)


def _stored(lake: Lakehouse, user: str = "u") -> list[str]:
    root = Path(lake.warehouse.uri) / "data" / "chat" / "photos" / user / "_files"
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def _put(photos: TableClient, id_: int, data: bytes = b"pixels", name: str = "My Cat.PNG", user: str = "u") -> FileRef:
    return photos.put_file({"id": id_, "note": "n"}, "photo", data, name=name, user=user)


def test_a_file_lies_beside_its_scope_and_comes_back(lake: Lakehouse, photos: TableClient) -> None:
    ref = _put(photos, 1)
    assert _stored(lake) == [f"f0001/{ref.id}-my-cat.png"]
    assert (ref.name, ref.size, ref.mime) == ("My Cat.PNG", 6, "image/png")
    assert photos.get_file({"id": 1}, "photo", user="u") == b"pixels"
    lake.flush(_NAME)
    lake.vacuum(_NAME, retain_hours=0, force=True, dry_run=False)
    assert photos.get_file({"id": 1}, "photo", user="u") == b"pixels"
    (row,) = photos.read(user="u").to_pylist()
    assert json.loads(row["photo"])["sha256"] == ref.sha256
    with pytest.raises(NotFound):
        photos.get_file({"id": 1}, "photo", user="v")


def test_what_is_replaced_or_deleted_takes_its_file_along(lake: Lakehouse, photos: TableClient) -> None:
    _put(photos, 1)
    second = _put(photos, 1, b"other", "x.txt")
    assert _stored(lake) == [f"f0001/{second.id}-x.txt"]
    assert photos.get_file({"id": 1}, "photo", user="u") == b"other"
    photos.delete_file({"id": 1}, "photo", user="u")
    assert photos.read(user="u").to_pylist() == [{"id": 1, "note": "n", "photo": None}]
    _put(photos, 2)
    photos.delete([{"id": 2}], user="u")
    assert _stored(lake) == []
    with pytest.raises(NotFound):
        photos.delete_file({"id": 2}, "photo", user="u")


def test_a_refused_row_leaves_no_file(lake: Lakehouse, photos: TableClient) -> None:
    kept = _put(photos, 1)
    with pytest.raises(ConstraintViolation):
        photos.put_file({"id": 2, "note": None}, "photo", b"x", name="a.png", user="u")
    with pytest.raises(ConstraintViolation):
        photos.put_file({"id": 1, "note": "n"}, "photo", b"x", name="a.png", user="u", mode="insert")
    with pytest.raises(InvalidArgument):
        photos.put_file({"id": 2, "nope": 1}, "photo", b"x", name="a.png", user="u")
    assert _stored(lake) == [f"f0001/{kept.id}-my-cat.png"]
    assert photos.get_file({"id": 1}, "photo", user="u") == b"pixels"


@pytest.mark.parametrize(
    ("data", "name", "mime", "says"),
    [(b"x" * 101, "a.png", None, "100 are allowed"), (b"x", "a.exe", None, "type"), (b"x", "a.png", "image/../x", "type")],
)
def test_limits(lake: Lakehouse, photos: TableClient, data: bytes, name: str, mime: str | None, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        photos.put_file({"id": 1, "note": "n"}, "photo", data, name=name, mime=mime, user="u")
    assert _stored(lake) == []
    assert photos.read(user="u").num_rows == 0


def test_folders_fill_up_one_after_another(lake: Lakehouse, photos: TableClient) -> None:
    for id_ in range(5):
        _put(photos, id_)
    assert [path.split("/")[0] for path in _stored(lake)] == ["f0001", "f0001", "f0002", "f0002", "f0003"]


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("über.png", ".png"),
        ("../../etc/passwd", "-passwd.bin"),
        ("a b__C.TXT", "-a-b-c.txt"),
        ("x" * 90, "-" + "x" * 50 + ".bin"),
    ],
)
def test_names_become_safe(lake: Lakehouse, photos: TableClient, name: str, stored: str) -> None:
    ref = photos.put_file({"id": 1, "note": "n"}, "photo", b"x", name=name, mime="text/plain", user="u")
    (path,) = _stored(lake)
    assert path == f"f0001/{ref.id}{stored}"
    assert photos.get_file({"id": 1}, "photo", user="u") == b"x"


def test_a_changed_file_is_noticed(lake: Lakehouse, photos: TableClient) -> None:
    _put(photos, 1)
    (path,) = _stored(lake)
    (Path(lake.warehouse.uri) / "data/chat/photos/u/_files" / path).write_bytes(b"PIXELS")
    with pytest.raises(Corrupt, match="checksum"):
        photos.get_file({"id": 1}, "photo", user="u")


def test_a_forged_reference_leads_nowhere(photos: TableClient) -> None:
    forged = {"id": "1", "sub": "../../v/_files/f0001", "name": "a.png", "size": 1, "mime": "image/png", "sha256": ""}
    photos.write([{"id": 1, "note": "n", "photo": json.dumps(forged)}], user="u")
    with pytest.raises(Corrupt):
        photos.get_file({"id": 1}, "photo", user="u")


@pytest.mark.parametrize("flushed", [True, False])
def test_dropping_the_table_takes_the_files(lake: Lakehouse, photos: TableClient, flushed: bool) -> None:
    _put(photos, 1)
    if flushed:
        lake.flush(_NAME)
    lake.drop_table(_NAME)
    assert _stored(lake) == []


def test_streams_have_no_files(lake: Lakehouse) -> None:
    with pytest.raises(Unsupported, match="FILE"):
        lake.create_table("chat.s", type="STREAM", columns=[Column("f", "FILE")], options={"TTL_SECONDS": "5"})
    lake.create_table("chat.s", type="STREAM", columns=[Column("i", "INT")], options={"TTL_SECONDS": "5"})
    with pytest.raises(Unsupported, match="FILE"):
        lake.alter_table("chat.s", AddColumn(Column("f", "FILE")))
