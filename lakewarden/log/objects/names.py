"""Names of a log's objects, and the parsing of listings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lakewarden.log.position import NOTHING

ROOT = "log"
# Of fixed width, so that stores list positions and versions in their order.
_DIGITS = 20


def home(log_id: str) -> str:
    return f"{ROOT}/{log_id}"


def segments(log_id: str) -> str:
    return f"{ROOT}/{log_id}/segments"


def cuts(log_id: str) -> str:
    return f"{ROOT}/{log_id}/cuts"


def segment_key(log_id: str, position: int) -> str:
    return f"{ROOT}/{log_id}/segments/{position:0{_DIGITS}d}"


def cut_key(log_id: str, version: int) -> str:
    return f"{ROOT}/{log_id}/cuts/{version:0{_DIGITS}d}"


def carry_key(log_id: str, version: int, unique: str) -> str:
    return f"{ROOT}/{log_id}/carry/{version:0{_DIGITS}d}/{unique}"


def history_key(log_id: str, version: int, unique: str) -> str:
    return f"{ROOT}/{log_id}/history/{version:0{_DIGITS}d}-{unique}"


def staged(log_id: str, put_id: str) -> str:
    return f"{ROOT}/{log_id}/staged/{put_id}"


def staged_key(log_id: str, put_id: str, number: int) -> str:
    return f"{staged(log_id, put_id)}/{number:0{_DIGITS}d}"


def log_of(key: str) -> str:
    """The id of the log that an object is of."""
    return key.split("/")[1]


def number_of(key: str) -> int | None:
    """The position or version at a key's end; None for an object that is not ours."""
    name = key.rsplit("/", 1)[-1]
    return int(name) if len(name) == _DIGITS and name.isdecimal() and name.isascii() else None


@dataclass
class LogListing:
    """What a listing showed of one partition. Not a moment's picture: objects come and go while a store lists."""

    segments: set[int] = field(default_factory=set)
    cuts: set[int] = field(default_factory=set)
    carry: dict[str, int] = field(default_factory=dict)
    """Each carry object's key, with the version of the cut that it was made for."""
    history: dict[str, int] = field(default_factory=dict)
    """The same of history."""
    staged: dict[str, str] = field(default_factory=dict)
    """Each staged object's key, with the id of its batch."""

    @property
    def newest_cut(self) -> int:
        """0 where there is none."""
        return max(self.cuts, default=0)

    @property
    def last_position(self) -> int:
        return max(self.segments, default=NOTHING)


def listings(keys: Iterable[str]) -> dict[str, LogListing]:
    """Keys under `log/` by partition."""
    found: dict[str, LogListing] = {}
    for key in keys:
        # Names that are not ours are passed over here; a stray file must not stop a log.
        _, log_id, *rest = key.split("/")
        _enter(found.get(log_id) or found.setdefault(log_id, LogListing()), key, rest)
    return found


def listing_of(log_id: str, keys: Iterable[str]) -> LogListing:
    """The same of one partition."""
    return listings(keys).get(log_id, LogListing())


def _enter(listing: LogListing, key: str, rest: list[str]) -> None:
    if len(rest) == 2 and rest[0] == "segments":  # most of them, so before the others
        if (position := number_of(rest[1])) is not None:
            listing.segments.add(position)
        return
    number = number_of(rest[1].partition("-")[0]) if len(rest) > 1 else None
    match rest:
        case ["cuts", _] if number is not None:
            listing.cuts.add(number)
        case ["carry", _, _] if number is not None:
            listing.carry[key] = number
        case ["history", _] if number is not None:
            listing.history[key] = number
        case ["staged", batch, _]:
            listing.staged[key] = batch
