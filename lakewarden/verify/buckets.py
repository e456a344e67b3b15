"""A place as boto3 knows it, for listings that show what lies behind the objects."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from lakewarden.connection import Location
from lakewarden.storage.location import canonical
from lakewarden.storage.options import boto_options


@dataclass(frozen=True)
class S3Place:
    """`prefix` of the keys below the place, with a slash at its end."""

    client: Any
    bucket: str
    prefix: str


def s3_place(place: Location) -> S3Place | None:
    """None where it is no S3 bucket.

    Raises:
        ImportError: boto3, which is optional, is not there.
    """
    scheme, _, rest = canonical(place.uri).partition("://")
    if scheme != "s3":
        return None
    import boto3

    bucket, _, prefix = rest.partition("/")
    return S3Place(boto3.client("s3", **boto_options(place, os.environ)), bucket, f"{prefix}/" if prefix else "")
