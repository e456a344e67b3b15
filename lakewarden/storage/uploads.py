"""Uploads in several requests that were never ended: their parts stay in the bucket, and no listing of objects shows them.

Ours are one request each. Those of others, and checkpoints of more than 10 MB where deltalake makes them itself, may be left
by a process that was killed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakewarden.connection import Location
from lakewarden.storage.buckets import Bucket, Work, in_buckets

_UNKNOWN = "whether incomplete uploads are left was not looked at: boto3 is missing (install lakewarden[s3] and try again)"
_ELSEWHERE = "on this kind of store incomplete uploads are not looked at: let a rule of the store's own remove them"
_REFUSED = "incomplete uploads may remain (remove them with aws s3api abort-multipart-upload)"


@dataclass(frozen=True)
class Upload:
    """One that was begun and neither ended nor given up; `key` is relative to its place."""

    key: str
    begun: datetime


def remove_uploads(places: Iterable[Location], removed: Callable[[int], None]) -> str:
    """Gives up every incomplete upload below these places; somebody who is at one just now is refused when he ends it.

    `removed` is told how many more went. Returns what remains to be done by hand; empty where nothing is.
    """

    def remove(bucket: Bucket) -> str:
        for key, each in _uploads(bucket):
            try:
                bucket.client.abort_multipart_upload(Bucket=bucket.name, Key=key, UploadId=each["UploadId"])
            except bucket.client.exceptions.NoSuchUpload:  # ended, or given up, since the listing
                continue
            removed(1)
        return ""

    return in_buckets(places, Work(remove, _UNKNOWN, _ELSEWHERE, _REFUSED))


def find_uploads(place: Location) -> tuple[list[Upload], str]:
    """Those below the place that the store tells of, and why there may be more; empty where all were told."""
    found: list[Upload] = []

    def look(bucket: Bucket) -> str:
        found.extend(Upload(key.removeprefix(bucket.prefix), each["Initiated"]) for key, each in _uploads(bucket))
        return ""

    return found, in_buckets([place], Work(look, _UNKNOWN, _ELSEWHERE, _REFUSED))


def _uploads(bucket: Bucket) -> Iterator[tuple[str, dict[str, Any]]]:
    """By a marker, not by a prefix: MinIO takes a prefix for the whole key."""
    marker, upload = bucket.prefix, ""
    while True:
        page = bucket.client.list_multipart_uploads(Bucket=bucket.name, KeyMarker=marker, UploadIdMarker=upload)
        found = page.get("Uploads", [])
        yield from ((each["Key"], each) for each in found if each["Key"].startswith(bucket.prefix))
        if not page["IsTruncated"] or not found[-1]["Key"].startswith(bucket.prefix):
            return
        marker, upload = page["NextKeyMarker"], page["NextUploadIdMarker"]
