"""Removes from Dagster's storage what its pages do not need: all but the newest events of each scope, and copies of them.

The truth is in the warehouse; `event_logs` would grow for ever. Only events of this warehouse's tables are touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg
import sqlalchemy as db

from lakewarden.base.quantities import portions
from lakewarden.dagster.alive import key_of
from lakewarden.dagster.instance_internals import (
    AssetEventTagsTable,
    KeyValueStoreTable,
    RunsTable,
    SqlEventLogStorageTable,
    SqliteEventLogStorage,
)
from lakewarden.dagster.jobs.event_log.packed_storage import shrink
from lakewarden.dagster.jobs.event_log.sweeping import InstanceStorages

_EVENTS = SqlEventLogStorageTable
_KINDS = (dg.DagsterEventType.ASSET_MATERIALIZATION.value, dg.DagsterEventType.ASSET_OBSERVATION.value)
_ENDED = [status.value for status in (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)]

_PAGE = 500


@dataclass(frozen=True)
class PruneCounts:
    """The numbers of rows that were removed."""

    events: int
    copies: int
    beats: int
    partitions: int = 0
    """Not rows: partitions that stand for nobody."""


def prune(storages: InstanceStorages, keys: Sequence[dg.AssetKey], before: datetime, keep: int) -> PruneCounts:
    """Removes events of the assets.

    Args:
        before: younger events stay.
        keep: the newest events of each kind that a partition keeps, however old.
    """
    limit = before.astimezone(UTC).replace(tzinfo=None)
    of_assets = db.and_(_EVENTS.c.asset_key.in_([key.to_string() for key in keys]), _EVENTS.c.dagster_event_type.in_(_KINDS))
    old = db.and_(of_assets, _EVENTS.c.timestamp < limit)
    newest_first = db.func.row_number().over(
        partition_by=(_EVENTS.c.asset_key, _EVENTS.c.partition, _EVENTS.c.dagster_event_type), order_by=_EVENTS.c.id.desc()
    )
    with storages.events.index_connection() as connection:
        ranked = db.select(_EVENTS.c.id, newest_first.label("rank")).where(of_assets).subquery()
        beyond = db.select(ranked.c.id).where(ranked.c.rank > keep)
        events = _delete(connection, db.and_(old, _EVENTS.c.id.in_(beyond)))
    return PruneCounts(events, _copies(storages, old), _beats(storages))


def remove_partitions(
    instance: dg.DagsterInstance, storages: InstanceStorages, key: dg.AssetKey, name: str, users: Sequence[str]
) -> None:
    """Removes partitions with their events: else one who comes by that id begins red."""
    for page in portions(users, lambda _: 1, _PAGE):
        theirs = db.and_(_EVENTS.c.asset_key == key.to_string(), _EVENTS.c.partition.in_(page))
        with storages.events.index_connection() as connection:
            _delete(connection, theirs)
    for user in users:
        instance.delete_dynamic_partition(name, user)
    if users:
        storages.events.wipe_asset_cached_status(key)


def _delete(connection: db.Connection, which: db.ColumnElement[bool]) -> int:
    """Removes events, and what is stored of their tags. Returns how many there were."""
    ids = db.select(_EVENTS.c.id).where(which)
    connection.execute(db.delete(AssetEventTagsTable).where(AssetEventTagsTable.c.event_id.in_(ids)))
    return connection.execute(db.delete(_EVENTS).where(which)).rowcount


def _copies(storages: InstanceStorages, old: db.ColumnElement[bool]) -> int:
    """SQLite has a database of each run, with a second copy of its assets' events."""
    if not isinstance(storages.events, SqliteEventLogStorage):
        return 0
    copies = 0
    for run_id in storages.events.get_all_run_ids():
        with storages.events.run_connection(run_id) as connection:
            found = connection.execute(db.delete(_EVENTS).where(old)).rowcount
        if found:
            shrink(storages.events, run_id)
        copies += found
    return copies


def _beats(storages: InstanceStorages) -> int:
    """The last beats of runs that have ended (lakewarden/dagster/alive.py)."""
    ended = db.select(db.literal(key_of("")) + RunsTable.c.run_id).where(RunsTable.c.status.in_(_ENDED))
    with storages.runs.connect() as connection:
        return connection.execute(db.delete(KeyValueStoreTable).where(KeyValueStoreTable.c.key.in_(ended))).rowcount
