"""Which version of a scope's past is wanted: by its number, or by a moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from operator import index
from typing import SupportsIndex

from lakewarden.errors import InvalidArgument

_NEWEST = 2**63 - 1
"""The highest version that Delta can count."""


@dataclass(frozen=True)
class AsOf:
    """Exactly one of the two; made by `of`."""

    version: int | None = None
    moment: datetime | None = None
    """Timezone-aware."""

    @classmethod
    def of(cls, version: object = None, timestamp: object = None) -> AsOf | None:
        """Checks what a caller gave; None where that is nothing.

        Args:
            version: a whole number.
            timestamp: a datetime, or a text as of `parse_moment`. Without a zone it is UTC.

        Raises:
            InvalidArgument: both are given, or one that is not a version or a timestamp.
        """
        if version is None and timestamp is None:
            return None
        if version is not None and timestamp is not None:
            raise InvalidArgument("a version and a timestamp are given: read as of one of the two")
        return cls(moment=_moment(timestamp)) if version is None else cls(version=_version(version))

    def __str__(self) -> str:
        return f"version {self.version}" if self.moment is None else self.moment.isoformat()


def _version(given: object) -> int:
    if not isinstance(given, SupportsIndex) or isinstance(given, bool):
        raise InvalidArgument(f"{given!r} is not a version: versions are whole numbers from 0")
    version = index(given)
    if not 0 <= version <= _NEWEST:
        raise InvalidArgument(f"version {version} cannot exist: versions count from 0 and have 64 bits")
    return version


def _moment(given: object) -> datetime:
    if isinstance(given, str):
        return parse_moment(given)
    if not isinstance(given, datetime):
        raise InvalidArgument(f"{given!r} is not a timestamp: give a datetime, or a text such as 2026-11-21T08:30:00Z")
    return in_utc(given)


def in_utc(moment: datetime) -> datetime:
    """The same moment; without a zone it is UTC."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def parse_moment(text: str) -> datetime:
    """Parses an ISO 8601 timestamp; without an offset it is UTC.

    Raises:
        InvalidArgument: the text is not an ISO 8601 timestamp.
    """
    try:
        return in_utc(datetime.fromisoformat(text))
    except ValueError as error:
        raise InvalidArgument(f"{text!r} is not a timestamp: write it as 2026-11-21T08:30:00Z") from error
