"""Old versions of objects in a versioned bucket: deleting an object there only hides it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from lakewarden.connection import Location
from lakewarden.storage.location import canonical
from lakewarden.storage.options import boto_options

_AT_ONCE = 1_000
"""Objects that S3 deletes in one request."""

UNKNOWN = (
    "whether the bucket keeps old versions was not looked at: boto3 is missing (install lakewarden[s3] and erase again), or "
    "remove them yourself: aws s3api list-object-versions, then delete-objects"
)
ELSEWHERE = "on this kind of store old versions are not looked at: where versioning or soft delete is on, remove them yourself"


def remove_old_versions(places: Iterable[Location], removed: Callable[[int], None]) -> str:
    """Removes every version but the newest, and every mark of a deletion, below these places.

    `removed` is told how many more went. Returns what remains to be done by hand; empty where nothing is. Directories have
    no versions.
    """
    notes = set()
    for place in places:
        scheme, separator, rest = canonical(place.uri).partition("://")
        if not separator or scheme == "memory":
            continue
        if scheme != "s3":
            notes.add(ELSEWHERE)
            continue
        bucket, _, prefix = rest.partition("/")
        notes.add(_remove(place, bucket, f"{prefix}/" if prefix else "", removed))
    return "; ".join(sorted(notes - {""}))


def _remove(place: Location, bucket: str, prefix: str, removed: Callable[[int], None]) -> str:
    try:
        import boto3  # an optional dependency
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        return UNKNOWN
    client = boto3.client("s3", **boto_options(place, os.environ))
    try:
        old = _old_versions(client, bucket, prefix)
        while batch := list(islice(old, _AT_ONCE)):
            answer = client.delete_objects(Bucket=bucket, Delete={"Objects": batch, "Quiet": True})
            refused = answer.get("Errors", [])
            removed(len(batch) - len(refused))
            if refused:
                return f"{len(refused)} old versions in {bucket} could not be removed: {refused[0].get('Message')}"
    except (BotoCoreError, ClientError) as error:
        return f"old versions in {bucket} may remain: {error}; remove them with aws s3api delete-objects"
    return ""


def _old_versions(client: Any, bucket: str, prefix: str) -> Iterator[dict[str, str]]:
    for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix):
        for each in page.get("Versions", []):
            if not each["IsLatest"]:
                yield {"Key": each["Key"], "VersionId": each["VersionId"]}
        for each in page.get("DeleteMarkers", []):
            yield {"Key": each["Key"], "VersionId": each["VersionId"]}
