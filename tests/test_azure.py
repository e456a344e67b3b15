"""A tenant's life on a storage of Azure, beside others on a disk. What each operation promises is tested in its own room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import lakewarden
from lakewarden import Lakehouse
from lakewarden.base.connection import Location
from lakewarden.errors import StorageRefused
from lakewarden.storage.open import open_store
from tests.fixtures.azurite import AzuriteServer
from tests.fixtures.bucket import BucketPath
from tests.fixtures.lakes import NOTES, eventual, make_notes, notes, strong


@pytest.fixture
def base(azurite: AzuriteServer, request: pytest.FixtureRequest) -> str:
    return azurite.prefix_for(request.node.nodeid)


@pytest.fixture
def lake(tmp_path: Path, base: str) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "warehouse")) as opened:
        opened.create_storage("azure", type="azure", base=base)
        yield opened


def test_a_table_is_written_kept_and_restored_there(lake: Lakehouse, base: str) -> None:
    table = make_notes(lake, options={"STORAGE_ID": "azure"})
    for text in ("one", "two", "three"):
        table.write(notes({1: text, 2: "kept"}), user="u_1")
        assert [report.outcome for report in lake.flush()] == ["done"]
    table.write(notes({3: "more"}), user="u_1", mode="insert")
    lake.flush()
    (packed,) = lake.optimize(NOTES, zorder=["text"])
    assert (packed.outcome, strong(table, "u_1")) == ("done", {1: "three", 2: "kept", 3: "more"})
    lake.restore(NOTES, user="u_1", version=0, dry_run=False)
    assert eventual(table, "u_1") == {1: "one", 2: "kept"}
    assert all(finding.passed for finding in lake.check("azure"))
    assert list(BucketPath(base).rglob("*.parquet"))


def test_a_survey_finds_tables_there(lake: Lakehouse, base: str) -> None:
    table = make_notes(lake, options={"STORAGE_ID": "azure"})
    for user in ("ann", "bob"):
        table.write(notes({1: "a"}), user=user)
    lake.flush()
    (gone,) = [path for path in BucketPath(base).rglob("*.parquet") if "/bob/" in str(path)]
    gone.unlink()
    found = {each.path: each for each in (*lake.survey(base), *lakewarden.survey(base))}
    assert {path.removeprefix(base): each.verdict for path, each in found.items()} == {
        "/chat/notes/ann": "sound",
        "/chat/notes/bob": "damaged",
    }
    assert {each.place_class for each in found.values()} == {"conditional"}


def test_a_table_moves_there_and_its_user_is_erased(lake: Lakehouse, base: str, tmp_path: Path) -> None:
    table = make_notes(lake)
    for user in ("ann", "bob"):
        table.write(notes({1: f"token of {user}"}), user=user)
    lake.flush()
    assert {report.outcome for report in lake.move(NOTES, "azure")} == {"done"}
    assert lake.export("ann", str(tmp_path / "export")).tables[0].rows == 1
    assert lake.erase("ann", deep=True).result == "complete"
    there = [path.read_bytes() for path in BucketPath(base).rglob("*") if path.is_file()]
    assert there
    assert not any(b"token of ann" in data for data in there)
    assert strong(lake.table(NOTES), "bob") == {1: "token of bob"}

    open_store(Location(base)).put("elsewhere/copy.txt", b"ann")
    assert lake.verify_erased("ann", deep=True).findings


def test_a_container_that_is_not_there_is_told(lake: Lakehouse) -> None:
    with pytest.raises(StorageRefused, match="no-such"):
        lake.create_storage("none", type="azure", base="az://no-such/x")
    assert [storage.id for storage in lake.storages()] == ["local", "azure"]


def test_files_are_loaded_from_there(lake: Lakehouse, base: str) -> None:
    store = open_store(Location(base))
    for key, text in (("in/a=1/x.csv", b"id\n1\n2\n"), ("in/a=2/y.csv", b"id\n3\n"), ("in/z.json", b"{}")):
        store.put(key, text)
    lake.sql("CREATE NAMESPACE n; CREATE SHARED TABLE n.plain (id BIGINT)")
    report = lake.load("n.plain", f"{base}/in/a=*/*.csv")
    assert (report.files, report.rows) == (2, 3)
    assert lake.table("n.plain").read().sort_by("id").column("id").to_pylist() == [1, 2, 3]
