"""Files are loaded from a bucket of Google's. What the emulator cannot take, a write, is tried nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import lakewarden
from lakewarden import Lakehouse
from lakewarden.base.connection import Connection, Location
from lakewarden.errors import NotFound, StorageRefused, StorageUnavailable
from lakewarden.storage.objects import Missing
from lakewarden.storage.open import open_store
from tests.delta.hand_written import HandWritten
from tests.fixtures.gcs import GcsServer


@pytest.fixture
def base(gcs: GcsServer, request: pytest.FixtureRequest) -> str:
    return gcs.prefix_for(request.node.nodeid)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "warehouse")) as opened:
        opened.sql("CREATE NAMESPACE n; CREATE SHARED TABLE n.plain (id BIGINT)")
        yield opened


def _ids(lake: Lakehouse) -> list[int]:
    return [row["id"] for row in lake.table("n.plain").read().sort_by("id").to_pylist()]


def test_files_are_loaded_by_a_pattern(lake: Lakehouse, base: str, gcs: GcsServer) -> None:
    for key, text in (("a=1/x.csv", b"id\n1\n2\n"), ("a=2/y z.csv", b"id\n3\n"), ("a=%2F/x.csv", b"id\n4\n"), ("z.json", b"{}")):
        gcs.upload(f"{base}/{key}", text)
    gcs.upload(f"{base}-other/a=1/x.csv", b"id\n9\n")
    report = lake.load("n.plain", f"{base}/a=*/*.csv")
    assert (report.files, report.rows, _ids(lake)) == (3, 4, [1, 2, 3, 4])
    assert lake.load("n.plain", f"{base}/a=2/y z.csv").rows == 1


def test_a_survey_finds_tables_there(base: str, gcs: GcsServer, tmp_path: Path) -> None:
    table = HandWritten(Path(str(tmp_path)) / "t")
    table.begin(table.file("1.parquet", [1]))
    for path in (each for each in table.path.rglob("*") if each.is_file()):
        gcs.upload(f"{base}/a/t/{path.relative_to(table.path)}", path.read_bytes())
    (found,) = lakewarden.survey(base)
    assert (found.path, found.verdict, found.place_class, found.version) == (f"{base}/a/t", "sound", "conditional", 0)


def test_a_prefix_of_more_files_than_a_page_lists_is_loaded(lake: Lakehouse, base: str, gcs: GcsServer) -> None:
    for number in range(1100):
        gcs.upload(f"{base}/{number:04}.csv", b"id\n%d\n" % number)
    assert lake.load("n.plain", base).files == 1100
    assert _ids(lake) == list(range(1100))


def test_what_is_not_there_is_said(lake: Lakehouse, base: str, gcs: GcsServer) -> None:
    gcs.upload(f"{base}/x.csv", b"id\n1\n")
    with pytest.raises(NotFound, match=r"no file matches"):
        lake.load("n.plain", f"{base}/*.parquet")
    with pytest.raises((StorageRefused, StorageUnavailable), match="no-such"):
        lake.load("n.plain", "gs://no-such/x.csv")
    with pytest.raises(Missing):
        open_store(Location(base)).get("y.csv")
    assert _ids(lake) == []


def test_a_storage_may_name_its_own_endpoint(base: str, gcs: GcsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    gcs.upload(f"{base}/x.csv", b"id\n1\n")
    monkeypatch.delenv("GOOGLE_BASE_URL")
    store = open_store(Location(base, Connection(endpoint=gcs.endpoint)))
    assert store.get_range("x.csv", 3, 2) == b"1\n"
    assert [found.key for found in store.list("")] == ["x.csv"]
