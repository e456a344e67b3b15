"""Old versions in an S3 bucket, by a listing of our own. Without boto3 there is none; the certificate then says so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lakewarden.connection import Location
from lakewarden.errors import StorageUnavailable
from lakewarden.storage.location import canonical
from lakewarden.storage.options import boto_options
from lakewarden.verify.listing import Found


@dataclass(frozen=True)
class OldVersion:
    """A version that is not the newest of its key."""

    found: Found
    version: str


class OldVersions:
    """Those below one place; none where it is no S3 bucket."""

    def __init__(self, place: Location) -> None:
        self._place = place
        scheme, _, rest = canonical(place.uri).partition("://")
        self._bucket, _, self._prefix = rest.partition("/")
        self._client = _client(place) if scheme == "s3" else None

    def __iter__(self) -> Iterator[OldVersion]:
        """Raises:
        StorageUnavailable: they cannot be listed.
        """
        if self._client is None:
            return
        from botocore.exceptions import BotoCoreError, ClientError  # there, as its client is

        prefix = f"{self._prefix}/" if self._prefix else ""
        pages = self._client.get_paginator("list_object_versions").paginate(Bucket=self._bucket, Prefix=prefix)
        try:
            for page in pages:
                for each in page.get("Versions", []):
                    if not each["IsLatest"] and each["Size"]:
                        found = Found(self._place, each["Key"].removeprefix(prefix), each["Size"])
                        yield OldVersion(found, each["VersionId"])
        except (BotoCoreError, ClientError) as error:
            raise StorageUnavailable(f"the old versions in {self._place} cannot be listed: {error}") from error

    def content(self, old: OldVersion) -> bytes:
        """Empty where it is gone by now."""
        if self._client is None:
            return b""
        key = "/".join(part for part in (self._prefix, old.found.key) if part)
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=key, VersionId=old.version)
        except self._client.exceptions.NoSuchKey:
            return b""
        return bytes(answer["Body"].read())


def _client(place: Location) -> Any:
    try:
        import boto3  # an optional dependency
    except ImportError:
        return None
    return boto3.client("s3", **boto_options(place, os.environ))
