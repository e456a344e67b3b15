"""One step of a workload as a value, and the rows that it leaves if it is done."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import product
from typing import Literal, NamedTuple

Kind = Literal["write", "delete", "flush", "compact", "optimize", "vacuum", "restore", "drop", "create", "erase"]

Rows = dict[int, str]
"""The stamp of each row's text, by its key."""


class ScopeKey(NamedTuple):
    table: str
    user: str
    """Empty for a SHARED table."""


@dataclass(frozen=True)
class Step:
    """What is done. `sizes` has the bytes of each written row's text by user and key; those of a delete do not matter."""

    kind: Kind
    table: str = ""
    user: str = ""
    sizes: dict[str, dict[int, int]] = field(default_factory=dict)
    version: int = -1
    discard: bool = False

    @property
    def finishes(self) -> bool:
        """Whether it is done again after a cut, since it may have been left half done."""
        return self.kind in ("drop", "create", "erase")


def stamp_of(number: int, size: int) -> str:
    """Says which step wrote a row: no two steps write the same."""
    return f"{number}.{size}"


def text_of(stamp: str, key: int) -> str:
    """The text of a row, which no compression makes much smaller."""
    size = int(stamp.partition(".")[2])
    return f"{stamp}." + hashlib.shake_256(f"{stamp}.{key}".encode()).hexdigest(size // 2)


def stamp_in(text: str, key: int) -> str:
    """The stamp of a row that was read, or what is wrong with its text."""
    stamp = text.rpartition(".")[0]
    try:
        return stamp if text_of(stamp, key) == text else f"mangled {stamp}"
    except ValueError:
        return f"mangled {text[:40]!r}"


@dataclass
class Expected:
    """The rows of every scope, and those of earlier versions that can still be restored."""

    tables: set[str] = field(default_factory=set)
    scopes: dict[ScopeKey, Rows] = field(default_factory=dict)
    versions: dict[ScopeKey, dict[int, Rows]] = field(default_factory=dict)

    def begin(self, step: Step) -> None:
        """What is true from the moment at which a step begins: which versions can't be counted on any more."""
        if step.kind in ("vacuum", "drop", "erase"):
            for scope in list(self.versions):
                if step.table in ("", scope.table) and step.user in ("", scope.user):
                    del self.versions[scope]

    def apply(self, number: int, step: Step, versions: dict[ScopeKey, int] | None = None) -> None:
        """The step is done, and made these versions of scopes."""
        scope = ScopeKey(step.table, step.user)
        match step.kind:
            case "write" | "delete":
                self._apply_rows(number, step)
            case "restore":
                self.scopes[scope] = dict(self.versions[scope][step.version])
            case "drop":
                self.tables.discard(step.table)
                self.scopes = {scope: rows for scope, rows in self.scopes.items() if scope.table != step.table}
            case "create":
                self.tables.add(step.table)
            case "erase":
                self.scopes.pop(scope, None)
        for scope, version in (versions or {}).items():
            self.versions.setdefault(scope, {})[version] = dict(self.scopes.get(scope, {}))

    def _apply_rows(self, number: int, step: Step) -> None:
        for user, sizes in step.sizes.items():
            rows = self.scopes.setdefault(ScopeKey(step.table, user), {})
            for key, size in sizes.items():
                if step.kind == "write":
                    rows[key] = stamp_of(number, size)
                else:
                    rows.pop(key, None)

    def copy(self) -> Expected:
        return deepcopy(self)


def outcomes(expected: Expected, open_steps: Iterable[tuple[int, Step]]) -> Iterator[Expected]:
    """All that may be there, if each step that was not acknowledged is whole or absent."""
    steps = list(open_steps)
    choices = [(True,) if step.finishes else (False, True) for _, step in steps]
    for chosen in product(*choices):
        outcome = expected.copy()
        for happened, (number, step) in zip(chosen, steps, strict=True):
            if happened:
                outcome.apply(number, step)
        yield outcome
