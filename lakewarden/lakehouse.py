"""The Python client: one warehouse, its tables, and the operations over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType

from lakewarden.catalog import changes
from lakewarden.catalog.model import Column, Namespace, Storage, Table, TableType
from lakewarden.clock import Clock, NewId, random_id, system_clock
from lakewarden.engine import Engine, Progress, StartSpark, silent
from lakewarden.errors import InvalidArgument
from lakewarden.log.view import read_views
from lakewarden.operations.check import Finding
from lakewarden.operations.compact import CompactOptions
from lakewarden.operations.optimize import OptimizeOptions
from lakewarden.report import ScopeReport
from lakewarden.operations.restore import RestoreOptions
from lakewarden.operations.status import ScopeStatus
from lakewarden.operations.tags import Tag, add_tag
from lakewarden.operations.vacuum import VacuumOptions
from lakewarden.planning.pending import Due, Pending, due_scopes, pending_scopes
from lakewarden.scope import Scope, TableName
from lakewarden.settings import Settings
from lakewarden.table import TableClient
from lakewarden.warehouse import Warehouse, find_table


class Lakehouse:
    """An open warehouse, as the operator sees it: every table, every scope.

    Use it as a context manager, or call `close`: that stops the Spark session which it started.
    """

    def __init__(self, warehouse: Warehouse, engine: Engine) -> None:
        self.warehouse = warehouse
        self._engine = engine

    @classmethod
    def open(
        cls,
        uri: str,
        *,
        settings: Settings | None = None,
        clock: Clock = system_clock,
        new_id: NewId = random_id,
        progress: Progress = silent,
        spark: StartSpark | None = None,
    ) -> Lakehouse:
        """Opens a warehouse, and makes it where there is none yet.

        Args:
            uri: a directory, or `s3://bucket/prefix` (also `gs://`, `abfss://`).
            settings: in place of `lakewarden.toml` and the environment.
            progress: told how many scopes have just been finished, and of how many.
            spark: gives the Spark session when a job first needs one; without it, Lakewarden starts its own, and stops it.

        Raises:
            StorageRefused, StorageUnavailable: the place can't be written or reached.
        """
        warehouse = Warehouse.open(uri, settings or Settings(), clock, new_id)
        return cls(warehouse, Engine(warehouse, progress, spark))

    def close(self) -> None:
        self._engine.close()

    def __enter__(self) -> Lakehouse:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # What exists

    def create_namespace(self, name: str, *, if_not_exists: bool = False) -> None:
        """Raises:
        AlreadyExists, InvalidArgument: the name is taken, or is none.
        """
        if if_not_exists and name in self.warehouse.catalog.read().namespaces:
            return
        now = self.warehouse.clock()
        self.warehouse.catalog.change(lambda catalog: changes.add_namespace(catalog, name, now))

    def drop_namespace(self, name: str, *, cascade: bool = False) -> None:
        """Drops the namespace; with `cascade` its tables first.

        Raises:
            InUse: it has tables, and `cascade` is not given.
        """
        if cascade:
            for table in self.tables(name):
                self.drop_table(str(table.name))
        self.warehouse.catalog.change(lambda catalog: changes.drop_namespace(catalog, name))

    def namespaces(self) -> list[Namespace]:
        return list(self.warehouse.catalog.read().namespaces.values())

    def create_storage(
        self,
        storage_id: str,
        *,
        type: str,
        base: str,
        user_template: str | None = None,
        shared_template: str | None = None,
        name: str | None = None,
        description: str = "",
    ) -> Storage:
        """Creates a storage, after trying to write, read, list and delete there."""
        return self._engine.create_storage(storage_id, type, base, user_template, shared_template, name, description)

    def alter_storage(
        self,
        storage_id: str,
        *,
        user_template: str | None = None,
        shared_template: str | None = None,
        name: str | None = None,
        description: str | None = None,
    ) -> Storage:
        """Changes what is given; templates only while no table uses the storage."""
        changed = self.warehouse.catalog.change(
            lambda catalog: changes.alter_storage(
                catalog,
                storage_id,
                user_template=user_template,
                shared_template=shared_template,
                name=name,
                description=description,
            )
        )
        return changed.storages[storage_id]

    def drop_storage(self, storage_id: str) -> None:
        """Raises:
        InUse: tables lie on it.
        """
        self.warehouse.catalog.change(lambda catalog: changes.drop_storage(catalog, storage_id))

    def storages(self) -> list[Storage]:
        return list(self.warehouse.catalog.read().storages.values())

    def create_table(
        self,
        name: str,
        *,
        type: TableType = "SHARED",
        columns: Sequence[Column],
        primary_key: Sequence[str],
        options: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
    ) -> TableClient:
        """Creates a table.

        Args:
            name: `namespace.table`.
            type: `USER` (a scope per user) or `SHARED` (one scope).
            columns: in order; docs/reference/types.md has their types.
            primary_key: names of one or more columns, which become NOT NULL.
            options: STORAGE_ID, FLUSH_POLICY, COMPRESSION, TARGET_FILE_SIZE, DELETED_RETENTION_HOURS.

        Raises:
            InvalidArgument, AlreadyExists, NotFound, InUse: nothing was created.
        """
        full = TableName.parse(name)
        if not (if_not_exists and full in self.warehouse.catalog.read().tables):
            self._engine.create_table(full, type, columns, primary_key, options or {})
        return self.table(name)

    def drop_table(self, name: str) -> None:
        """Drops a table and all its data; waits for the cleanup. One that was interrupted goes on where it stopped.

        Raises:
            NotFound: no such table.
        """
        self._engine.drop_table(TableName.parse(name))

    def tables(self, namespace: str | None = None) -> list[Table]:
        found = self.warehouse.catalog.read().tables.values()
        return [table for table in found if namespace in (None, table.name.namespace)]

    def table(self, name: str) -> TableClient:
        """Raises:
        NotFound: no such table.
        """
        table = find_table(self.warehouse.catalog.read(), TableName.parse(name))
        return TableClient(self.warehouse, table, self.warehouse.writer(table))

    # How it stands

    def pending(self) -> list[Pending]:
        """The scopes with hot rows, oldest first; costs what lies in the log."""
        views = read_views(self.warehouse.state, self.warehouse.headers)
        return pending_scopes(self.warehouse.catalog.read(), views)

    def due(self) -> list[Due]:
        """The scopes that their table's FLUSH_POLICY wants flushed now, and why."""
        return list(due_scopes(self.warehouse.catalog.read(), self.pending(), self.warehouse.clock()))

    def status(self) -> list[ScopeStatus]:
        """The scopes with pending rows and how their tables stand, the one that waits longest first."""
        return self._engine.status(self.pending())

    def check(self, storage: str | None = None) -> list[Finding]:
        """Is every storage reachable, every scope readable, log and table consistent?"""
        return self._engine.check(storage)

    def plan(self, *tables: str) -> list[ScopeReport]:
        """What maintenance would do now, and why: a report for each operation on a scope that has something to do."""
        now_due = {one.pending.scope: one for one in self.due()}
        names = {TableName.parse(name) for name in tables}
        flushes = [self._engine.planned_flush(one) for one in now_due.values() if not names or one.pending.table in names]
        maintenance: list[ScopeReport] = []
        for options in (CompactOptions(), OptimizeOptions(), VacuumOptions()):
            maintenance += self._engine.maintain(tables, None, options, dry_run=True)
        return flushes + [report for report in maintenance if report.outcome != "skipped"]

    # What changes it: one report a scope

    def flush(self, *tables: str, user: str | None = None) -> list[ScopeReport]:
        """Moves pending rows into the Delta tables: of all tables where none is named, of one user where one is."""
        return self._engine.flush(self._engine.matching(self.pending(), tables, user))

    def flush_scopes(self, scopes: Iterable[Scope]) -> list[ScopeReport]:
        """Flushes exactly these, in one job; those with nothing pending are passed over."""
        wanted = set(scopes)
        return self._engine.flush([one for one in self.pending() if one.scope in wanted])

    def compact(self, *tables: str, user: str | None = None, dry_run: bool = False) -> list[ScopeReport]:
        """Folds each scope's newest small files into one."""
        return self._engine.maintain(tables, user, CompactOptions(), dry_run=dry_run)

    def optimize(
        self, *tables: str, user: str | None = None, zorder: Sequence[str] = (), dry_run: bool = False
    ) -> list[ScopeReport]:
        """Packs each scope's files to the target size, or clusters them by columns."""
        return self._engine.maintain(tables, user, OptimizeOptions(zorder=tuple(zorder)), dry_run=dry_run)

    def vacuum(
        self,
        *tables: str,
        user: str | None = None,
        retain_hours: float | None = None,
        force: bool = False,
        dry_run: bool = True,
    ) -> list[ScopeReport]:
        """Deletes files that no version inside the retention needs; lists them only, unless `dry_run=False`.

        Raises:
            InvalidArgument: `retain_hours` is below 168 and `force` is not given.
        """
        return self._engine.maintain(tables, user, VacuumOptions(retain_hours=retain_hours, force=force), dry_run=dry_run)

    def restore(
        self,
        table: str,
        *,
        user: str | None = None,
        version: int | None = None,
        timestamp: datetime | None = None,
        discard_pending: bool = False,
        dry_run: bool = True,
    ) -> list[ScopeReport]:
        """Brings a scope (or, by timestamp, all scopes of a table) back; says only what it would do, unless `dry_run=False`.

        Pending rows are flushed first, or dropped where `discard_pending` says so.

        Raises:
            InvalidArgument: not exactly one of `version` and `timestamp`, or a version of a USER table without a user.
            NotFound: no such version, or its files were vacuumed; says which versions still work.
        """
        if version is not None and user is None and self.table(table).table.type == "USER":
            raise InvalidArgument(f"{table} is a USER table and versions are a scope's own: name the user, or restore by timestamp")
        options = RestoreOptions(version=version, timestamp=timestamp)
        return self._engine.restore(table, user, options, discard_pending=discard_pending, dry_run=dry_run)

    def tag(self, table: str, name: str, *, user: str | None = None, version: int | None = None) -> Tag:
        """Names a version of a scope, the newest where none is given; no vacuum takes what a tag names."""
        catalog = self.warehouse.catalog.read()
        scope = Scope(TableName.parse(table), user)
        target = self.warehouse.target(catalog, scope)
        return add_tag(self.warehouse.state, find_table(catalog, scope.table).id, target, name, version)
