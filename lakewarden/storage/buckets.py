"""A bucket as boto3 sees it, for what obstore cannot do: incomplete uploads, and old versions of objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from lakewarden.base.connection import Location
from lakewarden.errors import StorageRefused, StorageUnavailable
from lakewarden.storage.location import canonical
from lakewarden.storage.meter import boto_client


@dataclass(frozen=True)
class Bucket:
    """`prefix` of the keys below the place, with a slash at its end."""

    client: Any
    name: str
    prefix: str


@dataclass(frozen=True)
class BucketWork:
    """What to do in a bucket. `run` returns what remains to be done by hand. The other fields say the same where it cannot run:
    without boto3, on another kind of store, and (before the error) where the store refuses."""

    run: Callable[[Bucket], str]
    without_boto3: str
    elsewhere: str
    refused: str


def in_buckets(places: Iterable[Location], work: BucketWork) -> str:
    """Does the work in each place that is in a bucket. Returns what remains to be done by hand; empty when nothing does."""
    notes = (_in_bucket(place, work) for place in places)
    return "; ".join(sorted({note for note in notes if note}))


def _in_bucket(place: Location, work: BucketWork) -> str:
    scheme, separator, rest = canonical(place.uri).partition("://")
    if not separator or scheme == "memory":
        return ""
    if scheme != "s3":
        return work.elsewhere
    try:
        from botocore.exceptions import BotoCoreError, ClientError  # of boto3, an optional dependency
    except ImportError:
        return work.without_boto3
    name, _, prefix = rest.partition("/")
    client = boto_client(place)
    try:
        return work.run(Bucket(client, name, f"{prefix}/" if prefix else ""))
    except (BotoCoreError, ClientError) as error:
        return f"{work.refused} in {name}: {error}"


def odd_pages(place: Location, below: str, after: str, why: str) -> Iterator[list[OddObject]]:
    """The listing of a bucket's keys behind one, page by page, with keys that obstore does not list: those with control
    characters, or with an empty part. One of them among thousands would hide all others.

    Args:
        below: a prefix, with a slash at its end unless it is empty.
        why: of the error, where boto3 can't list them either.

    Raises:
        StorageRefused: it is another kind of store, boto3 is missing, or the store refuses it.
        StorageUnavailable: the store can't be reached.
    """
    if not place.uri.startswith("s3://"):
        raise StorageRefused(why)
    try:
        from botocore.exceptions import BotoCoreError, ClientError  # of boto3, an optional dependency
    except ImportError:
        raise StorageRefused(f"{why}; boto3 lists it: install lakewarden[s3]") from None
    client = boto_client(place)
    bucket = place.uri.partition("://")[2].partition("/")[0]
    # From where the other client stopped: what it had listed before is not listed again.
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=below, StartAfter=after)
    try:
        for page in pages:
            yield [OddObject(one["Key"], one["Size"], one["ETag"], one["LastModified"]) for one in page.get("Contents", [])]
    except ClientError as error:
        raise StorageRefused(f"cannot list {place}: {error}") from error
    except BotoCoreError as error:
        raise StorageUnavailable(f"cannot list {place}: {error}") from error


@dataclass(frozen=True)
class OddObject:
    """A line of such a listing. `key` is that in the bucket."""

    key: str
    size: int
    etag: str
    modified: datetime


# Incomplete multipart uploads: their parts stay in the bucket, and no listing of objects shows them.
#
# Lakewarden sends each object in one request. A killed process may leave the uploads of other programs, and checkpoints of more
# than 10 MB that deltalake writes itself.

_UPLOADS_UNKNOWN = "incomplete uploads were not checked: boto3 is missing (install lakewarden[s3] and try again)"
_UPLOADS_ELSEWHERE = "incomplete uploads are not checked on this kind of store: let a rule of the store remove them"
_UPLOADS_REFUSED = "incomplete uploads may remain (remove them with aws s3api abort-multipart-upload)"


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

    return in_buckets(places, BucketWork(remove, _UPLOADS_UNKNOWN, _UPLOADS_ELSEWHERE, _UPLOADS_REFUSED))


def find_uploads(place: Location) -> tuple[list[MultipartUpload], str]:
    """Returns the uploads that the store lists below the place, and why there may be more; empty when the list is complete."""
    found: list[MultipartUpload] = []

    def look(bucket: Bucket) -> str:
        found.extend(MultipartUpload(key.removeprefix(bucket.prefix), each["Initiated"]) for key, each in _uploads(bucket))
        return ""

    return found, in_buckets([place], BucketWork(look, _UPLOADS_UNKNOWN, _UPLOADS_ELSEWHERE, _UPLOADS_REFUSED))


def _uploads(bucket: Bucket) -> Iterator[tuple[str, dict[str, Any]]]:
    """Lists from a marker, not by a prefix: MinIO treats a prefix as the whole key."""
    marker, upload = bucket.prefix, ""
    while True:
        page = bucket.client.list_multipart_uploads(Bucket=bucket.name, KeyMarker=marker, UploadIdMarker=upload)
        found = page.get("Uploads", [])
        yield from ((each["Key"], each) for each in found if each["Key"].startswith(bucket.prefix))
        # Keys come in order: behind the first one outside of the prefix there is none inside.
        if not page["IsTruncated"] or not found[-1]["Key"].startswith(bucket.prefix):
            return
        marker, upload = page["NextKeyMarker"], page["NextUploadIdMarker"]


# Removes old versions of objects in a versioned bucket, where deleting an object only hides it.
_AT_ONCE = 1_000
"""The most objects that S3 deletes in one request."""

VERSIONS_UNKNOWN = (
    "old versions in the bucket were not checked: boto3 is missing (install lakewarden[s3] and erase again), or "
    "remove them yourself: aws s3api list-object-versions, then delete-objects"
)
VERSIONS_ELSEWHERE = (
    "old versions are not checked on this kind of store: where versioning or soft delete is on, remove them yourself"
)
_VERSIONS_REFUSED = "old versions may remain (remove them with aws s3api delete-objects)"


def remove_old_versions(places: Iterable[Location], removed: Callable[[int], None]) -> str:
    """Removes every version but the newest, and every mark of a deletion, below these places.

    Calls `removed` with the number of each batch. Returns what remains to be done by hand; empty when nothing does. Directories
    have no versions.
    """
    return in_buckets(
        places,
        BucketWork(lambda bucket: _remove_versions(bucket, removed), VERSIONS_UNKNOWN, VERSIONS_ELSEWHERE, _VERSIONS_REFUSED),
    )


def _remove_versions(bucket: Bucket, removed: Callable[[int], None]) -> str:
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
            # The newest version is the object itself, whose fate others decide.
            if not each["IsLatest"]:
                yield {"Key": each["Key"], "VersionId": each["VersionId"]}
        # A mark names a key, and keys may have an erased user's id in them.
        for each in page.get("DeleteMarkers", []):
            yield {"Key": each["Key"], "VersionId": each["VersionId"]}
