"""A source lists what was uploaded in the order of keys, and reads each object as it was listed, on a disk and in a bucket."""

from __future__ import annotations

import os
from pathlib import Path

import obstore
import pytest

from lakewarden.base.clock import random_id
from lakewarden.base.connection import Location
from lakewarden.storage.objects import Missing
from lakewarden.storage.open import open_store
from lakewarden.storage.sources import LocalSource, ObjectChanged, ObjectSource, RemoteSource, open_source
from tests.fixtures.minio import MinioServer

KEYS = ["a b.csv", "a-b/x", "a/x", "a/y/z", "a0", "ä/ü.csv", "日本.csv", "'quoted\"%20+&.csv", "n" * 200 + ".csv"]


@pytest.fixture(params=["disk", "memory", pytest.param("minio", marks=pytest.mark.minio)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "disk":
            return str(tmp_path / "in")
        case "memory":
            return f"memory://{random_id()}/in"
        case _:
            server: MinioServer = request.getfixturevalue("minio")
            return f"{server.prefix_for(request.node.nodeid)}/in"


@pytest.fixture
def source(place: str) -> ObjectSource:
    return open_source(Location(place))


def put(place: str, **objects: bytes) -> None:
    for key, data in objects.items():
        open_store(Location(place)).put(key, data)


def test_a_source_that_does_not_exist_is_empty(source: ObjectSource) -> None:
    assert list(source.uploads()) == []
    with pytest.raises(Missing):
        source.look("x")


def test_objects_are_listed_in_the_order_of_keys_from_any_key_on(place: str, source: ObjectSource) -> None:
    put(place, **dict.fromkeys(KEYS, b"data"))
    ordered = sorted(KEYS, key=str.encode)
    listed = list(source.uploads())
    assert [one.key for one in listed] == ordered
    assert [(source.look(one.key).etag, one.size, one.refused) for one in listed] == [(one.etag, 4, "") for one in listed]
    for number, key in enumerate(ordered):
        assert [one.key for one in source.uploads(after=key)] == ordered[number + 1 :]


def test_an_object_is_read_as_it_was_listed_or_not_at_all(place: str, source: ObjectSource) -> None:
    put(place, x=b"0123456789", gone=b"x")
    first, gone = source.look("x"), source.look("gone")
    with source.open(first) as file:
        file.seek(4)
        assert (file.read(3), file.read(100), file.read(1)) == (b"456", b"789", b"")
    source.prove(first)
    put(place, x=b"other")
    open_store(Location(place)).delete(["gone"])
    with pytest.raises(ObjectChanged):
        source.open(first).read()
    with pytest.raises(Missing):
        source.open(gone).read()
    assert source.look("x").etag != first.etag


@pytest.mark.parametrize("key", ["", "/x", "../x", "a/../../x", "a//x", "a\0b", ".", "a/"])
def test_a_key_that_leads_elsewhere_is_missing(source: ObjectSource, key: str) -> None:
    with pytest.raises(Missing):
        source.look(key)


def test_only_files_of_a_directory_count(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "loop").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "nowhere").symlink_to(tmp_path / "no")
    os.mkfifo(tmp_path / "in" / "pipe")
    (tmp_path / "in" / "line\nbreak\x1b[31m.csv").write_bytes(b"x")
    Path(os.fsdecode(os.fsencode(tmp_path / "in") + b"/bad\xff.csv")).write_bytes(b"x")
    found = {one.key: one.refused for one in LocalSource(str(tmp_path / "in")).uploads()}
    assert found == {"bad\\xff.csv": "its name is not UTF-8", "line\nbreak\x1b[31m.csv": ""}


def test_a_file_that_changes_while_it_is_read_is_not_proven(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"1")
    source = LocalSource(str(tmp_path))
    listed = source.look("x")
    with source.open(listed) as file:
        (tmp_path / "x").write_bytes(b"longer")
        file.read()
    with pytest.raises(ObjectChanged):
        source.prove(listed)


def test_a_listing_is_read_as_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    place = f"memory://{random_id()}-pages"
    put(place, **{f"{number:05d}": b"" for number in range(2500)})
    source = open_source(Location(place))
    assert isinstance(source, RemoteSource)
    pages: list[int] = []
    real = obstore.list

    def counted(*given: object, **options: object) -> object:
        for page in real(*given, **options):  # type: ignore[call-overload]
            pages.append(len(page))
            yield page

    monkeypatch.setattr(obstore, "list", counted)
    listed = source.uploads("00010")
    assert next(listed).key == "00011"
    assert len(pages) == 1
