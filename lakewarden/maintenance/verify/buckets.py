"""A place as boto3 addresses it, for listings of old versions and uploads."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from lakewarden.base.connection import Location
from lakewarden.storage.location import canonical
from lakewarden.storage.options import boto_options


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
    import boto3

    bucket, _, prefix = rest.partition("/")
    return S3Place(boto3.Session().client("s3", **boto_options(place, os.environ)), bucket, f"{prefix}/" if prefix else "")
