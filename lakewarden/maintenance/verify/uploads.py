"""Lists incomplete uploads independently: parts of objects that no listing of objects shows."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.base.connection import Location
from lakewarden.maintenance.verify.buckets import S3Place, s3_place
from lakewarden.maintenance.verify.listing import ListedObject
from lakewarden.storage.location import local_path

_OF_MINIO = (
    "MinIO lists only uploads that began since its last start, on the node that answers; it removes the others itself,"
    " a day after they were begun (stale_uploads_expiry)"
)


@dataclass(frozen=True)
class OpenUploads:
    """The uploads below one place; `unseen` says why there may be more, empty where there cannot be."""

    found: tuple[ListedObject, ...] = ()
    unseen: str = ""


def open_uploads(place: Location) -> OpenUploads:
    if local_path(place.uri) is not None or place.uri.startswith("memory://"):
        return OpenUploads()
    try:
        bucket = s3_place(place)
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        return OpenUploads(unseen="boto3 is missing, without which incomplete uploads are not listed (install lakewarden[s3])")
    if bucket is None:
        return OpenUploads(unseen="incomplete uploads are listed on S3 only, and not on this kind of store")
    try:
        return _listed(place, bucket)
    except (BotoCoreError, ClientError) as error:
        return OpenUploads(unseen=f"the incomplete uploads in {bucket.bucket} cannot be listed: {error}")


def _listed(place: Location, bucket: S3Place) -> OpenUploads:
    """All uploads of the bucket: not every store can list a part of it."""
    found, unseen = [], ""
    for page in bucket.client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket.bucket):
        if page["ResponseMetadata"]["HTTPHeaders"].get("server") == "MinIO":
            unseen = _OF_MINIO
        keys = (each["Key"] for each in page.get("Uploads", []))
        found += [ListedObject(place, key.removeprefix(bucket.prefix), 0) for key in keys if key.startswith(bucket.prefix)]
    return OpenUploads(tuple(found), unseen)
