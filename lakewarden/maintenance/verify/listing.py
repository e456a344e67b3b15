"""Lists a place independently: every file and object, including those that other rooms skip."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakewarden.base.connection import Location
from lakewarden.errors import StorageUnavailable
from lakewarden.storage.location import canonical, join, local_path
from lakewarden.storage.meter import boto_client
from lakewarden.storage.objects import Missing
from lakewarden.storage.open import open_store

# A place as boto3 addresses it, for listings of old versions and uploads.


@dataclass(frozen=True)
class S3Place:
    """`prefix` of the keys below the place, with a slash at its end."""

    client: Any
    bucket: str
    prefix: str


def s3_place(place: Location) -> S3Place | None:
    """Returns None where it is not an S3 bucket.

    Raises:
        ImportError: boto3, which is optional, is not installed.
    """
    scheme, _, rest = canonical(place.uri).partition("://")
    if scheme != "s3":
        return None
    bucket, _, prefix = rest.partition("/")
    return S3Place(boto_client(place), bucket, f"{prefix}/" if prefix else "")


@dataclass(frozen=True)
class ListedObject:
    """One object; `key` is relative to `location`, `size` in bytes."""

    location: Location
    key: str
    size: int

    @property
    def uri(self) -> str:
        return join(self.location.uri, self.key)


def everything(place: Location) -> Iterator[ListedObject]:
    """Raises:
    StorageUnavailable, StorageRefused: the place cannot be listed, so nothing is known of it.
    """
    root = local_path(place.uri)
    if root is None:
        for stored in open_store(place).list(""):
            yield ListedObject(place, stored.key, stored.size)
        return
    for folder, _, names in os.walk(root, onerror=_refused):
        for name in names:
            path = Path(folder, name)
            try:
                yield ListedObject(place, path.relative_to(root).as_posix(), path.lstat().st_size)
            except FileNotFoundError:
                continue  # gone since the directory was read


def content(found: ListedObject) -> bytes | None:
    """The bytes; None where the object is gone."""
    root = local_path(found.location.uri)
    try:
        return open_store(found.location).get(found.key) if root is None else Path(root, found.key).read_bytes()
    except (Missing, FileNotFoundError):
        return None


def part(found: ListedObject, start: int, length: int) -> bytes:
    """Some of the bytes; empty where the object is gone."""
    root = local_path(found.location.uri)
    try:
        if root is None:
            return open_store(found.location).get_range(found.key, start, length)
        with Path(root, found.key).open("rb") as file:
            file.seek(start)
            return file.read(length)
    except (Missing, FileNotFoundError):
        return b""


def _refused(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):  # nothing is below a file
        raise StorageUnavailable(f"cannot list {error.filename}: {error.strerror}; what is there was not searched") from error


_OF_MINIO = (
    "MinIO lists only uploads that began since its last start, on the node that answers; it removes the others itself,"
    " a day after they were begun (stale_uploads_expiry)"
)


# Lists incomplete uploads independently: parts of objects that no listing of objects shows.


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


# Lists old versions in an S3 bucket independently. Without boto3 it cannot; the certificate then says so.


@dataclass(frozen=True)
class OldVersion:
    """A version that is not the newest of its key."""

    found: ListedObject
    version: str


class OldVersions:
    """The old versions below one place; none where it is not an S3 bucket."""

    def __init__(self, place: Location) -> None:
        self._place = place
        try:
            self._s3 = s3_place(place)
        except ImportError:
            self._s3 = None

    def __iter__(self) -> Iterator[OldVersion]:
        """Raises StorageUnavailable: they cannot be listed."""
        if self._s3 is None:
            return
        from botocore.exceptions import BotoCoreError, ClientError  # there, as its client is

        prefix = self._s3.prefix
        pages = self._s3.client.get_paginator("list_object_versions").paginate(Bucket=self._s3.bucket, Prefix=prefix)
        try:
            for page in pages:
                for each in page.get("Versions", []):
                    if not each["IsLatest"] and each["Size"]:
                        found = ListedObject(self._place, each["Key"].removeprefix(prefix), each["Size"])
                        yield OldVersion(found, each["VersionId"])
        except (BotoCoreError, ClientError) as error:
            raise StorageUnavailable(f"the old versions in {self._place} cannot be listed: {error}") from error

    def content(self, old: OldVersion) -> bytes:
        """The bytes; empty where the version is gone."""
        if self._s3 is None:
            return b""
        client, key = self._s3.client, f"{self._s3.prefix}{old.found.key}"
        try:
            answer = client.get_object(Bucket=self._s3.bucket, Key=key, VersionId=old.version)
        except client.exceptions.NoSuchKey:
            return b""
        return bytes(answer["Body"].read())
