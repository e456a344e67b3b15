"""Which scopes a flush covers: any that a function accepts, or exactly those that are named."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.model import Catalog
from lakewarden.log.view import LogView, PendingRows
from lakewarden.tables.warehouse import cold_tables


class Only:
    """Accepts exactly these scopes. The log is searched for their rows; those of others cost nothing."""

    def __init__(self, scopes: Collection[Scope]) -> None:
        self._users: dict[TableName, set[str | None]] = defaultdict(set)
        for scope in scopes:
            self._users[scope.table].add(scope.user)

    def __call__(self, scope: Scope) -> bool:
        return scope.user in self._users.get(scope.table, ())

    def names(self, table: TableName) -> list[str]:
        """The users as the log names them, sorted."""
        return sorted(user or "" for user in self._users.get(table, ()))


def users_wanted(catalog: Catalog, wanted: Callable[[Scope], bool]) -> dict[str, list[str]] | None:
    """By log id, the users who are wanted; None where only a look at each scope shows that."""
    if not isinstance(wanted, Only):
        return None
    return {table.log_id: wanted.names(table.name) for table in cold_tables(catalog)}


def pending_wanted(table: TableName, view: LogView, wanted: Callable[[Scope], bool]) -> Iterable[PendingRows]:
    """The pending rows of a table's wanted scopes."""
    if isinstance(wanted, Only):
        return view.pending_of(wanted.names(table)).values()
    return (rows for rows in view.pending.values() if wanted(Scope(table, rows.user or None)))
