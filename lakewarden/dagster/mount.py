"""Where a warehouse stands in a Dagster deployment: the value that all of its definitions are made from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import dagster as dg

from lakewarden.errors import InvalidArgument
from lakewarden.scope import Scope, TableName

WAREHOUSE = "lakewarden/warehouse"
"""The tag of a run that says whose it is: several warehouses may have their runs in one Dagster."""

_PART = re.compile("[A-Za-z0-9_]+")


@dataclass(frozen=True)
class Pools:
    """Dagster's concurrency pools of the steps. Their limits are the deployment's."""

    spark: str | None = None
    """Of operations that may start a JVM; None: limited by the tag `lakewarden/slot` alone."""
    tables: str = "tables"
    """Of the tables' assets: their runs carry no tags of a job."""
    checks: str = "checks"
    """Of checks that are run one by one, for the same reason."""


@dataclass(frozen=True)
class Mount:
    """A warehouse in a deployment. Those of one deployment have different prefixes, so none of their names clash.

    Raises:
        InvalidArgument: a part of the prefix is not made of letters, digits and `_`, as Dagster's names are.
    """

    uri: str
    """The warehouse, in its canonical spelling, as tags and messages show it."""
    key_prefix: tuple[str, ...] = ()
    """In front of every asset key, and of the names of jobs, sensors, schedules, resources and partitions."""
    group: str | None = None
    """The group of all assets; None: one for each namespace."""
    pools: Pools = Pools()
    owners: tuple[str, ...] = ()
    """Of all assets: e-mail addresses, or `team:name`."""

    def __post_init__(self) -> None:
        for part in self.key_prefix:
            if not _PART.fullmatch(part):
                raise InvalidArgument(f"key prefix {part!r} is not a name of Dagster's: it may hold letters, digits and _ only")

    def asset_key(self, table: TableName) -> dg.AssetKey:
        return dg.AssetKey([*self.key_prefix, table.namespace, table.name])

    def table_of(self, key: dg.AssetKey) -> TableName | None:
        """The table of an asset key; None if the key has another form."""
        before = len(self.key_prefix)
        if tuple(key.path[:before]) != self.key_prefix or len(key.path) != before + 2:
            return None
        return TableName(*key.path[before:])

    def dotted(self, name: TableName | Scope) -> str:
        """The full name of a table or scope among all warehouses. A table's is the name of its partition definition."""
        return ".".join([*self.key_prefix, str(name)])

    def named(self, name: str) -> str:
        """The name of a definition or resource."""
        return "_".join([*self.key_prefix, name])

    def group_of(self, table: TableName) -> str:
        return self.group or self.named(_spelled(table.namespace))

    def may_have(self, tags: Mapping[str, str]) -> bool:
        """Whether a run with these tags may be of this warehouse: those that started from a page may have no tag of any."""
        return tags.get(WAREHOUSE, self.uri) == self.uri

    @property
    def tags(self) -> Mapping[str, str]:
        """The tags of every run."""
        return {WAREHOUSE: self.uri}


def definition_name(table: TableName) -> str:
    """The part of a definition's name that stands for a table."""
    return f"{_spelled(table.namespace)}__{table.name}"


def _spelled(namespace: str) -> str:
    """As Dagster's names of jobs, steps and groups, which hold no `-`. No two namespaces differ only in that
    (`catalog.changes.add_namespace`)."""
    return namespace.replace("-", "_")
