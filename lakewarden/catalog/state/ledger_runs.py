"""Runs: which objects a ledger knows, as records of 32 bytes, sorted by the digest of the key.

A batch that counts leaves one run of level 0. Sixteen runs of a level are merged into one of the next, so an object is written
again as often as the number of objects grows sixteenfold, and a ledger of a million batches has some eighty runs.
A few objects are looked up by ranged reads: digests are spread evenly, so the place of one follows from its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lakewarden.errors import Corrupt
from lakewarden.storage.objects import ObjectStore

FAN_IN = 16
"""Runs of a level that are merged."""
RECORD = np.dtype([("high", "<u8"), ("low", "<u8"), ("etag", "<u8"), ("number", "<u8")])
LOST = 99
"""The level of a run without records, which stands for lost ones: what they knew is not known any more."""
PASSED = 98
"""The level of one whose loss an operator has said to pass over: what no other run knows is new."""
_NAME = re.compile(r"(\d{2})-(\d{20})-(\d{20})-(\d{20})")
_WHOLE = 4096
"""Records of a run that is read whole: 128 KiB, about what one request is worth."""
_FEW = 64
"""Objects above which a run is read whole."""

Records = npt.NDArray[Any]


class KnownObject(NamedTuple):
    """What is known of an object: the digest of its ETag, None where that is lost, and the attempt that took it."""

    etag: int | None
    number: int

    def is_of(self, etag: str) -> bool:
        """Whether the object was taken with this ETag."""
        return self.etag == etag_digest(etag)


@dataclass(frozen=True)
class RunName:
    """A run covers the numbers of the ledger from `first` to `last`."""

    level: int
    first: int
    last: int
    count: int

    @property
    def is_lost(self) -> bool:
        return self.level == LOST

    def covers(self, number: int) -> bool:
        return self.first <= number <= self.last

    def __str__(self) -> str:
        return f"{self.level:02d}-{self.first:020d}-{self.last:020d}-{self.count:020d}"

    @classmethod
    def parse(cls, text: str) -> RunName:
        """Raises Corrupt: no run has such a name."""
        found = _NAME.fullmatch(text)
        if found is None:
            raise Corrupt(f"{text!r} is not a name of a run of a ledger")
        return cls(*map(int, found.groups()))


def digest(key: str) -> tuple[int, int]:
    raw = blake2b(key.encode(), digest_size=16).digest()
    return int.from_bytes(raw[:8], "big"), int.from_bytes(raw[8:], "big")


def etag_digest(etag: str) -> int:
    return int.from_bytes(blake2b(etag.encode(), digest_size=8).digest(), "big")


def records_of(objects: Iterable[tuple[str, str]], number: int) -> Records:
    """The sorted records of objects, as (key, ETag), that an attempt took."""
    rows = [(*digest(key), etag_digest(etag), number) for key, etag in objects]
    return merged([np.array(rows, RECORD)])


def merged(runs: Sequence[Records]) -> Records:
    """One run of several: of each object, the record with the highest number."""
    rows = np.concatenate([np.empty(0, RECORD), *runs])
    # By object, and within one by number, so that the last row of each is the newest.
    rows = rows[np.lexsort((rows["number"], rows["low"], rows["high"]))]
    if not len(rows):
        return rows
    last = (rows["high"][1:] != rows["high"][:-1]) | (rows["low"][1:] != rows["low"][:-1])
    newest: Records = rows[np.append(last, True)]
    return newest


def is_read_whole(name: RunName, objects: int) -> bool:
    """Whether a run is read whole to look up this many objects."""
    return name.count <= _WHOLE or objects > _FEW


def look_up(
    store: ObjectStore, key: str, name: RunName, digests: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], KnownObject]:
    """What a large run knows of a few objects. Raises `Missing` where it was merged meanwhile."""
    found: dict[tuple[int, int], KnownObject] = {}
    for one in digests:
        found |= found_in(_around(store, key, name, one[0]), [one])
    return found


def read_run(store: ObjectStore, key: str, name: RunName) -> Records:
    """Raises Corrupt: it does not have the records that its name says."""
    data = store.get(key)
    # Records have no checksum; the name says how many there are.
    if len(data) != name.count * RECORD.itemsize:
        raise Corrupt(f"{key} has {len(data)} bytes; its name says {name.count} records")
    return np.frombuffer(data, RECORD)


def _around(store: ObjectStore, key: str, name: RunName, high: int) -> Records:
    """The records among which the digest is, if it is there: four standard deviations around where it is expected."""
    # Digests are spread evenly: the standard deviation of a place is at most half of the root of the count.
    middle, spread = high * name.count >> 64, 64 + 2 * int(name.count**0.5)
    first, last = max(0, middle - spread), min(name.count, middle + spread)
    data = store.get_range(key, first * RECORD.itemsize, (last - first) * RECORD.itemsize)
    rows = np.frombuffer(data, RECORD)
    below = first == 0 or int(rows["high"][0]) < high
    above = last == name.count or int(rows["high"][-1]) > high
    # Where the range does not enclose the digest, chance was unkind: then all of the run is read.
    return rows if below and above else read_run(store, key, name)


def found_in(rows: Records, digests: Sequence[tuple[int, int]]) -> dict[tuple[int, int], KnownObject]:
    """Two keys whose digests begin alike stand side by side."""
    highs, wanted = rows["high"], np.array([high for high, _ in digests], "u8")
    starts = np.searchsorted(highs, wanted)
    there = np.zeros(len(wanted), np.bool_)
    inside = starts < len(rows)
    there[inside] = highs[starts[inside]] == wanted[inside]
    found = {}
    for place in np.flatnonzero(there).tolist():
        high, low = digests[place]
        for row in rows[int(starts[place]) :]:
            if int(row["high"]) != high:
                break
            if int(row["low"]) == low:
                found[high, low] = KnownObject(int(row["etag"]), int(row["number"]))
    return found


def to_merge(names: Iterable[RunName]) -> list[RunName]:
    """The runs that are to be merged now; empty where none are: the oldest of the lowest level that has enough of them."""
    # Runs that stand for lost ones keep the numbers that they cover: merged, they would count as known.
    whole = [name for name in names if name.level < PASSED]
    for _, level in groupby(sorted(whole, key=lambda name: (name.level, name.first)), key=lambda name: name.level):
        if len(group := list(level)) >= FAN_IN:
            return group[:FAN_IN]
    return []


def gaps(names: Iterable[RunName]) -> list[tuple[int, int]]:
    """The numbers that no run covers although later ones are, as first and last."""
    found, covered = list[tuple[int, int]](), 0
    for name in sorted(names, key=lambda name: (name.first, name.last)):
        if name.first > covered + 1:
            found.append((covered + 1, name.first - 1))
        # Runs may overlap while a merge is under way.
        covered = max(covered, name.last)
    return found
