"""The tables of a survey, the worst first, however many there are: beyond some they are in a temporary file."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Collection, Iterator
from tempfile import SpooledTemporaryFile
from typing import Generic, TypeVar

import msgspec

from lakewarden.delta.examination.kinds import Verdict
from lakewarden.maintenance.survey.table_survey import TableSurvey

T = TypeVar("T")

_IN_MEMORY = 16 << 20
"""Bytes of packed values, of some 1 KB each, before they go to a file."""

_HEAD = 4
"""Bytes before a packed value that say how long it is."""

_encode = msgspec.msgpack.Encoder().encode


class SpooledValues(Generic[T]):
    """Values of a type, packed: beyond some in a temporary file without a name, which ends with this object, or with the process.
    Safe for threads."""

    def __init__(self, kind: type[T]) -> None:
        self._decode = msgspec.msgpack.Decoder(kind).decode
        self._lock = threading.Lock()
        self._file = SpooledTemporaryFile(max_size=_IN_MEMORY, prefix="lakewarden-survey-")  # noqa: SIM115  # closed with this object
        weakref.finalize(self, self._file.close)

    def put(self, one: T) -> int:
        """Returns the place of it."""
        packed = _encode(one)
        with self._lock:
            at = self._file.seek(0, 2)
            self._file.write(len(packed).to_bytes(_HEAD) + packed)
        return at

    def get(self, at: int) -> T:
        with self._lock:
            self._file.seek(at)
            packed = self._file.read(int.from_bytes(self._file.read(_HEAD)))
        return self._decode(packed)


_ORDER: dict[Verdict, int] = {"damaged": 0, "unreadable": 1, "catalog": 2, "sound": 3}


class RankedTables(Collection[TableSurvey]):
    """Safe for threads, while tables are added; iterated when all are there, as often as wanted. Of each, rank and place stay in
    memory, some 300 bytes. Tables that are gone since an earlier look stand last, and are not counted."""

    def __init__(self) -> None:
        self._spool = SpooledValues(TableSurvey)
        self._places: list[tuple[tuple[bool, int, int, int, str], int]] = []
        self._verdicts: Counter[Verdict] = Counter()
        self._lock = threading.Lock()

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many tables have each verdict, the worst first; without those that none has."""
        return {verdict: self._verdicts[verdict] for verdict in _ORDER if self._verdicts[verdict]}

    def add(self, found: TableSurvey) -> None:
        place = rank(found), self._spool.put(found)
        with self._lock:
            self._verdicts[found.verdict] += found.change != "gone"
            self._places.append(place)

    def __len__(self) -> int:
        return self._verdicts.total()

    def __contains__(self, found: object) -> bool:
        return any(each == found for each in self)

    def __iter__(self) -> Iterator[TableSurvey]:
        return (self._spool.get(at) for _, at in sorted(self._places))


def rank(found: TableSurvey) -> tuple[bool, int, int, int, str]:
    """What comes first is worse."""
    damage = len(found.damage)
    return found.change == "gone", _ORDER[found.verdict], -damage, -(found.small_files or 0), found.path
