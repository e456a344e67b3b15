"""The users of a warehouse: those of the catalog, and those who have rows, whom the catalog need not know."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from lakewarden.base.scope import TableName
from lakewarden.catalog.access import can
from lakewarden.catalog.names import Role
from lakewarden.tables.warehouse import Warehouse, live_tables


@dataclass(frozen=True)
class KnownUser:
    """A user and the tables in which the user has rows, hot or cold, or had them."""

    user: str
    role: Role | None
    """The role in the catalog; None when it has no such user."""
    tables: tuple[TableName, ...]


def known_users(warehouse: Warehouse) -> list[KnownUser]:
    """Returns every user, by name. Reads the list of scopes of each table, and the headers of its log."""
    catalog = warehouse.catalog.read()
    views = warehouse.logs.views().sound
    tables: dict[str, list[TableName]] = defaultdict(list)
    for table in live_tables(catalog):
        if can(table.type, "a scope per user"):
            view = views.get(table.log_id)
            for user in warehouse.registry.users(table.id).union(() if view is None else view.pending):
                tables[user].append(table.name)
    roles = {user.user_id: user.role for user in catalog.users.values() if user.deleted_at is None}
    return [KnownUser(user, roles.get(user), tuple(tables.get(user, ()))) for user in sorted(roles.keys() | tables.keys())]
