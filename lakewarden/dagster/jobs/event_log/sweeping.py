"""Removes one user from Dagster's own SQL storage: their events and cached states go, other rows lose only the id.

Dagster has no call for this; deleting whole runs would take the events of every other user in them. So this goes to the tables,
of the version that a test pins. Rows are searched by text first, in the database, and read only where they may name the user.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote, quote_plus

import dagster as dg
import sqlalchemy as db

from lakewarden.dagster.assets.partition_values import is_key
from lakewarden.dagster.instance_internals import (
    AssetCheckExecutionsTable,
    AssetDaemonAssetEvaluationsTable,
    AssetEventTagsTable,
    AssetKeyTable,
    BackfillTagsTable,
    BulkActionsTable,
    InstigatorsTable,
    JobTable,
    JobTickTable,
    RunsTable,
    RunTagsTable,
    SqlEventLogStorage,
    SqlEventLogStorageTable,
    SqliteEventLogStorage,
    SqlRunStorage,
    SqlScheduleStorage,
)
from lakewarden.dagster.jobs.event_log.packed_storage import UnpackedColumn
from lakewarden.dagster.jobs.runs import SCOPE
from lakewarden.storage.paths import encode

# Takes a user's id out of what Dagster stores, and leaves everything else as it is.
#
# Dagster's values are stored as JSON. An id can stand only where people or operations put text: in messages, metadata, forms,
# partitions. Fields that come from definitions, as names of jobs and steps, are left alone: an id may be a word like `flush`.

_FREE = frozenset(
    {
        "message",
        "user_message",
        "stack",  # of errors
        "description",
        "text",  # of metadata, as the next four
        "url",
        "md_str",
        "data",
        "path_value",
        "partition",
        "partition_key",
        "partition_name",
        "skip_reason",
        "cursor",
        "run_config",
        "run_config_data",
    }
)
"""Fields below which every text may name a user."""

_TAGS = frozenset({SCOPE, "dagster/partition"})
"""Tags whose values may; others are words of this project and of Dagster."""

_PATH_OF_METADATA = "PathMetadataEntryData"


class IdSpellings:
    """The spellings of an id: as it is, as in paths, and as in links. `mark` takes its place."""

    def __init__(self, user: str, mark: str) -> None:
        in_paths = {encode(user, folds_case=False), encode(user, folds_case=True)}
        self._spelled = sorted({user, *in_paths, quote(user, safe=""), quote_plus(user)})
        either = "|".join(re.escape(each) for each in self._spelled)
        self._word = re.compile(rf"(?:(?<![0-9A-Za-z_])|(?<=%[0-9A-F]{{2}}))(?:{either})(?![0-9A-Za-z_])")
        self._mark = mark

    @property
    def searched(self) -> Iterator[str]:
        """The spellings as a storage may have them: plain, in JSON, and in JSON inside JSON. None has U+0000 as it is."""
        for each in self._spelled:
            inner = json.dumps(each)[1:-1]
            yield from filter(is_key, {each, inner, json.dumps(inner)[1:-1]})

    def stand_in(self, value: object) -> bool:
        """Whether the id is in one of the texts of a value, or of the values that it is made of."""
        if isinstance(value, str):
            return self._word.search(value) is not None
        if isinstance(value, Mapping):
            return any(self.stand_in(name) or self.stand_in(inner) for name, inner in value.items())
        return isinstance(value, list | tuple) and any(map(self.stand_in, value))

    def without(self, stored: str) -> str:
        """The stored text with the mark for the id: JSON where it may stand, any other text throughout. Unchanged without it."""
        try:
            value = json.loads(stored)
        except ValueError:
            return self._word.sub(self._mark, stored)
        if not isinstance(value, dict | list):
            return self._word.sub(self._mark, stored)
        redacted = self._redacted(value)
        return stored if redacted == value else json.dumps(redacted)

    def _redacted(self, value: object, *, free: bool = False) -> object:
        """`free`: whether it stands below a field of which every text may name a user."""
        match value:
            case str() if free:
                return self._word.sub(self._mark, value)
            case list():
                return [self._redacted(each, free=free) for each in value]
            case dict():
                of_path = {"path"} if value.get("__class__") == _PATH_OF_METADATA else set[str]()
                return {
                    name: self._redacted(inner, free=name != "__class__" and (free or name in _FREE | _TAGS | of_path))
                    for name, inner in value.items()
                }
            case _:
                return value


TESTED = "1.13."
"""The versions of Dagster whose tables these are."""

_EVENTS = SqlEventLogStorageTable

OF_RUNS = (RunsTable.c.run_body, RunsTable.c.partition, RunTagsTable.c.value, BulkActionsTable.c.body, BackfillTagsTable.c.value)
OF_SCHEDULES = (
    JobTable.c.job_body,
    InstigatorsTable.c.instigator_body,
    JobTickTable.c.tick_body,
    AssetDaemonAssetEvaluationsTable.c.asset_evaluation_body,
)
OF_CHECKS = (AssetCheckExecutionsTable.c.evaluation_event, AssetCheckExecutionsTable.c.partition)
"""Columns that may name a user, beside those of events, whose rows may go as a whole."""

_Connect = Callable[[], AbstractContextManager[db.Connection]]


@dataclass(frozen=True)
class InstanceStorages:
    """Dagster's three storages, which know SQL."""

    events: SqlEventLogStorage
    runs: SqlRunStorage
    schedules: SqlScheduleStorage

    @classmethod
    def of(cls, instance: dg.DagsterInstance) -> InstanceStorages | None:
        """The storages of an instance; None if they are not those that this was made for."""
        events, runs, schedules = instance.event_log_storage, instance.run_storage, instance.schedule_storage
        known = dg.__version__.startswith(TESTED)
        if (
            known
            and isinstance(events, SqlEventLogStorage)
            and isinstance(runs, SqlRunStorage)
            and isinstance(schedules, SqlScheduleStorage)
        ):
            return cls(events, runs, schedules)
        return None

    def event_logs(self) -> Iterator[_Connect]:
        """Every database with events: SQLite has one for each run, too."""
        yield self.events.index_connection
        if isinstance(self.events, SqliteEventLogStorage):
            for run_id in self.events.get_all_run_ids():
                yield partial(self.events.run_connection, run_id)

    def naming(self, names: IdSpellings) -> set[str]:
        """The ids of runs that name the user: in their form, their tags, or one of their events."""
        found: set[str] = set()
        for connect in self.event_logs():
            found |= _runs_naming(connect, [_EVENTS.c.event], names)
        return found | _runs_naming(self.runs.connect, [RunsTable.c.run_body, RunTagsTable.c.value], names)


def sweep(storages: InstanceStorages, user: str, names: IdSpellings, keys: Sequence[dg.AssetKey], spared: Iterable[str]) -> None:
    """Removes the user from every table.

    Args:
        keys: the erased assets; events of the user's partition of others stay.
        spared: runs that are not over, which would write it again, and those of other warehouses.
    """
    erased = [key.to_string() for key in keys]
    for connect in storages.event_logs():
        _sweep_events(connect, user, names, erased, frozenset(spared))
    _redact(storages.events.index_connection, OF_CHECKS, names)
    _redact(storages.runs.connect, OF_RUNS, names, frozenset(spared))
    _redact(storages.schedules.connect, OF_SCHEDULES, names)
    for key in keys:
        _point_to_newest(storages.events, key)
        storages.events.wipe_asset_cached_status(key)


def _runs_naming(connect: _Connect, columns: Iterable[db.Column[str]], names: IdSpellings) -> set[str]:
    with connect() as connection:
        found = [
            row
            for column in columns
            for row in connection.execute(db.select(column.table.c.run_id, column).where(_mentions(column, names)))
        ]
    return {run_id for run_id, stored in found if names.without(stored) != stored}


def _sweep_events(connect: _Connect, user: str, names: IdSpellings, erased: Sequence[str], spared: frozenset[str]) -> None:
    with connect() as connection:
        of_partition = _EVENTS.c.partition == user if is_key(user) else db.false()
        named = db.or_(of_partition, _mentions(_EVENTS.c.event, names))
        found = connection.execute(db.select(_EVENTS).where(named)).mappings().all()
        of_user = [row["id"] for row in found if row["partition"] == user and row["asset_key"] in erased]
        connection.execute(db.delete(_EVENTS).where(_EVENTS.c.id.in_(of_user)))
        if db.inspect(connection).has_table(AssetEventTagsTable.name):
            connection.execute(db.delete(AssetEventTagsTable).where(AssetEventTagsTable.c.event_id.in_(of_user)))
        for row in found:
            if row["partition"] != user and row["run_id"] not in spared:
                connection.execute(db.update(_EVENTS).where(_EVENTS.c.id == row["id"]).values(event=names.without(row["event"])))


def _redact(
    connect: _Connect, columns: Iterable[db.Column[str]], names: IdSpellings, spared: frozenset[str] = frozenset()
) -> None:
    with connect() as connection:
        for column in columns:
            table = column.table
            found = connection.execute(db.select(table).where(_mentions(column, names))).mappings().all()
            for row in found:
                if row.get("run_id") not in spared:
                    value = {column.name: names.without(row[column.name])}
                    connection.execute(db.update(table).where(table.c.id == row["id"]).values(value))


def _mentions(column: db.Column[str], names: IdSpellings) -> db.ColumnElement[bool]:
    return db.or_(*(UnpackedColumn(column).contains(each, autoescape=True) for each in names.searched))


def _point_to_newest(events: SqlEventLogStorage, key: dg.AssetKey) -> None:
    """An asset holds a copy of its newest event, which may have been the user's."""
    newest = events.fetch_materializations(key, limit=1).records
    copy = dg.serialize_value(newest[0]) if newest else None
    with events.index_connection() as connection:
        of_asset = AssetKeyTable.c.asset_key == key.to_string()
        connection.execute(db.update(AssetKeyTable).where(of_asset).values(last_materialization=copy))
