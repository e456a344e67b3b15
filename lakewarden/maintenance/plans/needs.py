"""Which scopes an operation has to open, by what was noted of them: for one note, and for all of an object together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lakewarden.catalog.model import Table
from lakewarden.catalog.state.floor_entries import NO_TABLE, UNSEEN, KnownScopes, Rows
from lakewarden.catalog.state.floor_objects import Summary
from lakewarden.tables.upkeep_rules import UNKNOWN, FoldRule, PackRule, UpkeepRule
from lakewarden.tables.warehouse import Warehouse


class Need(ABC):
    """When an operation may find something to do. A scope that was not looked at is always opened."""

    @abstractmethod
    def anywhere(self, summary: Summary) -> bool:
        """Whether it may for one of the scopes."""

    @abstractmethod
    def rows(self, scopes: KnownScopes) -> Rows:
        """For which of the scopes."""

    def later(self, scopes: KnownScopes) -> Rows:
        """For which of the others it may, too, where that can wait for a rolling look."""
        return np.zeros(len(scopes), np.bool_)


@dataclass(frozen=True)
class UnseenScopes(Need):
    """A check: those alone that were not looked at."""

    def anywhere(self, summary: Summary) -> bool:
        return summary.looked_at == UNSEEN

    def rows(self, scopes: KnownScopes) -> Rows:
        found: Rows = scopes["looked_at"] == UNSEEN
        return found


@dataclass(frozen=True)
class OtherRule(Need):
    """Compact and optimize: unless nothing was to do by this rule, or by a looser one, and no commit came since.

    `paced`: where nothing was to do by another rule, and no commit came since, a rolling look comes to it.
    """

    column: Literal["compacted", "optimized"]
    rule: UpkeepRule
    paced: bool = False

    def anywhere(self, summary: Summary) -> bool:
        found = summary.compacted if self.column == "compacted" else summary.optimized
        return summary.looked_at == UNSEEN or found is None or not all(map(self._covers, found))

    def rows(self, scopes: KnownScopes) -> Rows:
        found: Rows = (scopes["looked_at"] == UNSEEN) | (self._uncovered(scopes) & ~self.later(scopes))
        return found

    def later(self, scopes: KnownScopes) -> Rows:
        found: Rows = self._uncovered(scopes) & (scopes[self.column] != UNKNOWN) & self.paced
        return found

    def _uncovered(self, scopes: KnownScopes) -> Rows:
        noted = np.unique(scopes[self.column])
        covering = [number for number in noted.tolist() if self._covers(number)]
        found: Rows = ~np.isin(scopes[self.column], covering)
        return found

    def _covers(self, noted: int) -> bool:
        return noted == NO_TABLE or self.rule.covers(noted)


def to_compact(warehouse: Warehouse, table: Table, ratio: float | None = None, *, paced: bool = False) -> Need:
    """With another ratio than the table's where it is given."""
    tail = warehouse.rules(table).tail
    return OtherRule("compacted", FoldRule(tail if ratio is None else replace(tail, ratio=ratio)), paced)


def to_optimize(warehouse: Warehouse, table: Table, ratio: float | None = None, *, paced: bool = False) -> Need:
    """Without a Z-order, which opens each scope. With another ratio as `to_compact`."""
    rules = warehouse.rules(table)
    chosen = rules.tail.ratio if ratio is None else ratio
    return OtherRule("optimized", PackRule(warehouse.target_file_size(table), rules.min_gain, chosen), paced)
