"""Uploads that were begun and never ended: found below a place, and nowhere else, and given up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lakewarden.base.connection import Location
from lakewarden.storage import buckets as module
from lakewarden.storage.buckets import Bucket, find_uploads, remove_uploads
from tests.fixtures.minio import MinioServer, begin_upload


def test_only_those_below_the_place(minio: MinioServer, s3_warehouse_uri: str) -> None:
    place, beside = Location(f"{s3_warehouse_uri}/ann"), Location(f"{s3_warehouse_uri}/anna")
    for uri in (f"{place}/a", f"{place}/b/c", f"{place}/b/c", f"{beside}/a"):
        begin_upload(minio, uri)
    assert sorted(upload.key for upload in find_uploads(place)[0]) == ["a", "b/c", "b/c"]
    counted: list[int] = []
    assert remove_uploads([place], counted.append) == ""
    assert sum(counted) == 3
    assert [upload.key for upload in find_uploads(Location(s3_warehouse_uri))[0]] == ["anna/a"]


def test_where_nobody_can_look_it_is_told(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_uploads(Location(str(tmp_path))) == ([], "")
    assert "on this kind of store" in find_uploads(Location("gs://bucket/x"))[1]
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    assert "may remain" in remove_uploads([Location("s3://bucket/x")], lambda more: None)


class _Pages:
    """A bucket that answers in pages, as S3 does and MinIO does not."""

    def __init__(self, uploads: list[tuple[str, str]], page: int) -> None:
        self._uploads, self._page = sorted(uploads), page

    def list_multipart_uploads(self, **asked: str) -> dict[str, Any]:
        assert asked["Bucket"] == "lake"
        marker = (asked["KeyMarker"], asked["UploadIdMarker"] or "~")
        after = [one for one in self._uploads if one > marker]
        page, more = after[: self._page], len(after) > self._page
        last = {"NextKeyMarker": page[-1][0], "NextUploadIdMarker": page[-1][1]} if more else {}
        return {"IsTruncated": more, "Uploads": [{"Key": key, "UploadId": upload} for key, upload in page]} | last


@pytest.mark.parametrize("page", [1, 2, 3, 10])
@pytest.mark.parametrize("prefix", ["", "w/"])
def test_every_page_is_read(page: int, prefix: str) -> None:
    below = [("w/a", "1"), ("w/b", "1"), ("w/b", "2"), ("w/b/c", "1")]
    found: Iterator[tuple[str, dict[str, Any]]] = module._uploads(  # a real S3 is not at hand
        Bucket(_Pages([("a", "1"), *below, ("x", "1"), ("z", "1")], page), "lake", prefix)
    )
    everything = [("a", "1"), *below, ("x", "1"), ("z", "1")]
    assert [(key, each["UploadId"]) for key, each in found] == (below if prefix else everything)
