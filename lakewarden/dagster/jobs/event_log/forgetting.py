"""Removes an erased user from Dagster: partitions, events, runs, logs, ticks, caches. Other users' stay as they are.

Where Dagster's storage is not SQL, or of another version, whole runs are deleted and the erased assets wiped instead; the
state of other users is then booked again, as the warehouse has it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import dagster as dg

from lakewarden.base.clock import Clock, system_clock
from lakewarden.base.scope import TableName
from lakewarden.dagster.assets.partition_values import is_key
from lakewarden.dagster.internals import InstigatorType, TickStatus
from lakewarden.dagster.jobs.event_log.packed_storage import overwriting
from lakewarden.dagster.jobs.event_log.sweeping import IdSpellings, InstanceStorages, sweep
from lakewarden.dagster.jobs.runs import SCOPE, op_config
from lakewarden.dagster.mount import Mount

_PAGE = 100


@dataclass(frozen=True)
class Forgotten:
    """The number of deleted runs, the ids of unfinished ones that name the user, and whether others lost their events."""

    deleted: int
    left: tuple[str, ...]
    wiped: bool


def forget_user(
    instance: dg.DagsterInstance,
    mount: Mount,
    user: str,
    tables: Sequence[TableName],
    own_run: str,
    mark: str,
    clock: Clock = system_clock,
) -> Forgotten:
    """Deletes runs of the user alone, but `own_run`, and takes the id out of the others.

    Runs of other warehouses stay as they are.
    """
    storages = InstanceStorages.of(instance)
    names = IdSpellings(user, mark)
    with overwriting(instance.event_log_storage):
        named = storages.naming(names) if storages else None
        found = [run for run in _runs(instance) if run.run_id != own_run and _names_user(instance, run, names, named)]
        naming = [run for run in found if mount.may_have(run.tags)]
        left = tuple(run.run_id for run in naming if not run.is_finished)
        over = [run for run in naming if run.is_finished and (storages is None or _is_of(run, user, names))]
        for run in over:
            _delete(instance, run, names, mark)
        for table in tables if is_key(user) else ():
            instance.delete_dynamic_partition(mount.dotted(table), user)
        keys = [mount.asset_key(table) for table in tables]
        if storages is None:
            instance.wipe_assets(keys)  # their newest events, cached partitions, results of checks
            _purge_ticks(instance, clock())
        else:
            sweep(storages, user, names, keys, [*left, *(run.run_id for run in found if run not in naming)])
            for run in naming:
                instance.compute_log_manager.delete_logs(prefix=[run.run_id])
    return Forgotten(len(over), left, wiped=storages is None)


def _names_user(instance: dg.DagsterInstance, run: dg.DagsterRun, names: IdSpellings, named: set[str] | None) -> bool:
    """Whether the run names the user. Without SQL, every event is read."""
    if named is not None:
        return run.run_id in named
    output = (json.loads(dg.serialize_value(entry)) for entry in instance.all_logs(run.run_id))
    return names.stand_in((run.run_config, run.tags)) or any(map(names.stand_in, output))


def _is_of(run: dg.DagsterRun, user: str, names: IdSpellings) -> bool:
    """Whether the run was for this user alone."""
    if names.stand_in(run.tags.get(SCOPE, "")) or run.tags.get("dagster/partition") == user:
        return True
    config = op_config(run)
    return config.get("user") == user or _users(config.get("scopes")) == {user}


def _users(scopes: object) -> set[str]:
    return {user for users in scopes.values() for user in users} if isinstance(scopes, Mapping) else set()


def _runs(instance: dg.DagsterInstance) -> Iterator[dg.DagsterRun]:
    cursor: str | None = None
    while page := instance.get_runs(cursor=cursor, limit=_PAGE):
        yield from page
        cursor = page[-1].run_id


def _delete(instance: dg.DagsterInstance, run: dg.DagsterRun, names: IdSpellings, mark: str) -> None:
    """On SQLite a deleted run leaves its tags: overwrites those that name the user first."""
    instance.add_run_tags(run.run_id, {name: mark for name, value in run.tags.items() if names.stand_in(value)})
    instance.delete_run(run.run_id)
    instance.compute_log_manager.delete_logs(prefix=[run.run_id])


def _purge_ticks(instance: dg.DagsterInstance, now: datetime) -> None:
    """The flush sensor's ticks keep the config of the runs that they requested, for weeks."""
    for state in instance.all_instigator_state(instigator_type=InstigatorType.SENSOR):
        instance.purge_ticks(
            state.instigator_origin_id, state.selector_id, now.timestamp(), [TickStatus.SUCCESS, TickStatus.FAILURE]
        )
