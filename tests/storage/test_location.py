"""One spelling for a place, and no credential in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.base.connection import Location
from lakewarden.errors import InvalidArgument
from lakewarden.storage.location import canonical, join, local_path, overlaps
from lakewarden.storage.open import open_store


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("s3://lake/prod/", "s3://lake/prod"),
        ("s3a://lake//prod", "s3://lake/prod"),
        ("S3://lake", "s3://lake"),
        ("gs://lake/a/b", "gs://lake/a/b"),
        ("abfss://data@account.dfs.core.windows.net/x", "abfss://data@account.dfs.core.windows.net/x"),
        ("/srv/lake/", "/srv/lake"),
        ("/srv/../srv/lake", "/srv/lake"),
        ("file:///srv/a%20lake", "/srv/a lake"),
        ("file://localhost/srv", "/srv"),
        ("/srv/a%20lake", "/srv/a%20lake"),
    ],
)
def test_a_place_has_one_spelling(uri: str, expected: str) -> None:
    assert canonical(uri) == expected
    assert canonical(expected) == expected


def test_a_relative_path_is_that_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert canonical("./warehouse") == str(tmp_path / "warehouse")


@pytest.mark.parametrize(
    "uri",
    [
        "s3://AKIA:hunter2@lake/prod",
        "s3://hunter2@lake/prod",
        "s3://lake/prod?secret=hunter2",
        "s3://lake#hunter2",
        "abfss://data:hunter2@account/x",
        "az://lake/x?sig=hunter2",
        "https://user:hunter2@host/x",
    ],
)
def test_a_credential_in_a_uri_is_refused_and_not_repeated(uri: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        open_store(Location(uri))
    assert "hunter2" not in refusal.value.message


@pytest.mark.parametrize(
    "uri",
    [
        *("", "s3://", "s3:///prefix", "s3://lake/../other", "ftp://host/x", "http://host/x", "file://host/x"),
        *("s3://../other", "s3://./other", "s3://a..b", "s3://%2e%2e/other", "s3://a lake", "s3://lake\n", "az://c@../x"),
        *("s3://lake/a\nb", "/srv/a\nb", "/srv/a\0b"),
    ],
)
def test_what_names_no_place_is_refused(uri: str) -> None:
    with pytest.raises(InvalidArgument):
        canonical(uri)


def test_a_local_place_has_a_path_and_a_remote_one_has_none() -> None:
    assert local_path("file:///srv/lake") == Path("/srv/lake")
    assert local_path("s3://lake") is None
    assert local_path("memory://x") is None


def test_places_are_joined_by_parts() -> None:
    assert join("s3://lake/prod/", "a/b") == "s3://lake/prod/a/b"
    assert join("/srv/lake", "a") == "/srv/lake/a"
    assert join("/srv/lake", "") == "/srv/lake"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("s3://lake/a", "s3://lake/a", True),
        ("s3://lake/a", "s3://lake/a/b", True),
        ("s3://lake/a/b", "s3://lake/a", True),
        ("s3://lake/a", "s3://lake/ab", False),
        ("s3://lake/a", "gs://lake/a", False),
        ("/srv/a", "/srv/A", False),
        ("/", "/srv/a", True),
    ],
)
def test_places_overlap_by_whole_parts(one: str, other: str, expected: bool) -> None:
    assert overlaps(one, other) is expected


def test_links_and_folded_case_hide_no_overlap(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert overlaps(f"{tmp_path}/link/a", f"{tmp_path}/real")
    assert overlaps("/srv/a", "/srv/A", folds_case=True)
