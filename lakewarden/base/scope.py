"""The unit of every operation: one table, or one user's part of it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lakewarden.errors import InvalidArgument, NotFound

NOTHING = -1
"""How far a scope is, by position or by `_seq`, before the first one."""


# Each look-up in the catalog hashes and compares them, which a dataclass does in Python.
class TableName(msgspec.Struct, frozen=True, order=True):
    """A table's full name."""

    namespace: str
    name: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        """`chat.messages` → TableName("chat", "messages").

        Raises:
            InvalidArgument: the text is not exactly `namespace.table`.
        """
        namespace, dot, name = text.partition(".")
        if not (dot and namespace and name) or "." in name:
            raise InvalidArgument(f"table name {text!r} is not of the form namespace.table, as in chat.messages")
        return cls(namespace, name)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


class Scope(msgspec.Struct, frozen=True):
    """`(table, user)` for USER and STREAM tables, `(table, None)` for SHARED ones."""

    table: TableName
    user: str | None = None

    def __str__(self) -> str:
        return str(self.table) if self.user is None else f"{self.table}[{self.user}]"


def without_table(scope: Scope) -> NotFound:
    """The error of what needs a scope's Delta table, where none was ever made."""
    known = "" if scope.user is None else f", or see whether the user is called {scope.user!r}"
    return NotFound(
        f"{scope} has no Delta table, so no version: nothing was ever flushed there; flush its rows, if it has any{known}"
    )


def scopes_by_user(table: TableName, users: Sequence[str]) -> list[Scope]:
    """The table's scopes of these users; without any, the one of a SHARED table."""
    return [Scope(table, user) for user in users] if users else [Scope(table)]
