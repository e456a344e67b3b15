"""Exports: every Delta reader opens them, another warehouse takes them in, and an erasure finds them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lakewarden import Column, Lakehouse
from lakewarden.base.connection import Location
from lakewarden.delta.reading.foreign import open_foreign
from lakewarden.delta.replay.columns import all_rows
from lakewarden.delta.replay.log_state import replay
from lakewarden.errors import BeingErased, Conflict, Corrupt, InUse, InvalidArgument, LakewardenError, NotFound
from lakewarden.maintenance.export.procedure import export
from tests.delta.hand_written import HandWritten, Json, add, bitmap, protocol, remove, z85
from tests.fixtures.lakes import NOTES, make_notes, notes, scope_path, strong

pytestmark = pytest.mark.disk  # they look into the directories themselves


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    """A user with two flushed versions and a pending row, and another one."""
    with Lakehouse.open(warehouse_uri) as opened:
        table = make_notes(opened)
        for text in ("one", "two"):
            for user in ("ann", "bob"):
                table.write(notes({1: text}), user=user)
            opened.flush()
        table.write(notes({2: "hot"}), user="ann")
        yield opened


def test_another_reader_opens_it_with_its_history(lake: Lakehouse, tmp_path: Path) -> None:
    made = lake.export("ann", str(tmp_path / "out"))
    (table,) = made.tables
    where = str(tmp_path / "out" / "chat" / "notes")
    rows = {row["id"]: row["text"] for row in DeltaTable(where).to_pyarrow_table().to_pylist()}
    assert rows == {1: "two", 2: "hot"}
    assert (table.rows, table.version, DeltaTable(where).version()) == (2, 2, 2)
    assert DeltaTable(where, version=0).to_pyarrow_table().column("text").to_pylist() == ["one"]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["exported_user"] == "ann"
    assert {file["path"] for file in manifest["files"]} == {
        path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out" / "chat").rglob("*") if path.is_file()
    }


def test_another_warehouse_takes_it_in(lake: Lakehouse, tmp_path: Path) -> None:
    lake.export("ann", str(tmp_path / "out"))
    with Lakehouse.open(str(tmp_path / "other")) as other:
        with pytest.raises(NotFound):
            other.import_user(str(tmp_path / "out"), "ann")
        table = make_notes(other)
        assert other.import_user(str(tmp_path / "out"), "anna") == {NOTES: 2}
        assert strong(table, "anna") == {1: "two", 2: "hot"}
        with pytest.raises(NotFound, match=r"chat\.none"):
            other.import_user(str(tmp_path / "out"), "ann", ["chat.none"])


def test_an_interrupted_export_goes_on(lake: Lakehouse, tmp_path: Path) -> None:
    out = tmp_path / "out"
    lake.export("ann", str(out))
    first = next((out / "chat" / "notes").glob("*.parquet"))
    kept = {path: path.stat().st_ino for path in out.rglob("*.parquet") if path != first}
    first.write_bytes(b"half of i")
    (out / "manifest.json").unlink()
    with pytest.raises(NotFound, match="no finished export"):
        lake.import_user(str(out), "ann")
    lake.export("ann", str(out))
    assert {path: path.stat().st_ino for path in kept} == kept
    assert lake.import_user(str(out), "carol") == {NOTES: 2}


def test_what_was_changed_is_not_taken_in(lake: Lakehouse, tmp_path: Path) -> None:
    lake.export("ann", str(tmp_path / "out"))
    next((tmp_path / "out" / "chat" / "notes").glob("*.parquet")).write_bytes(b"PAR1 another PAR1")
    with pytest.raises(Corrupt, match="checksum"):
        lake.import_user(str(tmp_path / "out"), "ann")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"version": "0"}, "not the manifest"),
        ({"name": "notes"}, "not the manifest"),
        ({"path": "../out/chat/notes"}, "not the manifest"),
        ({"path": None}, "not the manifest"),
        ({}, "not in the manifest"),
    ],
    ids=str,
)
def test_a_manifest_leads_to_nothing_that_it_does_not_vouch_for(
    lake: Lakehouse, tmp_path: Path, said: dict[str, object], words: str
) -> None:
    lake.export("ann", str(tmp_path / "out"))
    path = tmp_path / "out" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["tables"][0] |= said
    manifest["files"] = []
    path.write_text(json.dumps(manifest))
    with pytest.raises(Corrupt, match=words):
        lake.import_user(str(tmp_path / "out"), "carol")
    assert lake.table(NOTES).read(user="carol").num_rows == 0


def test_an_import_writes_all_tables_or_none(lake: Lakehouse, tmp_path: Path) -> None:
    columns = [Column("id", "BIGINT"), Column("content", "TEXT")]
    lake.create_table("chat.other", type="USER", columns=columns, primary_key=["id"])
    lake.table("chat.other").write([{"id": 1, "content": "x"}], user="ann")
    lake.export("ann", str(tmp_path / "out"))
    with Lakehouse.open(str(tmp_path / "other")) as other:
        notes = make_notes(other)
        other.create_table("chat.other", type="USER", columns=[columns[0], Column("more", "TEXT")], primary_key=["id"])
        with pytest.raises(InvalidArgument, match="'more'"):
            other.import_user(str(tmp_path / "out"), "ann")
        assert notes.read(user="ann").num_rows == 0


@pytest.mark.parametrize(
    "to",
    ["{lake}", "{lake}/x", "{lake}/data/chat", "{lake}/..", "{lake}/exports", "s3://key:secret@bucket/x", "ftp://host/x", ""],
)
def test_a_place_that_cannot_be_is_refused(lake: Lakehouse, to: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        lake.export("ann", to.replace("{lake}", lake.warehouse.uri))
    assert "secret" not in refused.value.message
    assert len(lake.pending()) == 1


def test_a_directory_of_somebody_else_is_refused(lake: Lakehouse, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    with pytest.raises(InUse):
        lake.export("ann", str(tmp_path / "full"))
    lake.export("bob", str(tmp_path / "out"))
    with pytest.raises(InUse):
        lake.export("ann", str(tmp_path / "out"))
    with pytest.raises(LakewardenError):
        lake.export("", str(tmp_path / "new"))


def test_an_erasure_removes_the_exports_that_were_made(lake: Lakehouse, tmp_path: Path) -> None:
    lake.export("ann", str(tmp_path / "out"))
    lake.export("ann", f"{lake.warehouse.uri}/exports/ann")
    lake.export("bob", str(tmp_path / "bob"))
    certificate = lake.erase("ann", deep=True)
    assert certificate.exports == 2
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []
    assert (tmp_path / "bob" / "manifest.json").exists()


def test_a_user_who_is_being_erased_is_not_exported(lake: Lakehouse, tmp_path: Path) -> None:
    stray = Path(lake.warehouse.uri) / "data" / "chat" / "notes" / "bob" / "ann" / "x"
    stray.parent.mkdir()
    stray.write_text("x")
    with pytest.raises(Conflict):
        lake.erase("ann")
    with pytest.raises(BeingErased):
        lake.export("ann", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_an_export_that_slept_through_an_erasure_leaves_nothing(lake: Lakehouse, tmp_path: Path) -> None:
    """It holds a file in its hands, writes that, and finds that the next is gone."""
    out = tmp_path / "out"
    slept: list[str] = []

    def reach(name: str) -> None:
        if not slept:
            slept.append(name)
            lake.erase("ann")

    with pytest.raises(BeingErased):
        export(lake.warehouse, "ann", str(out), "UE-1", reach=reach)
    assert slept
    assert [path for path in out.rglob("*") if path.is_file()] == []


def test_a_copy_of_an_export_below_the_warehouse_is_found(lake: Lakehouse, tmp_path: Path) -> None:
    lake.export("ann", str(tmp_path / "out"))
    copy = Path(lake.warehouse.uri) / "exports" / "old"
    copy.parent.mkdir(exist_ok=True)
    (tmp_path / "out").rename(copy)
    with pytest.raises(LakewardenError) as failed:
        lake.erase("ann")
    assert failed.value.code == "CONFLICT"
    whats = {finding.what for finding in lake.verify_erased("ann").findings}
    assert whats == {"an export of the user", "its footer names the user"}


def test_what_readers_need_of_other_writers_comes_along(lake: Lakehouse, tmp_path: Path) -> None:
    """A deletion vector in a file, and a checkpoint with a sidecar in place of the commits below it."""
    lake.flush()
    scope = Path(str(scope_path(lake, "ann")))
    state = replay(Location(str(scope)))
    assert state is not None
    version, (file, *_), mark = state.version + 1, state.files.column("path").to_pylist(), UUID(int=7)
    size = HandWritten.vector(cast("HandWritten", SimpleNamespace(path=scope)), f"deletion_vector_{mark}.bin", bitmap([0]))
    said = {"storageType": "u", "pathOrInlineDv": z85(mark.bytes), "offset": 1, "sizeInBytes": size, "cardinality": 1}
    features = protocol("deletionVectors", "v2Checkpoint")
    actions = [features, remove(str(file)), add(str(file), vector=said)]
    (scope / "_delta_log" / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    rows = all_rows(open_foreign(Location(str(scope))))
    _as_sidecar(scope, version, features)
    lake.export("ann", str(tmp_path / "out"))
    copied = open_foreign(Location(str(tmp_path / "out" / "chat" / "notes")))
    assert copied.checkpoint is not None
    assert all_rows(copied).equals(rows)
    assert 0 < rows.num_rows < 2


def _as_sidecar(scope: Path, version: int, features: Json) -> None:
    """Replaces all but the newest commit by a checkpoint whose files are in a sidecar."""
    log = scope / "_delta_log"
    found = replay(Location(str(scope)))
    assert found is not None
    (log / "_sidecars").mkdir()
    kind = found.files.select(["path", "partitionValues", "size", "deletionVector"])
    adds = pa.StructArray.from_arrays([column.combine_chunks() for column in kind.columns], fields=[*kind.schema])
    pq.write_table(pa.table({"add": adds}), log / "_sidecars" / "one.parquet")
    first = (log / f"{0:020d}.json").read_text().splitlines()
    lines = [json.dumps(features), next(line for line in first if "metaData" in line)]
    lines += [json.dumps({"txn": {"appId": app, "version": number}}) for app, number in found.transactions.items()]
    lines.append(json.dumps({"sidecar": {"path": "one.parquet", "sizeInBytes": 1}}))
    (log / f"{version:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json").write_text("\n".join(lines))
    for older in range(version):
        (log / f"{older:020d}.json").unlink()


@pytest.mark.parametrize("place", ["old.parquet", "_files/x"])
def test_a_link_that_leads_out_is_not_followed(lake: Lakehouse, tmp_path: Path, place: str) -> None:
    """Of an older version's file, and of one that no version names."""
    scope, secret = Path(str(scope_path(lake, "ann"))), tmp_path / "secret"
    secret.write_text("another tenant's")
    (scope / place).parent.mkdir(exist_ok=True)
    (scope / place).symlink_to(secret)
    for version, action in ((3, add("old.parquet")), (4, remove("old.parquet"))):
        (scope / "_delta_log" / f"{version:020d}.json").write_text(json.dumps(action))
    with suppress(LakewardenError):
        lake.export("ann", str(tmp_path / "out"))
    assert not [found for found in (tmp_path / "out").rglob("*") if found.is_file() and b"tenant" in found.read_bytes()]
