"""Where a warehouse stands in a Dagster deployment: the value that all of its definitions are made from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import dagster as dg

from lakewarden.base.scope import Scope, TableName
from lakewarden.client.dagster_links import definition_name, spelled, table_definition_name
from lakewarden.errors import InvalidArgument

WAREHOUSE = ".dagster/lakewarden_warehouse"
"""The tag of a run that says whose it is: several warehouses may have their runs in one Dagster."""

_PART = re.compile("[A-Za-z0-9_]+")

HEALTH = "health"
SURVEY = "survey"
FLUSHED = "flushed"
INGEST = "ingest"

_MARK = "-table"
"""No table's name holds a hyphen."""

SOURCES = "sources"
"""The part behind the prefix of the keys of sources."""


@dataclass(frozen=True)
class Pools:
    """Dagster's concurrency pools of the steps. Their limits are the deployment's."""

    spark: str | None = None
    """Of operations that may start a JVM; None: limited by the tag `.dagster/lakewarden_slot` alone."""
    tables: str = "tables"
    """Of the tables' assets: their runs carry no tags of a job."""
    checks: str = "checks"
    """Of checks that are run one by one, for the same reason."""


@dataclass(frozen=True)
class Mount:
    """A warehouse in a deployment. Those of one deployment have different prefixes, so none of their names clash.

    Raises:
        InvalidArgument: a part of the prefix is not made of letters, digits and `_`, as Dagster's names are, or is `sources`.
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
            if part == SOURCES:
                raise InvalidArgument(f"key prefix {part!r} is the name of the assets of sources: choose another")

    def asset_key(self, table: TableName) -> dg.AssetKey:
        """`[*prefix, namespace, table]`. A table `ingest` behind a prefix is marked: else `[eu, ns, ingest]` is two assets."""
        marked = self.key_prefix and table.name == INGEST
        return dg.AssetKey([*self.key_prefix, table.namespace, f"{table.name}{_MARK}" if marked else table.name])

    def rule_key(self, table: TableName) -> dg.AssetKey:
        """The key of what the rule of a table takes."""
        return dg.AssetKey([*self.asset_key(table).path, INGEST])

    def table_of(self, key: dg.AssetKey) -> TableName | None:
        """The table of an asset key; None if the key has another form."""
        before = len(self.key_prefix)
        if tuple(key.path[:before]) != self.key_prefix or len(key.path) != before + 2:
            return None
        namespace, name = key.path[before:]
        return TableName(namespace, name.removesuffix(_MARK))

    def known_key(self, table: TableName, what: str) -> dg.AssetKey:
        """The key of what is known of a table, beneath the table's own. A box in the lineage shows the last part alone, and
        a page has such a box for each table: so the last part has the table's full name."""
        return dg.AssetKey([*self.asset_key(table).path, f"{table}-{what}"])

    @property
    def health_key(self) -> dg.AssetKey:
        """The key of the warehouse's health."""
        return dg.AssetKey([*self.key_prefix, f"warehouse-{HEALTH}"] if self.key_prefix else [HEALTH])

    def survey_key(self, name: str) -> dg.AssetKey:
        """The key of a place with tables of others; in one part behind the prefix, so that no table has it."""
        return dg.AssetKey([*self.key_prefix, f"{SURVEY}-{name}"])

    def dotted(self, name: TableName | Scope) -> str:
        """The full name of a table or scope among all warehouses. A table's is the name of its partition definition."""
        return ".".join([*self.key_prefix, str(name)])

    def named(self, name: str) -> str:
        """The name of a definition or resource that the warehouse has once."""
        return definition_name(self.key_prefix, name)

    def table_named(self, verb: str, table: TableName) -> str:
        """The name of a definition that each table has, such as `restore_chat__messages`; `verb` is one of `VERBS`."""
        return table_definition_name(self.key_prefix, verb, table)

    def group_of(self, table: TableName) -> str:
        return self.group or "_".join([*self.key_prefix, spelled(table.namespace)])

    @property
    def health_group(self) -> str:
        """The group of what is known about tables: theirs have the tables alone."""
        return self.group or "_".join([*self.key_prefix, "lakewarden_health"])

    def may_have(self, tags: Mapping[str, str]) -> bool:
        """Whether a run with these tags may be of this warehouse: those that started from a page may have no tag of any."""
        return tags.get(WAREHOUSE, self.uri) == self.uri

    @property
    def tags(self) -> Mapping[str, str]:
        """The tags of every run."""
        return {WAREHOUSE: self.uri}


def is_beneath(part: str) -> bool:
    """Whether a key with this last part may stand beneath a table's key."""
    return part == INGEST or part.endswith((f"-{HEALTH}", f"-{FLUSHED}"))


# Values that may be the name of an environment variable, as Dagster's own configuration has them.
def value_of(text: str) -> str:
    """The text, or the value of the variable that it names.

    Args:
        text: a `dagster.EnvVar`, or a plain text.

    Raises:
        InvalidArgument: the variable is not set.
    """
    if not isinstance(text, dg.EnvVar):
        return text
    found = text.get_value()
    if found is None:
        raise InvalidArgument(f"the environment variable {text.env_var_name} is not set: set it, or give the value itself")
    return found
