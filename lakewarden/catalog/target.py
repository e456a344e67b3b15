"""The input of work on one scope's Delta table. A picklable value: it is sent to Spark's tasks."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakewarden.base.connection import Location, StorageRoot
from lakewarden.base.recent import Recent
from lakewarden.base.scope import Scope
from lakewarden.catalog.access import can
from lakewarden.catalog.kept_settings import UpkeepRules
from lakewarden.catalog.model import Catalog, Compression, Table, TableSchema
from lakewarden.catalog.state.floor_entries import FloorLocation, KnownState
from lakewarden.errors import InvalidArgument
from lakewarden.storage.location import local_path
from lakewarden.storage.paths import check_user


@dataclass(frozen=True)
class ScopeTarget:
    """Everything that work on one scope's Delta table needs to know."""

    scope: Scope
    location: Location
    """Where its Delta table is. Contains no credential."""
    schemas: tuple[TableSchema, ...]
    """Every schema version of the table, oldest first; the last one is current."""
    app_id: str
    """Application id of the flush watermark: `lakewarden/<warehouse uuid>/<log partition uuid>` (docs/log.md)."""
    compression: Compression
    target_file_size: int
    retention_hours: int
    root: StorageRoot | None = None
    """The storage that it is on; None when that is not checked."""
    mark: str = ""
    """The scope's keyed hash (`catalog.state.erasures`); empty in a warehouse of format 1."""
    manifest_key: str = field(default="", repr=False)
    """Signs what is kept of the newest version (`delta.commit_log.kept_versions`); empty in a warehouse of format 1."""
    floor: FloorLocation | None = None
    """The floor of its table in the warehouse's state; None in a warehouse of format 1."""
    known: KnownState | None = None
    """What that floor knew of the scope when the target was made; None when it knew nothing, or when that is not checked."""

    change_data_feed: bool | None = None
    """Whether its table is to have Delta's change data feed; None where the table itself says so (`delta.scope`)."""
    buckets: int = 1
    """Into how many files a partition's rows are divided by their key (`catalog.buckets`)."""
    rules: UpkeepRules = field(default_factory=UpkeepRules)
    """By which maintenance finds something to do."""

    @property
    def uri(self) -> str:
        return self.location.uri

    @property
    def on_disk(self) -> bool:
        return local_path(self.uri) is not None

    @property
    def schema(self) -> TableSchema:
        return self.schemas[-1]

    @property
    def log_id(self) -> str:
        """The id of its table's write log, with which `app_id` ends."""
        return self.app_id.rpartition("/")[2]


_TARGETS = 1_000
"""Scopes, of some 2 KB each."""


class RecentTargets:
    """Where scopes are by one version of the catalog, that was used last. What the state knows of a scope is not in it."""

    def __init__(self) -> None:
        self._kept: tuple[Catalog | None, Recent[Scope, ScopeTarget]] = None, Recent(0)

    def of(self, catalog: Catalog) -> Recent[Scope, ScopeTarget]:
        of, kept = self._kept  # at once: another thread may use another version
        if of is not catalog:
            kept = Recent(_TARGETS)
            self._kept = catalog, kept
        return kept


def check_scope(table: Table, scope: Scope) -> None:
    """Checks that the scope is a scope of the table.

    Raises:
        InvalidArgument: a user for a SHARED table, no user for another, or an invalid user id.
    """
    if table.type == "SHARED" and scope.user is not None:
        raise InvalidArgument(f"{table.name} is a SHARED table: its rows belong to no user, so name none")
    if can(table.type, "a scope per user"):
        if scope.user is None:
            raise InvalidArgument(f"{table.name} is a {table.type} table: name the user")
        check_user(scope.user)
