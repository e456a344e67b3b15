"""Removes old versions of objects in a versioned bucket, where deleting an object only hides it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from lakewarden.base.connection import Location
from lakewarden.storage.buckets import Bucket, BucketWork, in_buckets

_AT_ONCE = 1_000
"""The most objects that S3 deletes in one request."""

UNKNOWN = (
    "old versions in the bucket were not checked: boto3 is missing (install lakewarden[s3] and erase again), or "
    "remove them yourself: aws s3api list-object-versions, then delete-objects"
)
ELSEWHERE = "old versions are not checked on this kind of store: where versioning or soft delete is on, remove them yourself"
_REFUSED = "old versions may remain (remove them with aws s3api delete-objects)"


def remove_old_versions(places: Iterable[Location], removed: Callable[[int], None]) -> str:
    """Removes every version but the newest, and every mark of a deletion, below these places.

    Calls `removed` with the number of each batch. Returns what remains to be done by hand; empty when nothing does. Directories
    have no versions.
    """
    return in_buckets(places, BucketWork(lambda bucket: _remove(bucket, removed), UNKNOWN, ELSEWHERE, _REFUSED))


def _remove(bucket: Bucket, removed: Callable[[int], None]) -> str:
    old = _old_versions(bucket)
    while batch := list(islice(old, _AT_ONCE)):
        answer = bucket.client.delete_objects(Bucket=bucket.name, Delete={"Objects": batch, "Quiet": True})
        refused = answer.get("Errors", [])
        removed(len(batch) - len(refused))
        if refused:
            return f"{len(refused)} old versions in {bucket.name} could not be removed: {refused[0].get('Message')}"
    return ""


def _old_versions(bucket: Bucket) -> Iterator[dict[str, str]]:
    for page in bucket.client.get_paginator("list_object_versions").paginate(Bucket=bucket.name, Prefix=bucket.prefix):
        for each in page.get("Versions", []):
            if not each["IsLatest"]:
                yield {"Key": each["Key"], "VersionId": each["VersionId"]}
        for each in page.get("DeleteMarkers", []):
            yield {"Key": each["Key"], "VersionId": each["VersionId"]}
