"""Names and objects of whoever may upload: data where they are harmless, a reject otherwise, and no other object waits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import PipelinesSettings
from lakewarden.base.settings import Settings
from lakewarden.ingest.pipelines.rules import matches, mime_type
from tests.ingest.pipelines.uploads import make, place, rejects, table, upload


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "w"), settings=Settings(pipelines=PipelinesSettings(batch_objects=4))) as opened:
        yield opened


@pytest.mark.slow
def test_a_hostile_name_is_data(lake: Lakehouse) -> None:
    make(lake)
    deep = "/".join(["d" * 200] * 5) + "/x.csv"
    names = ["a'; DROP TABLE n.t; --.csv", "line\nbreak\x1b[31m\x07.csv", "…/日本 ü.csv", "%2e%2e%2fx.csv", "{0}%s.csv", deep]
    upload(lake, {name: f"id,name\n{number},x\n" for number, name in enumerate(names)})
    assert lake.ingest("n.t").ingested == len(names)
    assert table(lake, "id, _object") == list(enumerate(names))
    upload(lake, {names[1]: "id,name\n9,y\n"})
    assert lake.ingest("n.t").ingested == 1
    assert (9, names[1]) in table(lake, "id, _object")
    assert (1, names[1]) not in table(lake, "id, _object")


@pytest.mark.slow
def test_what_cannot_be_read_is_a_reject_and_stops_no_other(lake: Lakehouse) -> None:
    make(lake)
    upload(lake, {f"{number}.csv": f"id,name\n{number},x\n" for number in range(6)})
    files = {
        "empty.csv": b"",
        "binary.csv": bytes(range(256)) * 9,
        "utf16.csv": "id,name\n1,x\n".encode("utf-16"),
        "gone.csv.gz": b"\x1f\x8b",
    }
    files["long.csv"] = b"id,name\n1," + b"x" * (17 << 20)
    for name, data in files.items():
        (place(lake) / name).write_bytes(data)
    Path(os.fsdecode(os.fsencode(place(lake)) + b"/\xff.csv")).write_bytes(b"id,name\n7,x\n")
    report = lake.ingest("n.t")
    assert (report.ingested, report.rejected, report.batches) == (6, 6, 3)
    assert rejects(lake).keys() == {*files, "\\xff.csv"}
    assert all(reason for reason in rejects(lake).values())
    assert lake.ingest("n.t").batches == 0, "a reject is not read again until it changes"


@pytest.mark.slow
def test_an_object_that_takes_too_long_is_a_reject(tmp_path: Path) -> None:
    with Lakehouse.open(str(tmp_path / "w"), settings=Settings(pipelines=PipelinesSettings(object_seconds=0.001))) as lake:
        make(lake)
        upload(lake, {"a.csv": "id,name\n1,x\n"})
        assert lake.ingest("n.t").rejected == 1


@pytest.mark.parametrize(
    ("glob", "key", "expected"),
    [
        ("**/*.csv", "a.csv", True),
        ("**/*.csv", "x/y/A.CSV", True),
        ("**/*.csv", "a.csv/x", False),
        ("*.csv", "x/a.csv", False),
        ("in/**", "in/x/y", True),
        ("in/**/x?.[ab]*", "IN/1/2/x9.b", True),
        ("**/K.csv", "\u212a.csv", False),
        ("**/[!a].csv", "b.csv", True),
        ("a.c", "abc", False),
        ("**/*", "line\nbreak", True),
    ],
)
def test_globs(glob: str, key: str, expected: bool) -> None:
    assert matches(glob, key) is expected


def test_a_glob_takes_time_by_the_key() -> None:
    assert not matches("**/" * 40 + "*a" * 200 + "b", "a" * 1000)
    assert not matches("**/*/" * 60 + "x", "/".join("a" * 500))


def test_mime_types_are_those_of_names() -> None:
    assert [mime_type(key) for key in ("a.CSV", "b.parquet", "c.docx", "no", "x.exe-")] == [
        "text/csv",
        "application/vnd.apache.parquet",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "application/octet-stream",
        "application/octet-stream",
    ]
