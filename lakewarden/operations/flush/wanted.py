"""Which scopes a flush covers: any that a function accepts, or exactly those that are named."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

from lakewarden.log.view import LogView, PendingRows
from lakewarden.scope import Scope, TableName


class Only:
    """Accepts exactly these scopes. The log is searched for their rows; those of others cost nothing."""

    def __init__(self, scopes: Collection[Scope]) -> None:
        self._users: dict[TableName, set[str | None]] = defaultdict(set)
        for scope in scopes:
            self._users[scope.table].add(scope.user)

    def __call__(self, scope: Scope) -> bool:
        return scope.user in self.users(scope.table)

    def users(self, table: TableName) -> Collection[str | None]:
        return self._users.get(table, ())


def pending_wanted(table: TableName, view: LogView, wanted: Callable[[Scope], bool]) -> Iterable[PendingRows]:
    """The pending rows of a table's wanted scopes."""
    if isinstance(wanted, Only):
        return view.pending_of(sorted(user or "" for user in wanted.users(table))).values()
    return (rows for rows in view.pending.values() if wanted(Scope(table, rows.user or None)))
