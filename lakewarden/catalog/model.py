"""The contents of the catalog: namespaces, storages, users, tables and their schema versions, pipelines. `store` keeps them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from operator import attrgetter
from typing import Literal

from lakewarden.base.connection import Connection, Location
from lakewarden.base.scope import TableName
from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.dynamic_options import DynamicOptions
from lakewarden.catalog.names import AccessLevel, Role
from lakewarden.storage.location import canonical, within

# Pipelines and their rules: objects of the catalog of their own, which outlive the table that they were made with.
MissingColumns = Literal["reject", "null"]

OBJECT = "_object"
"""The hidden column of a pipeline's table: the key of the object that a row came from."""


@dataclass(frozen=True)
class Pipeline:
    """A template bound to a table, with its source and options."""

    id: str
    table: TableName
    table_id: str
    """Of the table that it was made with: a later table of the same name is another one."""
    template: str
    source: str
    """Where objects are uploaded: a place, or a path below the warehouse."""
    created_at: datetime
    options: str = "{}"
    """The template's, as the text of a JSON object."""
    primary_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    missing_columns: MissingColumns = "reject"
    """What an object that lacks a column of the table is: a reject, or rows with NULL there."""
    landed: int = 0
    """The last attempt that counts although the table has no schema, since it brought no rows (`ingest.pipelines.landing`)."""


@dataclass(frozen=True)
class IngestRule:
    """Which objects of a pipeline's source it takes: those that a glob, the MIME types and the sizes accept, and no exclude."""

    id: str
    pipeline_id: str
    globs: tuple[str, ...]
    created_at: datetime
    updated_at: datetime
    excludes: tuple[str, ...] = ()
    mime_types: tuple[str, ...] = ()
    """Any, where it is empty."""
    min_size: int = 0
    max_size: int | None = None
    """Bytes."""
    enabled: bool = True


TableType = Literal["USER", "SHARED", "STREAM"]
Compression = Literal["none", "snappy", "zstd"]
EvictionStrategy = Literal["time_based", "size_based", "hybrid"]
OnDuplicate = Literal["error", "replace"]
AuthType = Literal["password", "oauth", "internal"]
StorageMode = Literal["table", "region"]
StorageType = Literal["filesystem", "s3", "gcs", "azure"]
MovePhase = Literal["copying", "closing", "leaving"]

_NAME = attrgetter("name")


@dataclass(frozen=True)
class Column:
    """One column as its table declares it.

    `type` is any spelling of docs/reference/types.md; `default` is an expression in SQL text (`NOW()`, `'x'`, `42`).
    """

    name: str
    type: str
    nullable: bool = True
    default: str | None = None


@dataclass(frozen=True)
class SchemaColumn:
    """A column in one schema version. `id` is never used again, not even for a column of the same name."""

    id: int
    name: str
    type: ColumnType
    nullable: bool
    default: str | None
    null_before: bool = False
    """It became NOT NULL by an ALTER: rows from before may have NULL, so the Delta column stays nullable."""
    initial: str | None = None
    """A literal in SQL text: the value of rows that are older than the column, until a flush writes it. None means NULL."""


@dataclass(frozen=True)
class TableSchema:
    """One version of a table's columns. `primary_key` names columns, in key order; a SHARED table may have none."""

    version: int
    columns: tuple[SchemaColumn, ...]
    primary_key: tuple[str, ...]
    append_only: bool = False
    """Of a STREAM table: every row stands for itself, whatever its key, which may be missing."""
    partition_by: tuple[str, ...] = ()
    """The columns whose values divide the data files into directories, in order; the same in every version."""
    keeps_before: bool = False
    """Whether each row of the log comes with the row before it, for which the change feed then does not have to look. Of a
    dynamic table, decided at its creation; the same in every version."""

    def __hash__(self) -> int:
        # of the names alone: every write looks something up by its schema, and the fields of all columns cost more than a row
        return hash((self.version, *map(_NAME, self.columns)))

    def column(self, name: str) -> SchemaColumn | None:
        return next((column for column in self.columns if column.name == name), None)

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @cached_property
    def shown(self) -> tuple[SchemaColumn, ...]:
        """The columns that `*` means: all but the hidden one of a pipeline's table."""
        return tuple(column for column in self.columns if column.name != OBJECT)

    @cached_property
    def of_files(self) -> tuple[str, ...]:
        """The columns of type FILE."""
        return tuple(column.name for column in self.columns if column.type.name == "FILE")

    @cached_property
    def keyed(self) -> bool:
        """Whether it has a primary key."""
        return bool(self.primary_key)


@dataclass(frozen=True)
class FlushPolicy:
    """A scope is due when it has `rows` pending rows, or when its oldest pending row is `interval` seconds old."""

    rows: int | None = None
    interval: int | None = None

    def __str__(self) -> str:
        parts = [f"rows:{self.rows}" if self.rows else "", f"interval:{self.interval}" if self.interval else ""]
        return ",".join(part for part in parts if part)


@dataclass(frozen=True)
class TableOptions:
    """A table's options, parsed and checked by `catalog.options`.

    `target_file_size` in bytes and `retention_hours` in hours; None means the warehouse's setting. `ttl_seconds`,
    `eviction_strategy` and `max_stream_size` (bytes a scope, 0 for any) are those of STREAM tables.
    """

    storage_id: str = "local"
    flush_policy: FlushPolicy | None = None
    compression: Compression = "snappy"
    target_file_size: int | None = None
    retention_hours: int | None = None
    access_level: AccessLevel = "PRIVATE"
    ttl_seconds: int | None = None
    eviction_strategy: EvictionStrategy = "time_based"
    max_stream_size: int = 0
    use_user_storage: bool = False
    """Scopes of users with a storage of their own lie there."""
    on_duplicate: OnDuplicate = "error"
    """What an INSERT does with a key that is live: it fails, or replaces the row without looking."""
    change_tracking: bool = True
    """Whether changes are kept behind a flush, and may be read."""
    log_retention: int | float | None = None
    """Seconds that changes are kept behind a flush; None means the warehouse's setting."""
    change_data_feed: bool | None = None
    """Whether its Delta tables have Delta's own change data feed; None means as each of them says itself."""
    compaction_ratio: float | None = None
    """The ratio of compactions that run by themselves (`catalog.kept_settings`); None means the warehouse's setting."""


@dataclass(frozen=True)
class Move:
    """A table's way from one storage to another (maintenance/move/run.py).

    `copying`: all goes on at the source, while files are copied. `closing`: scope after scope is frozen and the rest is
    copied; no flush until that is done. `leaving`: the table is at the target, and what is left at the source goes.
    """

    source: str
    target: str
    phase: MovePhase = "copying"


@dataclass(frozen=True)
class Table:
    """A table. `id` tells it from an earlier table of the same name; `log_id` is its log partition's uuid."""

    id: str
    name: TableName
    type: TableType
    options: TableOptions
    schemas: tuple[TableSchema, ...]
    """Every version, oldest first: rows in the log and files in the scopes may still be of any of them."""
    log_id: str
    created_at: datetime
    dropping: bool = False
    """Its drop has started: it is no longer visible, and its name and place are free once its data is removed."""
    move: Move | None = None
    description: str = ""
    dynamic: DynamicOptions | None = None
    """Known of a dynamic table, which is a SHARED one."""

    @property
    def storage_ids(self) -> frozenset[str]:
        """The storages on which its place is taken: its own, and while it moves also the other one."""
        moving = () if self.move is None else (self.move.source, self.move.target)
        return frozenset((self.options.storage_id, *moving))

    @cached_property
    def schema(self) -> TableSchema:
        return self.schemas[-1]

    @property
    def access_level(self) -> AccessLevel:
        """Who may see and write a SHARED table's rows."""
        return self.options.access_level

    @property
    def tracks_changes(self) -> bool:
        """Whether its changes may be read."""
        return (self.options if self.dynamic is None else self.dynamic).change_tracking

    def kept_seconds(self, default: float) -> float:
        """How long its changes are kept behind a flush, where `default` is what the settings say."""
        given = self.options.log_retention if self.dynamic is None else self.dynamic.log_retention
        if not self.tracks_changes:
            return 0.0
        return default if given is None else float(given)


@dataclass(frozen=True)
class View:
    """A query under a name; its unqualified names are meant in the view's own namespace."""

    name: TableName
    text: str
    created_at: datetime


@dataclass(frozen=True)
class Engine:
    """What serves the tables of a namespace. While it is disabled, its tables are closed (`catalog.changes.engines`)."""

    active: bool = True
    settings: str = "{}"
    """The text of a JSON object, kept as it was given."""
    updated_at: datetime | None = None
    """None as long as it is as the namespace was created."""


@dataclass(frozen=True)
class Namespace:
    name: str
    created_at: datetime
    description: str = ""
    engine: Engine = Engine()


@dataclass(frozen=True)
class User:
    """A user with a role. A dropped one stays, with `deleted_at`: its id still names its rows."""

    user_id: str
    role: Role
    auth_type: AuthType
    created_at: datetime
    updated_at: datetime
    password_hash: str | None = field(default=None, repr=False)
    auth_data: str | None = field(default=None, repr=False)
    email: str | None = None
    storage_mode: StorageMode = "table"
    storage_id: str | None = None
    deleted_at: datetime | None = None


@dataclass(frozen=True)
class Storage:
    """A named place for scopes' tables. `base` is a URI without credentials; templates are checked ones."""

    id: str
    type: StorageType
    base: str
    user_template: str
    shared_template: str
    folds_case: bool = False
    """The place cannot tell `A` from `a`: paths escape upper case (probed when the storage was made)."""
    name: str = ""
    description: str = ""
    created_at: datetime | None = None
    connection: Connection = field(default_factory=Connection)
    identity: str = ""
    """The random id that the marker at its place holds too (`storage.owner`); empty in a warehouse of format 1."""


@dataclass(frozen=True)
class Lease:
    """The right to change one thing that several objects make up, for as long as it is renewed.

    `token` is the catalog's version that granted it, so a later lease has a higher one. `beat` grows with each renewal: who
    waits counts the lease as expired once it has seen the same beat for `seconds`, by its own clock alone.
    """

    name: str
    owner: str
    token: int
    seconds: float
    beat: int = 0


@dataclass(frozen=True)
class Catalog:
    """All of it at one version. Tables, views, storages and users by name, in order of creation."""

    version: int = 0
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    storages: dict[str, Storage] = field(default_factory=dict)
    tables: dict[TableName, Table] = field(default_factory=dict)
    views: dict[TableName, View] = field(default_factory=dict)
    users: dict[str, User] = field(default_factory=dict, repr=False)
    pipelines: dict[str, Pipeline] = field(default_factory=dict)
    rules: dict[str, IngestRule] = field(default_factory=dict)
    """Of pipelines, by id."""
    blanks: dict[TableName, Table] = field(default_factory=dict)
    """Tables of pipelines that have no schema yet: their `schemas` is empty (catalog/changes/pipelines.py)."""
    leases: dict[str, Lease] = field(default_factory=dict)
    """Those that are held now (catalog/changes/leases.py)."""
    settings: dict[str, str] | None = None
    """Those of the whole warehouse (catalog/kept_settings.py), where they are not the default; None in one of an earlier release,
    until its settings are taken over."""

    @cached_property
    def disabled(self) -> frozenset[str]:
        """The namespaces whose engine is disabled."""
        return frozenset(name for name, each in self.namespaces.items() if not each.engine.active)

    def location_of(self, uri: str) -> Location:
        """A place that somebody names, with the connection of the storage that it is in, if it is in one.

        Raises:
            InvalidArgument: it is not a place, or contains a credential.
        """
        place = canonical(uri)
        holders = [each for each in self.storages.values() if within(place, canonical(each.base))]
        # The innermost one, by the length of its base.
        nearest = max(holders, key=lambda each: len(each.base), default=None)
        return Location(place) if nearest is None else Location(place, nearest.connection)
