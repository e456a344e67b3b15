"""Lists old versions in an S3 bucket independently. Without boto3 it cannot; the certificate then says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakewarden.base.connection import Location
from lakewarden.errors import StorageUnavailable
from lakewarden.maintenance.verify.buckets import s3_place
from lakewarden.maintenance.verify.listing import ListedObject


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
        """Raises:
        StorageUnavailable: they cannot be listed.
        """
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
