"""By which rule compact and optimize have nothing to do for a scope, decided from its files' sizes by their own functions.

A rule is noted with its parameters, as one number. So other settings find no scope quiet until each was looked at again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from lakewarden.delta.parquet.files import DataFile
from lakewarden.operations.compact.scope import CompactOptions
from lakewarden.operations.compact.tail import fitting, small_run
from lakewarden.operations.optimize.packing import not_worth_it, pack_files
from lakewarden.report import ScopeState
from lakewarden.settings import Settings

UNKNOWN = 0
"""Instead of a rule: there may be something to do."""


@dataclass(frozen=True)
class Rules:
    """The rules of one warehouse's settings."""

    compaction: CompactOptions
    min_gain: float

    @classmethod
    def of(cls, settings: Settings) -> Rules:
        return cls(CompactOptions.of(settings.compaction), settings.maintenance.min_gain)

    def compact(self, *, shared: bool) -> int:
        """The rule of the scopes of a table."""
        rule = self.compaction.rule(shared=shared)
        return _number("compact", rule.min_files, rule.max_files, rule.max_rows)

    def optimize(self, target_file_size: int) -> int:
        return _number("optimize", target_file_size, self.min_gain)

    def compacted(self, state: ScopeState, *, shared: bool) -> int:
        """The rule, if a compaction finds nothing to do in this state; else `UNKNOWN`: the files' schemas count too."""
        rule = self.compaction.rule(shared=shared)
        quiet = _is_listed(state) and not fitting(small_run(_files(state), rule), rule)
        return self.compact(shared=shared) if quiet else UNKNOWN

    def optimized(self, state: ScopeState, target_file_size: int) -> int:
        """The rule, if packing finds nothing to do in this state; else `UNKNOWN`."""
        quiet = _is_listed(state) and not_worth_it(pack_files(_files(state), target_file_size), self.min_gain)
        return self.optimize(target_file_size) if quiet else UNKNOWN


def _is_listed(state: ScopeState) -> bool:
    return len(state.layout) == state.files


def _files(state: ScopeState) -> Sequence[DataFile]:
    """The files, newest first, without names: of files of one size it does not matter which is packed first."""
    listed = enumerate(state.layout)
    return [DataFile(str(at), size, None if rows < 0 else rows, 0, None, None) for at, (rows, size) in listed]


def _number(*rule: object) -> int:
    """A positive number for the rule with these parameters."""
    return int.from_bytes(hashlib.sha256(repr(rule).encode()).digest()[:7], "big") + 1
