"""Of which scopes this process has seen that other writers ask something of their rows (`delta.row_rules`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakewarden.catalog.target import ScopeTarget
    from lakewarden.delta.commit_log.actions import TableHead


@dataclass(frozen=True)
class RuledTable:
    """A scope's table with rules, as it was opened last in this process."""

    target: ScopeTarget
    head: TableHead


class KnownRules:
    """What was seen of the tables that were opened, for writes, which open none; safe for threads."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._found: dict[str, dict[str, RuledTable]] = {}
        self._lock = Lock()

    def of(self, log_id: str) -> Mapping[str, RuledTable]:
        """Those of a table's scopes by user, empty text for a SHARED table's."""
        return self._found.get(log_id, {}) if self._found else {}

    def see(self, target: ScopeTarget, head: TableHead, *, has: bool) -> None:
        """Call this where a scope's newest table was opened. `has`: whether it has rules."""
        if not (has or self._found):
            return
        log_id, user = target.log_id, target.scope.user or ""
        with self._lock:
            of_table = {name: each for name, each in self._found.get(log_id, {}).items() if name != user}
            if has and sum(map(len, self._found.values())) < self._most:
                of_table[user] = RuledTable(target, head)
            self._found = {name: each for name, each in self._found.items() if name != log_id}
            if of_table:
                self._found[log_id] = of_table


KNOWN_RULES = KnownRules()
