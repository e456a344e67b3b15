"""Finds scopes that have a table but are not in the list of scopes, as with a state from an older backup.

It lists the table's place for their directories; their commits name the user.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakewarden.catalog.model import Catalog, Storage, Table
from lakewarden.delta.commit_log.commits import LOG
from lakewarden.delta.scope import last_flush
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Corrupt
from lakewarden.storage.open import open_store
from lakewarden.storage.paths import table_prefix
from lakewarden.tables.warehouse import Warehouse


def unlisted_users(warehouse: Warehouse, catalog: Catalog, table: Table) -> frozenset[str]:
    """The users of a table who have a scope on its storage and are not in the registry."""
    if table.type == "SHARED":
        return frozenset()
    known = warehouse.registry.users(table.id)
    storage = catalog.storages[table.options.storage_id]
    # Directories of registered users are not opened: of a million scopes only the strays cost a read.
    listed = {warehouse.target_on(storage.id, catalog, table, user).uri for user in known}
    return frozenset(user for user in _owners(warehouse, catalog, table, storage, listed) if user not in known)


def _owners(warehouse: Warehouse, catalog: Catalog, table: Table, storage: Storage, listed: set[str]) -> Iterator[str]:
    base = warehouse.location(storage)
    prefix = table_prefix(storage.user_template, table.name, storage.folds_case)
    paths = {found.key.partition(f"/{LOG}/")[0] for found in open_store(base).list(prefix) if f"/{LOG}/" in found.key}
    for path in sorted(paths):
        location = base.below(path)
        if location.uri in listed:
            continue
        try:
            found = ScopeTable.open(location)
        except Corrupt:
            continue
        stamp = None if found is None else last_flush(found)
        if stamp is None or stamp.user is None:
            continue
        own = warehouse.target_on(storage.id, catalog, table, stamp.user)
        # The stamp says who; it counts only where the same user of this table would lie: a copied directory says the same.
        if own.app_id == stamp.app_id and own.uri == location.uri:
            yield stamp.user
