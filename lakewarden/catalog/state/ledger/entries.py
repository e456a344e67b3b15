"""The entries of a ledger: batches, which say what is to be taken, and attempts at them, which say how it went.

They share one sequence of numbers. An attempt counts if the table's Delta log has its number, or the catalog if the table has no
schema; of the attempts at a batch, one counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import msgspec

from lakewarden.errors import Corrupt
from lakewarden.storage.sources.source import SourceObject

Outcome = Literal["ingested", "rejected", "left"]
"""`left`: it was gone, or had another ETag, when it was read: the batch counts without it, and it is not known."""

FORMAT = 1


@dataclass(frozen=True)
class OfferedObject:
    """An object of a batch, as it was listed."""

    object: SourceObject
    replaces: bool = False
    """Whether earlier rows of the object may be in the table: it was known with another ETag, or is forced."""


@dataclass(frozen=True)
class ObjectBatch:
    """The objects that are taken together."""

    number: int
    job_id: str
    at: datetime
    objects: tuple[OfferedObject, ...]
    format: int = FORMAT


@dataclass(frozen=True)
class ObjectFate:
    """What became of one object."""

    outcome: Outcome
    rows: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Attempt:
    """What an attempt at a batch made of its objects, in their order; named before its commit."""

    number: int
    batch: int
    job_id: str
    at: datetime
    taken: tuple[ObjectFate, ...]
    format: int = FORMAT


Entry = ObjectBatch | Attempt


class _Tagged(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of them, as JSON has it."""

    batch: ObjectBatch | None = None
    attempt: Attempt | None = None


def encode(entry: Entry) -> bytes:
    return msgspec.json.encode(_Tagged(batch=entry) if isinstance(entry, ObjectBatch) else _Tagged(attempt=entry))


def decode(data: bytes, name: str) -> Entry:
    """`name` says in a message where the bytes came from.

    Raises:
        Corrupt: they are no entry, or one of a newer format.
    """
    try:
        found = msgspec.json.decode(data, type=_Tagged)
    except (msgspec.DecodeError, ValueError) as error:
        raise Corrupt(f"{name} is no entry of a ledger: {error}") from error
    entry = found.batch or found.attempt
    if entry is None or entry.format != FORMAT:
        raise Corrupt(f"{name} is no entry of a ledger of format {FORMAT}")
    return entry
