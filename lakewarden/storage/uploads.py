"""Incomplete multipart uploads: their parts stay in the bucket, and no listing of objects shows them.

Lakewarden sends each object in one request. A killed process may leave the uploads of other programs, and checkpoints of more
than 10 MB that deltalake writes itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakewarden.base.connection import Location
from lakewarden.storage.buckets import Bucket, BucketWork, in_buckets

_UNKNOWN = "incomplete uploads were not checked: boto3 is missing (install lakewarden[s3] and try again)"
_ELSEWHERE = "incomplete uploads are not checked on this kind of store: let a rule of the store remove them"
_REFUSED = "incomplete uploads may remain (remove them with aws s3api abort-multipart-upload)"


@dataclass(frozen=True)
class MultipartUpload:
    """An upload that was neither completed nor aborted; `key` is relative to its place."""

    key: str
    begun: datetime


def remove_uploads(places: Iterable[Location], removed: Callable[[int], None]) -> str:
    """Aborts every incomplete upload below these places. A process that is writing one is refused when it completes it.

    Calls `removed` with the number of each batch. Returns what remains to be done by hand; empty when nothing does.
    """

    def remove(bucket: Bucket) -> str:
        for key, each in _uploads(bucket):
            try:
                bucket.client.abort_multipart_upload(Bucket=bucket.name, Key=key, UploadId=each["UploadId"])
            except bucket.client.exceptions.NoSuchUpload:  # completed or aborted since the listing
                continue
            removed(1)
        return ""

    return in_buckets(places, BucketWork(remove, _UNKNOWN, _ELSEWHERE, _REFUSED))


def find_uploads(place: Location) -> tuple[list[MultipartUpload], str]:
    """Returns the uploads that the store lists below the place, and why there may be more; empty when the list is complete."""
    found: list[MultipartUpload] = []

    def look(bucket: Bucket) -> str:
        found.extend(MultipartUpload(key.removeprefix(bucket.prefix), each["Initiated"]) for key, each in _uploads(bucket))
        return ""

    return found, in_buckets([place], BucketWork(look, _UNKNOWN, _ELSEWHERE, _REFUSED))


def _uploads(bucket: Bucket) -> Iterator[tuple[str, dict[str, Any]]]:
    """Lists from a marker, not by a prefix: MinIO treats a prefix as the whole key."""
    marker, upload = bucket.prefix, ""
    while True:
        page = bucket.client.list_multipart_uploads(Bucket=bucket.name, KeyMarker=marker, UploadIdMarker=upload)
        found = page.get("Uploads", [])
        yield from ((each["Key"], each) for each in found if each["Key"].startswith(bucket.prefix))
        if not page["IsTruncated"] or not found[-1]["Key"].startswith(bucket.prefix):
            return
        marker, upload = page["NextKeyMarker"], page["NextUploadIdMarker"]
