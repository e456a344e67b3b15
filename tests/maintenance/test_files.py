"""FILE columns: stored beside the scope, replaced and removed with their rows, and nothing left by what failed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.setting_sections import FilesSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.evolution import AddColumn
from lakewarden.errors import ConstraintViolation, Corrupt, InvalidArgument, NotFound, Unsupported
from lakewarden.ingest.record_fit import Fit
from lakewarden.ingest.record_formats import decoder
from lakewarden.log.objects.writer import LogWriter
from lakewarden.spark.connection import SparkConnection
from lakewarden.spark.options import WriteOptions
from lakewarden.spark.staged_write import StagedWrite
from lakewarden.storage.kafka_topics import TopicMessage
from lakewarden.tables.client import TableClient
from lakewarden.tables.client.reader import TableReader
from lakewarden.tables.rows.files import FileRef, Upload

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


def test_whoever_replaces_or_deletes_the_row_removes_its_file(lake: Lakehouse, photos: TableClient) -> None:
    for id_ in range(4):
        _put(photos, id_)
    lake.sql(f"UPDATE {_NAME} SET photo = NULL WHERE id = 0; DELETE FROM {_NAME} WHERE id = 1", user="u")
    lake.sql(f"INSERT INTO {_NAME} VALUES (2, 'new', NULL) ON CONFLICT DO UPDATE SET note = excluded.note", user="u")
    assert len(_stored(lake)) == 2
    assert photos.get_file({"id": 2}, "photo", user="u") == b"pixels"


@pytest.mark.parametrize("flushed", [False, True])
def test_a_copied_row_shares_the_file_which_goes_with_the_last_of_them(
    lake: Lakehouse, photos: TableClient, flushed: bool
) -> None:
    lake.alter_table(_NAME, AddColumn(Column("other", "FILE")))
    photos = lake.table(_NAME)
    ref = _put(photos, 1)
    lake.sql(f"INSERT INTO {_NAME} (id, note, photo) SELECT id + 1, note, photo FROM {_NAME}", user="u")
    lake.sql(f"INSERT INTO {_NAME} (id, note, other) SELECT id + 2, note, photo FROM {_NAME} WHERE id = 1", user="u")
    if flushed:
        lake.flush(_NAME)
    lake.sql(f"DELETE FROM {_NAME} WHERE id = 2", user="u")
    assert photos.get_file({"id": 1}, "photo", user="u") == b"pixels"
    photos.delete_file({"id": 1}, "photo", user="u")
    assert photos.get_file({"id": 3}, "other", user="u") == b"pixels"
    photos.delete([{"id": 1}], user="u")
    assert _stored(lake) == [f"f0001/{ref.id}-my-cat.png"]
    photos.delete([{"id": 3}], user="u")
    assert _stored(lake) == []


def test_rows_that_share_a_file_and_go_at_once_take_it_along(lake: Lakehouse, photos: TableClient) -> None:
    _put(photos, 1)
    lake.sql(f"INSERT INTO {_NAME} SELECT id + 1, note, photo FROM {_NAME}; DELETE FROM {_NAME} WHERE true", user="u")
    assert _stored(lake) == []


def test_a_merge_keeps_what_it_does_not_name(photos: TableClient) -> None:
    photos.put_file({"id": 1, "note": "first"}, "photo", b"a", name="a.png", user="u", mode="merge")
    ref = photos.put_file({"id": 1}, "photo", b"b", name="b.png", user="u", mode="merge")
    assert photos.read(user="u").to_pylist() == [{"id": 1, "note": "first", "photo": ref.text}]
    with pytest.raises(ConstraintViolation, match="note"):
        photos.put_file({"id": 2}, "photo", b"b", name="b.png", user="u", mode="merge")


def test_what_others_write_meanwhile_is_not_undone(photos: TableClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another's write comes between the read and the write of each change of a file."""
    ref = _put(photos, 1)
    found = TableReader.row_of
    theirs = iter(["one", "two"])

    def interrupted(self: TableReader, live: pa.Table, row: pa.Table) -> pa.Table:
        if (note := next(theirs, None)) is not None:
            photos.write([{"id": 1, "note": note, "photo": None if note == "three" else ref.text}], user="u")
        return found(self, live, row)

    monkeypatch.setattr(TableReader, "row_of", interrupted)
    photos.delete_file({"id": 1}, "photo", user="u")
    assert photos.read(user="u").to_pylist() == [{"id": 1, "note": "two", "photo": None}]
    theirs = iter(["three"])
    photos.put_file({"id": 1}, "photo", b"new", name="n.png", user="u", mode="merge")
    assert photos.read(user="u").column("note").to_pylist() == ["three"]


def test_racing_changes_leave_just_the_files_that_rows_refer_to(lake: Lakehouse, photos: TableClient) -> None:
    def change(seed: int) -> None:
        mine = lake.table(_NAME)
        for number in range(4):
            _put(mine, number % 2, bytes([seed, number]))
            if number == seed:
                mine.delete([{"id": number % 2}], user="u")

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(change, range(3)))
    assert sorted(ref.ref.path for ref in photos.files(user="u")) == [f"_files/{path}" for path in _stored(lake)]


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


@pytest.mark.parametrize(
    ("id_", "sub"),
    [
        ("1", "../../v/_files/f0001"),
        ("../../../v/_files/f0001/{id}", "f0001"),
        ("/{id}", "f0001"),
        ("", "f0001"),
        ("\u0661", "f0001"),
        (1, "f0001"),
    ],
)
def test_a_forged_reference_leads_nowhere(photos: TableClient, monkeypatch: pytest.MonkeyPatch, id_: object, sub: str) -> None:
    real = _put(photos, 1, user="v")
    forged = {**json.loads(real.text), "id": id_.format(id=real.id) if isinstance(id_, str) else id_, "sub": sub}
    _write_unchecked(monkeypatch, photos, [{"id": 1, "note": "n", "photo": json.dumps(forged)}])
    with pytest.raises(NotFound):
        photos.get_file({"id": 1}, "photo", user="u")
    photos.delete([{"id": 1}], user="u")
    assert photos.get_file({"id": 1}, "photo", user="v") == b"pixels"


_FORGED: list[tuple[str, object]] = [
    ("size", 10**18),
    ("size", 0),
    ("size", 7),
    ("size", -1),
    ("size", 1 << 64),
    ("size", 6.0),
    ("size", True),
    ("size", "6"),
    ("sub", "../../v/_files/f0001"),
    ("sub", "f0002"),
    ("sub", "f" + "1" * 400),
    ("sub", "f\u0661\u0661\u0661\u0661"),
    ("sub", None),
    ("id", "../1"),
    ("id", "7"),
    ("id", 7),
    ("id", "9" * 400),
    ("name", "other.png"),
    ("name", 5),
    ("name", "\ud800.png"),
    ("mime", "text/html\r\nX: y"),
    ("mime", []),
    ("sha256", ""),
    ("sha256", "0" * 64),
    ("sha256", {}),
    ("more", "field"),
]
_REPLACES = "ON CONFLICT (id) DO UPDATE SET photo = excluded.photo"
_REFERENCE_ERRORS = (ConstraintViolation, InvalidArgument)


@pytest.mark.slow
@pytest.mark.parametrize("door", ["write", "arrow", "insert", "select", "conflict", "update"])
def test_a_forged_reference_is_refused_at_every_door(lake: Lakehouse, photos: TableClient, door: str) -> None:
    ref = _put(photos, 1)
    for field, value in _FORGED:
        _refused(lake, photos, door, json.dumps({**json.loads(ref.text), field: value}))
    assert photos.read(user="u").to_pylist() == [{"id": 1, "note": "n", "photo": ref.text}]
    assert photos.get_file({"id": 1}, "photo", user="u") == b"pixels"


def _refused(lake: Lakehouse, photos: TableClient, door: str, text: str) -> None:
    quoted = text.replace("'", "''")
    writes: dict[str, Callable[[], object]] = {
        "write": lambda: photos.write([{"id": 2, "note": "n", "photo": text}], user="u"),
        "arrow": lambda: photos.write(pa.table({"id": [2], "note": ["n"], "photo": [text]}), user="u"),
        "insert": lambda: lake.sql(f"INSERT INTO {_NAME} VALUES (2, 'n', '{quoted}')", user="u"),
        "select": lambda: lake.sql(f"INSERT INTO {_NAME} SELECT 2, note, '{quoted}' FROM {_NAME}", user="u"),
        "conflict": lambda: lake.sql(f"INSERT INTO {_NAME} VALUES (1, 'n', '{quoted}') {_REPLACES}", user="u"),
        "update": lambda: lake.sql(f"UPDATE {_NAME} SET photo = '{quoted}' WHERE id = 1", user="u"),
    }
    with pytest.raises(_REFERENCE_ERRORS):
        writes[door]()


def test_a_reference_of_another_scope_is_refused(photos: TableClient) -> None:
    ref = _put(photos, 1, user="v")
    for text in (ref.text, "7", "{", "[]", "{}", "null", "[" * 100_000, '{"size": ' + "9" * 5000 + "}"):
        with pytest.raises(_REFERENCE_ERRORS):
            photos.write([{"id": 1, "note": "n", "photo": text}], user="u")
    rows = [{"id": 3, "note": "n", "photo": ref.text, "who": user} for user in ("v", "u")]
    with pytest.raises(ConstraintViolation, match=r"chat\.photos"):
        photos.write(rows, user_column="who")
    photos.write(rows[:1], user_column="who")
    assert photos.get_file({"id": 3}, "photo", user="v") == b"pixels"
    assert photos.read(user="u").num_rows == 0


def test_a_reference_in_another_spelling_shares_the_file(photos: TableClient) -> None:
    ref = _put(photos, 1)
    fields = dict(reversed({**json.loads(ref.text), "mime": "image/x-other"}.items()))
    photos.write([{"id": 2, "note": "n", "photo": json.dumps(fields, indent=2)}], user="u")
    photos.delete([{"id": 1}], user="u")
    assert photos.get_file({"id": 2}, "photo", user="u") == b"pixels"


def test_a_change_of_other_columns_reads_no_file(lake: Lakehouse, photos: TableClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its references are those of live rows."""
    ref = _put(photos, 1)
    looked: list[FileRef] = []
    monkeypatch.setattr("lakewarden.tables.files.check_reference", lambda _target, ref: looked.append(ref))
    lake.sql(f"UPDATE {_NAME} SET note = 'new' WHERE id = 1", user="u")
    photos.put_file({"id": 1, "note": "newer"}, "photo", b"b", name="b.png", user="u", mode="merge")
    assert looked == []
    photos.write([{"id": 2, "note": "n", "photo": ref.text}], user="u")
    assert looked == [ref]


def test_tasks_of_spark_and_messages_refuse_it_too(lake: Lakehouse, photos: TableClient) -> None:
    ref = _put(photos, 1)
    texts = [json.dumps({**json.loads(ref.text), "size": 10**18}), ref.text]
    options = WriteOptions.of({"table": _NAME, "user": "u"})
    staged = StagedWrite.begin(SparkConnection.of(lake.warehouse.uri, lake.warehouse.settings, 1), options)
    rows = [pa.record_batch({"id": [2], "note": ["n"], "photo": [text]}) for text in texts]
    with pytest.raises(ConstraintViolation, match="does not refer"):
        staged.stage(rows[:1])
    staged.publish([staged.stage(rows[1:])], None)
    assert photos.get_file({"id": 2}, "photo", user="u") == b"pixels"
    fit = Fit.of(photos, decoder("json"), "u")
    values = [json.dumps({"id": 3 + at, "note": "n", "photo": text}).encode() for at, text in enumerate(texts)]
    fitted = fit.fit([TopicMessage(at, None, value, None) for at, value in enumerate(values)])
    assert [(each.offset, "does not refer" in each.reason) for each in fitted.misfits] == [(0, True)]
    assert fitted.batch.rows.column("id").to_pylist() == [4]


def _write_unchecked(monkeypatch: pytest.MonkeyPatch, photos: TableClient, rows: list[dict[str, object]]) -> None:
    """As an earlier release took rows."""
    with monkeypatch.context() as patch:
        patch.setattr("lakewarden.tables.rows.validate._references", lambda _column, array: array)
        patch.setattr("lakewarden.tables.client.client.check_batch", lambda *_: None)
        photos.write(rows, user="u")


@pytest.mark.slow
def test_forged_references_that_are_there_lead_nowhere(photos: TableClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier release, or another writer, put them into the table."""
    ref = _put(photos, 1)
    rows = [
        {"id": 2 + number, "note": "n", "photo": json.dumps({**json.loads(ref.text), field: value})}
        for number, (field, value) in enumerate(_FORGED)
    ]
    _write_unchecked(monkeypatch, photos, rows)
    for row, (field, value) in zip(rows, _FORGED, strict=True):
        with pytest.raises(Corrupt if (field, value) == ("sha256", "0" * 64) else NotFound):
            photos.get_file({"id": row["id"]}, "photo", user="u")
        photos.delete_file({"id": row["id"]}, "photo", user="u")
    photos.delete([{"id": row["id"]} for row in rows], user="u")
    assert photos.get_file({"id": 1}, "photo", user="u") == b"pixels"


def test_a_large_file_that_becomes_shorter_while_it_is_read_ends_the_read(
    warehouse_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakewarden.tables.files.PIECE", 4)
    with Lakehouse.open(warehouse_uri) as lake:
        lake.create_namespace("chat")
        columns = [Column("id", "BIGINT"), Column("photo", "FILE")]
        photos = lake.create_table(_NAME, type="USER", columns=columns, primary_key=["id"])
        photos.put_file({"id": 1}, "photo", b"0123456789", name="a.png", user="u")
        opened = photos.open_file({"id": 1}, "photo", user="u")
        (path,) = _stored(lake)
        Path(lake.warehouse.uri, "data/chat/photos/u/_files", path).write_bytes(b"01234")
        with pytest.raises(Corrupt, match="became another"):
            list(opened.pieces())
        with pytest.raises(NotFound, match="10 bytes"):
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


def test_a_write_takes_so_many_files_and_says_which_columns_take_them(lake: Lakehouse, photos: TableClient) -> None:
    photo = Upload("a.png", b"x")
    photos.write([{"id": 1, "note": "n", "photo": photo}, {"id": 2, "note": "n", "photo": photo}], user="u")
    assert [found.key for found in photos.files(user="u")] == [{"id": 1}, {"id": 2}]
    with pytest.raises(InvalidArgument, match="21 files"):
        photos.write([{"id": id_, "note": "n", "photo": photo} for id_ in range(21)], user="u")
    with pytest.raises(InvalidArgument, match="photo"):
        photos.write([{"id": 3, "note": photo}], user="u")
    assert len(_stored(lake)) == 2


def test_what_no_row_refers_to_is_told_of_and_goes_after_a_day(
    lake: Lakehouse, photos: TableClient, warehouse_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a crash left, and what a plain write replaced; what hot rows, cold rows and tagged versions refer to stays."""
    refs = [_put(photos, id_) for id_ in range(3)]
    lake.flush(_NAME)
    photos.write([{"id": 0, "note": "plain", "photo": None}], user="u")
    lake.flush(_NAME)
    lake.tag(_NAME, "kept", user="u")
    photos.write([{"id": 1, "note": "plain", "photo": None}], user="u")
    lake.flush(_NAME)
    hot = _put(photos, 4)

    def dies(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LogWriter, "append", dies)
        with pytest.raises(KeyboardInterrupt):
            _put(photos, 5, name="secret.png")
    assert len(_stored(lake)) == 5
    lake.vacuum(retain_hours=0, force=True, dry_run=False)
    assert len(_stored(lake)) == 5
    with Lakehouse.open(warehouse_uri, clock=lambda: datetime.now(UTC) + timedelta(hours=25)) as later:
        (told,) = [found.message for found in later.check() if found.check == "orphans"]
        assert told.startswith("3 files of 18 B that no row refers to")
        (planned,) = later.vacuum(retain_hours=0, force=True)
        gone = [file for file in planned.files if "_files" in file]
        assert len(gone) == 2
        assert not any("secret" in file or "cat" in file for file in gone)
        (report,) = later.vacuum(retain_hours=0, force=True, dry_run=False)
        assert (report.metrics["stray_files_deleted"], report.files) == (2, planned.files)
    assert _stored(lake) == sorted(ref.path.removeprefix("_files/") for ref in (refs[1], refs[2], hot))


def test_an_export_takes_files_along_and_an_import_brings_them(lake: Lakehouse, photos: TableClient, tmp_path: Path) -> None:
    ref = _put(photos, 1)
    lake.export("u", str(tmp_path / "out"))
    for _ in range(2):
        assert lake.import_user(str(tmp_path / "out"), "v") == {_NAME: 1}
        assert lake.import_user(str(tmp_path / "out"), "u") == {_NAME: 1}
    assert _stored(lake, "v") == _stored(lake, "u") == [ref.path.removeprefix("_files/")]
    photos.delete([{"id": 1}], user="u")
    assert photos.get_file({"id": 1}, "photo", user="v") == b"pixels"
    lake.erase("v")
    assert _stored(lake, "v") == []
