"""The users who are partitions: those who have a scope, and no others."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import dagster as dg

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.model import Table
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.partition_values import is_key
from lakewarden.dagster.mount import Mount


def register_users(instance: dg.DagsterInstance, mount: Mount, scopes: Iterable[Scope]) -> None:
    """Adds every scope's missing partition, in one statement for each table: Dagster checks keys one by one."""
    for table, names in _users(scopes).items():
        instance.add_dynamic_partitions(mount.dotted(table), names)


def existing(lake: Lakehouse, scopes: Collection[Scope]) -> frozenset[Scope]:
    """The scopes that there are: those of registered users, and those with rows in the log. People name others in forms."""
    if not scopes:
        return frozenset()
    tables = lake.warehouse.catalog.read().tables
    found = {one.scope for one in lake.pending()}
    for table, users in _users(scopes).items():
        if table in tables:
            found |= {Scope(table, user) for user in lake.warehouse.registry.known(tables[table].id, users)}
    return frozenset(scope for scope in scopes if scope.user is None or scope in found)


def strangers(instance: dg.DagsterInstance, mount: Mount, lake: Lakehouse, table: Table) -> list[str]:
    """Partitions of a USER table that stand for no user of it."""
    if table.type != "USER":
        return []
    partitions = instance.get_dynamic_partitions(mount.dotted(table.name))  # before the users: one who comes now is none
    scopes = existing(lake, [Scope(table.name, user) for user in partitions])
    return [user for user in partitions if Scope(table.name, user) not in scopes]


def _users(scopes: Iterable[Scope]) -> dict[TableName, list[str]]:
    found: dict[TableName, list[str]] = {}
    for scope in scopes:
        if scope.user is not None and is_key(scope.user):
            found.setdefault(scope.table, []).append(scope.user)
    return found
