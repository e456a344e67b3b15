"""What statements are made of. `parse` creates them, `execute` runs them; `sql/specs/` says what there is to know of each.

They are not resolved: a table's name is as written, and options and types are text that the catalog's rules check.
Queries and expressions are sqlglot's trees; code that rewrites one copies it first.
"""

from __future__ import annotations

from dataclasses import dataclass, field


class Statement:
    """A statement as it was parsed: a frozen value that names are not resolved in yet."""


@dataclass(frozen=True)
class Ref:
    """A table or view as written; without a namespace, it is in the session's."""

    name: str
    namespace: str | None = None

    def __str__(self) -> str:
        return self.name if self.namespace is None else f"{self.namespace}.{self.name}"


Pairs = tuple[tuple[str, str], ...]
"""Keys and values in the order of the text; a key may occur twice, which the options' reader refuses."""


@dataclass(frozen=True)
class OnTable(Statement):
    """A statement about one table."""

    table: Ref


@dataclass(frozen=True)
class OnScopes(OnTable):
    """An operation on the session's own scope of a table, or on every scope."""

    all_users: bool = field(default=False, kw_only=True)
    dry_run: bool = field(default=False, kw_only=True)
