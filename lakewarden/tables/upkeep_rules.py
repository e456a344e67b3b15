"""By which rule compact and optimize have nothing to do for a scope, decided from its files' sizes by their own functions.

A rule is noted with its parameters, as one number. A verdict holds under the same rule, and under each that is stricter: what
finds more to do found nothing. Under any other rule a scope is looked at again.

A number has, above bit 62, that it says how strict its rule is; then, in 31 bits each, that strictness and a digest of the
bounds in which two rules have to agree. Earlier releases noted a digest of all parameters, below bit 57.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf

from lakewarden.catalog.kept_settings import TailRule
from lakewarden.catalog.report import ScopeState
from lakewarden.delta.parquet.files import DataFile
from lakewarden.tables.upkeep_files import fitting, small_run, why_not

UNKNOWN = 0
"""Instead of a rule: there may be something to do."""

_GRADED = 1 << 62
_BITS = 31
_LOWER = 256
"""How many lower values of `min_files` count as those of looser rules: more are possible, and nobody sets them."""


@dataclass(frozen=True)
class FoldRule:
    """Compact's. Of two with the same bounds that with more `min_files` is stricter, and that with a smaller ratio; the one
    without a ratio is the loosest."""

    tail: TailRule

    @property
    def loosest(self) -> FoldRule:
        """The same without a ratio: what it finds nothing to do for, this one does not either."""
        return FoldRule(replace(self.tail, ratio=0.0))

    @property
    def number(self) -> int:
        """What is noted where it finds nothing to do."""
        return _graded(self._grade, self._digest(self.tail.min_files))

    def covers(self, noted: int) -> bool:
        """Whether it finds nothing to do where that was noted, since that rule is the same or looser."""
        if not noted & _GRADED:
            return noted in _of_earlier_releases(self.tail)
        grade, digest = _parts(noted)
        return grade >= self._grade and digest in _digests(self.tail)

    def finds_nothing(self, newest_first: Sequence[DataFile]) -> bool:
        """Whether these files are to stay."""
        return not fitting(small_run(newest_first, self.tail), self.tail)

    @property
    def _grade(self) -> int:
        return _ascending(self.tail.ratio or inf)

    def _digest(self, min_files: int) -> int:
        return _digest("compact", min_files, self.tail.max_files, self.tail.max_rows)


@dataclass(frozen=True)
class PackRule:
    """Optimize's. Of two with the same target and ratio that with more to gain is stricter; and one with a ratio than the same
    without."""

    target_file_size: int
    min_gain: float
    ratio: float = 0.0

    @property
    def loosest(self) -> PackRule:
        return PackRule(self.target_file_size, self.min_gain)

    @property
    def number(self) -> int:
        return _graded(_ascending(self.min_gain), self._digest(self.ratio))

    def covers(self, noted: int) -> bool:
        if not noted & _GRADED:
            return noted == _ungraded("optimize", self.target_file_size, self.min_gain)
        grade, digest = _parts(noted)
        return grade <= _ascending(self.min_gain) and digest in {self._digest(self.ratio), self._digest(0.0)}

    def finds_nothing(self, newest_first: Sequence[DataFile]) -> bool:
        return bool(why_not(newest_first, self.target_file_size, self.min_gain, self.ratio))

    def _digest(self, ratio: float) -> int:
        return _digest("optimize", self.target_file_size, ratio)


UpkeepRule = FoldRule | PackRule
"""Of one operation for one table."""


def verdict(rule: UpkeepRule, newest_first: Sequence[DataFile]) -> int:
    """Its number, if it finds nothing to do with these files; else `UNKNOWN`: their schemas count too."""
    return rule.number if rule.finds_nothing(newest_first) else UNKNOWN


def loosest(verdicts: Iterable[int], rules: Sequence[UpkeepRule]) -> int:
    """The verdict that most of these rules take, the first rule's counting most; `UNKNOWN` where there is none.

    `rules` from the loosest to the strictest.
    """
    return max((one for one in verdicts if one != UNKNOWN), key=lambda one: [each.covers(one) for each in rules], default=UNKNOWN)


def files_of(state: ScopeState) -> Sequence[DataFile]:
    """The files, newest first, without names: of files of one size it does not matter which is packed first."""
    listed = enumerate(state.layout)
    return [DataFile(str(at), size, None if rows < 0 else rows, 0, None, None) for at, (rows, size) in listed]


@lru_cache(maxsize=256)
def _digests(tail: TailRule) -> frozenset[int]:
    """Of the bounds of rules that are not stricter."""
    return frozenset(_digest("compact", files, tail.max_files, tail.max_rows) for files in _lower(tail))


@lru_cache(maxsize=256)
def _of_earlier_releases(tail: TailRule) -> frozenset[int]:
    """The numbers of rules that are not stricter: those releases knew no ratio."""
    return frozenset(_ungraded("compact", files, tail.max_files, tail.max_rows) for files in _lower(tail))


def _lower(tail: TailRule) -> range:
    return range(max(2, tail.min_files - _LOWER), tail.min_files + 1)


def _graded(grade: int, digest: int) -> int:
    return _GRADED | grade << _BITS | digest


def _parts(number: int) -> tuple[int, int]:
    """The grade and the digest."""
    mask = (1 << _BITS) - 1
    return number >> _BITS & mask, number & mask


def _ascending(value: float) -> int:
    """The bits of a number that is not negative: of two, the larger has the larger ones."""
    bits: int = struct.unpack(">I", struct.pack(">f", value))[0]
    return bits


def _digest(*bounds: object) -> int:
    return _ungraded(*bounds) & ((1 << _BITS) - 1)


@lru_cache(maxsize=4096, typed=True)  # 0 and 0.0 are different texts
def _ungraded(*rule: object) -> int:
    """A positive number for the rule with these parameters."""
    return int.from_bytes(hashlib.sha256(repr(rule).encode()).digest()[:7], "big") + 1
