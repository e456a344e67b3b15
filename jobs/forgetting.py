"""Removes an erased user from Dagster: partitions, runs and their events, logs, ticks, caches.

Dagster cannot remove one partition's events from a run, so whole runs are deleted, and the current state of other users is
booked again. The warehouse is the source of truth; only the plots of those other users become shorter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import dagster as dg
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import TickStatus
from dagster._serdes import serialize_value

from assets.tables import asset_key, partitions_name
from jobs.sqlite import overwriting
from lakewarden.clock import system_clock
from lakewarden.scope import TableName
from lakewarden.storage.paths import encode

_PAGE = 100


@dataclass(frozen=True)
class Forgotten:
    """The number of deleted runs, and the ids of unfinished ones that name the user."""

    deleted: int
    left: tuple[str, ...]


def forget_user(instance: dg.DagsterInstance, user: str, tables: Iterable[TableName], own_run: str, mark: str) -> Forgotten:
    """Reads every run but `own_run` and deletes those that name the user anywhere: it prefers to delete too many."""
    left: list[str] = []
    deleted = 0
    names = _Names(user)
    with overwriting(instance.event_log_storage):
        for run in [run for run in _runs(instance) if run.run_id != own_run]:
            if not (names.stand_in((run.run_config, run.tags)) or _told(instance, run.run_id, names)):
                continue
            if run.is_finished:
                _delete(instance, run, names, mark)
                deleted += 1
            else:
                left.append(run.run_id)
        for table in tables:
            instance.delete_dynamic_partition(partitions_name(table), user)
            instance.wipe_assets([asset_key(table)])  # its newest event, its cached partitions, results of checks
        _purge_ticks(instance)
    return Forgotten(deleted, tuple(left))


class _Names:
    """The spellings of an id: as it is, and as in paths."""

    def __init__(self, user: str) -> None:
        spelled = {user, encode(user, folds_case=False), encode(user, folds_case=True)}
        either = "|".join(re.escape(each) for each in sorted(spelled))
        self._word = re.compile(rf"(?<![0-9A-Za-z_])(?:{either})(?![0-9A-Za-z_])")

    def stand_in(self, value: object) -> bool:
        """Whether the id is in one of the texts of a value, or of the values that it is made of."""
        if isinstance(value, str):
            return self._word.search(value) is not None
        if isinstance(value, Mapping):
            return any(self.stand_in(name) or self.stand_in(inner) for name, inner in value.items())
        return isinstance(value, list | tuple) and any(map(self.stand_in, value))


def _runs(instance: dg.DagsterInstance) -> Iterator[dg.DagsterRun]:
    cursor: str | None = None
    while page := instance.get_runs(cursor=cursor, limit=_PAGE):
        yield from page
        cursor = page[-1].run_id


def _told(instance: dg.DagsterInstance, run_id: str, names: _Names) -> bool:
    return any(names.stand_in(json.loads(serialize_value(entry))) for entry in instance.all_logs(run_id))


def _delete(instance: dg.DagsterInstance, run: dg.DagsterRun, names: _Names, mark: str) -> None:
    """On SQLite a deleted run leaves its tags: overwrites those that name the user first."""
    instance.add_run_tags(run.run_id, {name: mark for name, value in run.tags.items() if names.stand_in(value)})
    instance.delete_run(run.run_id)
    instance.compute_log_manager.delete_logs(prefix=[run.run_id])


def _purge_ticks(instance: dg.DagsterInstance) -> None:
    """The flush sensor's ticks keep the config of the runs that they requested, for weeks."""
    now = system_clock().timestamp()
    for state in instance.all_instigator_state(instigator_type=InstigatorType.SENSOR):
        instance.purge_ticks(state.instigator_origin_id, state.selector_id, now, [TickStatus.SUCCESS, TickStatus.FAILURE])
