"""A place as boto3 sees it, for what obstore cannot do: old versions of objects, and incomplete uploads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from lakewarden.base.connection import Location
from lakewarden.storage.location import canonical
from lakewarden.storage.options import boto_options


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
        import boto3  # an optional dependency
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        return work.without_boto3
    name, _, prefix = rest.partition("/")
    client = boto3.Session().client("s3", **boto_options(place, os.environ))  # the default one keeps the credentials it found
    try:
        return work.run(Bucket(client, name, f"{prefix}/" if prefix else ""))
    except (BotoCoreError, ClientError) as error:
        return f"{work.refused} in {name}: {error}"
