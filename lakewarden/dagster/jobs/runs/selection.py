"""The fields of every operation's config that select its scopes, and the config of a run that was made from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import dagster as dg
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG, PARTITION_NAME_TAG
from pydantic import Field

from lakewarden.base.scope import TableName
from lakewarden.dagster.mount import Mount


class ScopeSelection(dg.Config):
    """Which scopes. By default every scope of the warehouse."""

    tables: list[str] = Field([], description="Tables as namespace.table; empty means all of the warehouse.")
    user: str | None = Field(None, description="Only this user's scope of each of the tables.")


class WithLook(ScopeSelection):
    """Which scopes maintenance opens. By default those that may need it, by what the state knows of each."""

    look: bool = Field(
        False, description="Open each scope: this finds what other programs committed, and in a vacuum what dead writers left."
    )


def op_config(run: dg.DagsterRun) -> Mapping[str, object]:
    """The config of the run's only op; empty if the launchpad was left empty."""
    ops = run.run_config.get("ops")
    ours = next(iter(ops.values()), None) if isinstance(ops, Mapping) else None
    config = ours.get("config") if isinstance(ours, Mapping) else None
    return config if isinstance(config, Mapping) else {}


def named_by(context: dg.OpExecutionContext, mount: Mount) -> Mapping[str, object]:
    """What the run is for, in the words of an op's config. The run of an asset has none: it names a table and partitions."""
    if not context.has_assets_def:
        config: Mapping[str, object] = context.op_config
        return config
    users = context.partition_keys if context.has_partitions else ()
    return _of_tables([table for key in context.assets_def.keys if (table := mount.table_of(key))], users)


def named_by_run(instance: dg.DagsterInstance, mount: Mount, run: dg.DagsterRun) -> Mapping[str, object]:
    """The same of a run that may have ended, by what Dagster keeps of it."""
    if not run.asset_selection:
        return op_config(run)
    tables = [table for key in run.asset_selection if (table := mount.table_of(key))]  # it may have others' assets beside them
    return _of_tables(tables, _partitions_of(instance, run, mount.dotted(tables[0])) if len(tables) == 1 else ())


def of_whole_tables(named: Mapping[str, object], shared: Collection[str]) -> Mapping[str, object]:
    """The same for SHARED tables as a whole: the partitions of a large one are no scopes."""
    scopes = named.get("scopes")
    if not isinstance(scopes, Mapping):
        return named
    return {**named, "scopes": {table: [] if table in shared else users for table, users in scopes.items()}}


def _of_tables(tables: Sequence[TableName], users: Sequence[str]) -> Mapping[str, object]:
    return {"scopes": {str(table): list(users) for table in tables}} if users else {"tables": [str(table) for table in tables]}


def _partitions_of(instance: dg.DagsterInstance, run: dg.DagsterRun, partitions: str) -> Sequence[str]:
    """The partitions that the run names; none where it names none, or where one of its range's ends was removed."""
    if one := run.tags.get(PARTITION_NAME_TAG):
        return [one]
    first, last = run.tags.get(ASSET_PARTITION_RANGE_START_TAG), run.tags.get(ASSET_PARTITION_RANGE_END_TAG)
    users = instance.get_dynamic_partitions(partitions) if first and last else []
    if first not in users or last not in users:
        return []
    return users[users.index(first) : users.index(last) + 1]
