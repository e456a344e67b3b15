"""What nobody should ask for: each a clear error with its code, and nothing changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.errors import LakewardenError
from lakewarden.tables.client import TableClient
from tests.fixtures.lakes import NOTES, Rows, eventual, make_notes, notes, strong
from tests.fixtures.mounts import tmpfs

_HOSTILE = [
    "../x",
    "..",
    ".",
    "/",
    "/etc/passwd",
    "a/b",
    "a%2fb",
    "%2e%2e",
    "=",
    "a=b",
    " ",
    "A",
    "a",
    "Ünï",
    "U\u0308nï",
    "\u202eevil",
    "🦆" * 128,
    "x" * 255 + "y",
    "x" * 256,
    "_delta_log",
    "!5fdelta_log",
    "_files",
    "manifest.json",
    "nul\x00byte",
    "new\nline",
    "'; DROP TABLE users; --",
]


@dataclass
class Place:
    """A warehouse with a flushed row and a pending one, and a look at all of it."""

    lake: Lakehouse
    table: TableClient

    def everything(self) -> tuple[object, ...]:
        state = self.lake.warehouse.state
        return (
            self.lake.warehouse.catalog.read().version,
            [stored.key for stored in state.list("log")],
            [stored.key for stored in state.list("scopes")],
            self.lake.pending(),
            strong(self.table, "ann"),
            eventual(self.table, "ann"),
            [entry.version for entry in self.table.history(user="ann")],
        )

    @contextmanager
    def refuses(self, code: str, words: str = ".") -> Iterator[None]:
        before = self.everything()
        with pytest.raises(LakewardenError, match=words) as caught:
            yield
        assert caught.value.code == code
        assert "\n" not in caught.value.message
        assert self.everything() == before


@pytest.fixture
def place(warehouse_uri: str) -> Iterator[Place]:
    with Lakehouse.open(warehouse_uri) as lake:
        table = make_notes(lake)
        table.write(notes({1: "cold"}), user="ann")
        lake.flush()
        table.write(notes({2: "hot"}), user="ann")
        yield Place(lake, table)


Ask = Callable[[Place], object]


def _write(row: Any, **more: Any) -> Ask:
    return lambda place: place.table.write([row], **({"user": "ann"} | more))


_REQUESTS: dict[str, tuple[str, str, Ask]] = {
    "unknown table": ("NOT_FOUND", "no table chat.nope: the namespace has chat.notes", lambda p: p.lake.table("chat.nope")),
    "unknown namespace": ("NOT_FOUND", "no such namespace", lambda p: p.lake.table("nope.notes")),
    "table without namespace": ("INVALID_ARGUMENT", "namespace", lambda p: p.lake.table("notes")),
    "flush of an unknown table": ("NOT_FOUND", "chat.nope", lambda p: p.lake.flush("chat.nope")),
    "flush of one unknown among others": ("NOT_FOUND", "chat.nope", lambda p: p.lake.flush(NOTES, "chat.nope")),
    "drop of an unknown table": ("NOT_FOUND", "chat.nope", lambda p: p.lake.drop_table("chat.nope")),
    "unknown column": ("INVALID_ARGUMENT", "oops", _write({"id": 3, "oops": 1})),
    "type mismatch": ("CONSTRAINT_VIOLATION", "id.*'three'", _write({"id": "three", "text": "x"})),
    "wrong type of a text": ("CONSTRAINT_VIOLATION", "text", _write({"id": 3, "text": 7})),
    "out of range": ("CONSTRAINT_VIOLATION", "id", _write({"id": 2**63, "text": "x"})),
    "lossy": ("CONSTRAINT_VIOLATION", "id", _write({"id": 1.5, "text": "x"})),
    "NULL in the key": ("CONSTRAINT_VIOLATION", "id", _write({"id": None, "text": "x"})),
    "key left out": ("CONSTRAINT_VIOLATION", "id", _write({"text": "x"})),
    "a key twice": (
        "CONSTRAINT_VIOLATION",
        "id",
        lambda p: p.table.write([{"id": 7, "text": "a"}, {"id": 7, "text": "b"}], user="ann"),
    ),
    "one bad row of many": (
        "CONSTRAINT_VIOLATION",
        "id",
        lambda p: p.table.write([*notes(dict.fromkeys(range(50, 90), "x")), {"id": None}], user="ann"),
    ),
    "delete by half a key": ("CONSTRAINT_VIOLATION", "id", lambda p: p.table.delete([{"id": None}], user="ann")),
    "delete by no key": ("INVALID_ARGUMENT", "text", lambda p: p.table.delete([{"id": 1, "text": "x"}], user="ann")),
    "no user": ("INVALID_ARGUMENT", "user", lambda p: p.table.write(notes({1: "x"}))),
    "empty user": ("INVALID_ARGUMENT", "1 to 256 characters", _write({"id": 3}, user="")),
    "overlong user": ("INVALID_ARGUMENT", "1 to 256 characters", _write({"id": 3}, user="x" * 300)),
    "half a character": ("INVALID_ARGUMENT", "Unicode", _write({"id": 3}, user="\ud800")),
    "user column that is not there": ("INVALID_ARGUMENT", "owner", _write({"id": 3}, user=None, user_column="owner")),
    "NULL as a user": (
        "CONSTRAINT_VIOLATION",
        "owner",
        lambda p: p.table.write([{"id": 3, "owner": None}, {"id": 4, "owner": "ann"}], user_column="owner"),
    ),
    "overlong user in a column": (
        "INVALID_ARGUMENT",
        "1 to 256 characters",
        lambda p: p.table.write([{"id": 3, "owner": "x" * 257}, {"id": 4, "owner": "ann"}], user_column="owner"),
    ),
    "unknown mode": ("INVALID_ARGUMENT", "mode", _write({"id": 3}, mode="merge")),
    "insert of a live key": ("CONSTRAINT_VIOLATION", "already", _write({"id": 1, "text": "x"}, mode="insert")),
    "unknown freshness": ("INVALID_ARGUMENT", "freshness", lambda p: p.table.read(user="ann", freshness="warm")),  # type: ignore[arg-type]
    "missing version": ("NOT_FOUND", "77", lambda p: p.lake.tag(NOTES, "t", user="ann", version=77)),
    "restore without a target": ("INVALID_ARGUMENT", "name either a version to go back to", lambda p: p.lake.restore(NOTES)),
    "version without a user": ("INVALID_ARGUMENT", "name the user", lambda p: p.lake.restore(NOTES, version=0)),
    "restore of an unknown table": ("NOT_FOUND", "chat.nope", lambda p: p.lake.restore("chat.nope", user="ann", version=0)),
    "vacuum below the retention": (
        "INVALID_ARGUMENT",
        "168",
        lambda p: p.lake.vacuum(NOTES, retain_hours=1, dry_run=False),
    ),
    "vacuum with a negative retention": (
        "INVALID_ARGUMENT",
        "-1",
        lambda p: p.lake.vacuum(NOTES, retain_hours=-1, force=True, dry_run=False),
    ),
    "cluster by an unknown column": ("INVALID_ARGUMENT", "oops", lambda p: p.lake.optimize(NOTES, zorder=["oops"])),
    "taken namespace": ("ALREADY_EXISTS", "chat", lambda p: p.lake.create_namespace("chat")),
    "odd namespace": ("INVALID_ARGUMENT", "chat", lambda p: p.lake.create_namespace("../chat")),
    "namespace in use": ("CONFLICT", "notes", lambda p: p.lake.drop_namespace("chat")),
    "unknown storage": ("NOT_FOUND", "nowhere", lambda p: p.lake.check("nowhere")),
    "drop of the storage local": ("INVALID_ARGUMENT", "part of every warehouse", lambda p: p.lake.drop_storage("local")),
}


@pytest.mark.parametrize("name", _REQUESTS)
def test_a_bad_request_is_refused_and_changes_nothing(place: Place, name: str) -> None:
    code, words, ask = _REQUESTS[name]
    with place.refuses(code, words):
        ask(place)


@pytest.mark.parametrize("discard", [True, False])
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_restore_to_a_missing_version_says_which_work(place: Place, dry_run: bool, discard: bool) -> None:
    before = place.everything()
    (report,) = place.lake.restore(NOTES, user="ann", version=77, dry_run=dry_run, discard_pending=discard)
    assert report.outcome == "failed"
    assert report.fault is not None
    assert report.fault.code == "NOT_FOUND"
    assert "versions 0 to 0 still work" in report.reason
    assert place.everything() == before


def test_a_restore_to_before_the_beginning(place: Place) -> None:
    before = place.everything()
    moment = datetime.now(UTC) - timedelta(days=1)
    (report,) = place.lake.restore(NOTES, user="ann", timestamp=moment, dry_run=False)
    assert report.fault is not None
    assert report.fault.code == "NOT_FOUND"
    assert place.everything() == before


# Tables and storages that cannot be

_KEY = Column("id", "BIGINT")
_TABLES: dict[str, tuple[str, dict[str, Any]]] = {
    "taken": ("ALREADY_EXISTS", {"name": NOTES}),
    "no namespace there": ("NOT_FOUND", {"name": "nope.t"}),
    "no key": ("INVALID_ARGUMENT", {"primary_key": []}),
    "unknown key": ("INVALID_ARGUMENT", {"primary_key": ["oops"]}),
    "no columns": ("INVALID_ARGUMENT", {"columns": []}),
    "a column twice": ("INVALID_ARGUMENT", {"columns": [_KEY, _KEY]}),
    "unknown type": ("INVALID_ARGUMENT", {"columns": [Column("id", "BIGGISH")]}),
    "key of a float": ("INVALID_ARGUMENT", {"columns": [Column("id", "DOUBLE")]}),
    "reserved column": ("INVALID_ARGUMENT", {"columns": [_KEY, Column("_seq", "BIGINT")]}),
    "unknown default": ("INVALID_ARGUMENT", {"columns": [_KEY, Column("t", "TEXT", default="SHELL('ls')")]}),
    "default of another type": ("INVALID_ARGUMENT", {"columns": [_KEY, Column("n", "INT", default="'x'")]}),
    "unknown option": ("INVALID_ARGUMENT", {"options": {"FASTER": "yes"}}),
    "unknown storage": ("NOT_FOUND", {"options": {"STORAGE_ID": "nowhere"}}),
    "unknown compression": ("INVALID_ARGUMENT", {"options": {"COMPRESSION": "best"}}),
    **{
        f"FLUSH_POLICY {policy!r}": ("INVALID_ARGUMENT", {"options": {"FLUSH_POLICY": policy}})
        for policy in (
            "",
            "rows:0",
            "rows:1000001",
            "interval:0",
            "interval:86401",
            "rows:-1",
            "rows:x",
            "often",
            "rows:1,rows:2",
        )
    },
}


@pytest.mark.parametrize("name", _TABLES)
def test_a_table_that_cannot_be_is_refused(place: Place, name: str) -> None:
    code, wrong = _TABLES[name]
    asked = {"name": "chat.t", "type": "USER", "columns": [_KEY], "primary_key": ["id"]} | wrong
    with place.refuses(code):
        place.lake.create_table(asked.pop("name"), **asked)


@pytest.mark.parametrize(
    "template",
    [
        "data",
        "{namespace}/{tableName}",
        "{userId}/{tableName}/{namespace}",
        "{namespace}/{userId}/{tableName}",
        "{namespace}/{tableName}/{userId}/{userId}",
        "{namespace}-{tableName}/{userId}",
        "../{namespace}/{tableName}/{userId}",
        "/{namespace}/{tableName}/{userId}",
        "{namespace}/{tableName}/{userId}/",
        "{namespace}/{tableName}/{nobody}",
        "_lakewarden/{namespace}/{tableName}/{userId}",
        "{namespace}/{tableName}/{userId",
    ],
)
def test_a_template_that_would_mix_scopes_is_refused(place: Place, tmp_path: Path, template: str) -> None:
    with place.refuses("INVALID_ARGUMENT", "template"):
        place.lake.create_storage("other", type="filesystem", base=str(tmp_path / "other"), user_template=template)
    with place.refuses("INVALID_ARGUMENT", "template"):
        place.lake.alter_storage("local", user_template=template)
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
@pytest.mark.disk
def test_hostile_users_stay_inside_and_never_meet(place: Place, tmp_path: Path) -> None:
    outside = _files(tmp_path, but=place.lake.warehouse.uri)
    given = [{"owner": user, "id": 1, "text": repr(user)} for user in _HOSTILE]
    place.table.write(given, user_column="owner")
    place.lake.flush()
    for user in _HOSTILE:
        assert eventual(place.table, user) == strong(place.table, user) == {1: repr(user)}
    root = Path(place.lake.warehouse.uri) / "data" / "chat" / "notes"
    assert len([path for path in root.iterdir() if (path / "_delta_log").is_dir()]) == len(_HOSTILE) + 1
    assert len(list(root.rglob("_delta_log"))) == len(_HOSTILE) + 1
    assert _files(tmp_path, but=place.lake.warehouse.uri) == outside
    assert set(place.table.users()) == {*_HOSTILE, "ann"}


def _files(root: Path, *, but: str) -> set[Path]:
    return {path for path in root.rglob("*") if not path.is_relative_to(but)}


# Places that cannot be written


@pytest.mark.disk
def test_a_warehouse_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LakewardenError, match="there is a file where a directory should be") as caught:
        Lakehouse.open(str(tmp_path / "file" / "warehouse"))
    assert caught.value.code == "STORAGE_UNAVAILABLE"
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_warehouse_on_a_read_only_file_system(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "mount", "size=1m,ro") as mount, pytest.raises(LakewardenError, match="read-only") as caught:
        Lakehouse.open(str(mount / "warehouse"))
    assert caught.value.code == "STORAGE_UNAVAILABLE"


@pytest.mark.parametrize("uri", ["", "ftp://host/x", "s3://user:secret@bucket/x", "s3://"])
def test_a_place_that_is_none(uri: str) -> None:
    with pytest.raises(LakewardenError) as caught:
        Lakehouse.open(uri)
    assert caught.value.code == "INVALID_ARGUMENT"
    assert "secret" not in caught.value.message


@pytest.mark.disk
def test_a_storage_that_cannot_be_written(place: Place, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with place.refuses("STORAGE_UNAVAILABLE", "file"):
        place.lake.create_storage("other", type="filesystem", base=str(tmp_path / "file" / "other"))


def test_a_storage_in_use_stays(place: Place, tmp_path: Path) -> None:
    place.lake.create_storage("other", type="filesystem", base=str(tmp_path / "other"))
    columns = [Column("id", "BIGINT")]
    place.lake.create_table("chat.there", columns=columns, primary_key=["id"], options={"STORAGE_ID": "other"})
    with place.refuses("CONFLICT", "chat.there"):
        place.lake.drop_storage("other")
    with place.refuses("CONFLICT"):
        place.lake.alter_storage("other", shared_template="moved/{namespace}/{tableName}")


@pytest.mark.disk
def test_a_disk_that_fills_up_under_the_log(tmp_path: Path) -> None:
    """What was acknowledged is there, what was refused is not, and once there is space all goes on."""
    with tmpfs(tmp_path / "mount", "size=4m") as mount, Lakehouse.open(str(mount / "warehouse")) as lake:
        table = make_notes(lake)
        rows = {0: "first"}
        table.write(notes(rows), user="ann")
        lake.flush()
        ballast = _ballast(mount, leave=700 << 10)
        with pytest.raises(LakewardenError, match="the disk is full") as caught:
            _write_until_refused(table, rows)
        assert caught.value.code == "STORAGE_UNAVAILABLE"
        assert len(rows) > 1
        _check_flush_fails_and_keeps(lake, table, rows, ballast)


@pytest.mark.disk
def test_a_disk_that_fills_up_under_a_flush(tmp_path: Path) -> None:
    """The log has its space, the tables have not."""
    with tmpfs(tmp_path / "mount", "size=2m") as mount, Lakehouse.open(str(tmp_path / "warehouse")) as lake:
        lake.create_storage("small", type="filesystem", base=str(mount / "tables"))
        table = make_notes(lake, options={"STORAGE_ID": "small", "COMPRESSION": "none"})
        rows = {number: f"{number}" + "x" * 1_000 for number in range(200)}
        table.write(notes(rows), user="ann")
        ballast = _ballast(mount, leave=60 << 10)
        _check_flush_fails_and_keeps(lake, table, rows, ballast)


def _check_flush_fails_and_keeps(lake: Lakehouse, table: TableClient, rows: Rows, ballast: Path) -> None:
    _fill(ballast)
    faults = _faults_of_flush(lake)
    assert {code for code, _ in faults} == {"STORAGE_UNAVAILABLE"}, faults
    assert all("full" in message or "No space" in message for _, message in faults), faults
    assert strong(table, "ann") == rows
    ballast.unlink()
    assert strong(table, "ann") == rows
    assert [(report.outcome, report.reason) for report in lake.flush()] == [("done", "")]
    assert strong(table, "ann") == eventual(table, "ann") == rows
    table.write(notes({-1: "goes on"}), user="ann")
    assert strong(table, "ann") == rows | {-1: "goes on"}


def _faults_of_flush(lake: Lakehouse) -> list[tuple[str, str]]:
    try:
        return [(report.fault.code, report.fault.message) for report in lake.flush() if report.fault]
    except LakewardenError as error:
        return [(error.code, error.message)]


def _write_until_refused(table: TableClient, rows: Rows) -> None:
    """Notes in `rows` what was acknowledged."""
    for number in range(1, 1_000):
        text = f"{number}" + "x" * 100_000
        table.write(notes({number: text}), user="ann")
        rows[number] = text


def _ballast(mount: Path, *, leave: int) -> Path:
    """A file that leaves this many bytes free."""
    free = os.statvfs(mount)
    path = mount / "ballast"
    path.write_bytes(b"\0" * (free.f_bavail * free.f_bsize - leave))
    return path


def _fill(path: Path) -> None:
    """Lets the file grow until nothing more fits."""
    with suppress(OSError), path.open("ab", buffering=0) as rest:
        while rest.write(b"\0" * 4_096):
            pass
