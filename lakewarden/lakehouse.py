"""The Python client: one warehouse, its tables, and the operations over them.

An operation is imported where it is called: all of them together take as long as a whole query from the command line.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Unpack, overload

from lakewarden.catalog.live import LiveQueries, LiveQuery
from lakewarden.catalog.model import Column, Namespace, Storage, Table, TableType
from lakewarden.clock import Clock, NewId, Pause, random_id, system_clock, wait
from lakewarden.connection import Connection
from lakewarden.engine import Engine, Progress, StartSpark, silent
from lakewarden.errors import InvalidArgument
from lakewarden.operations.asked import EraseAsked, find_asked
from lakewarden.operations.namespaces import make_namespace, make_view, remove_namespace, remove_view
from lakewarden.operations.request import Asked, Plannable, PlanOptions, Request, new_request
from lakewarden.planning.pending import Due, Pending, due_scopes, pending_in
from lakewarden.scope import Scope, TableName
from lakewarden.settings import Settings, check_settings, load_settings
from lakewarden.sql.sessions import Sessions
from lakewarden.storage.paths import check_user
from lakewarden.warehouse import Warehouse, find_table, live_tables

if TYPE_CHECKING:
    from lakewarden.applier import Applier
    from lakewarden.catalog.certificate import Certificate
    from lakewarden.catalog.evolution import Alteration
    from lakewarden.live.feed import Feeds
    from lakewarden.live.subscription import Subscription
    from lakewarden.operations.check import Finding
    from lakewarden.operations.exported import Export
    from lakewarden.operations.health import StorageHealth
    from lakewarden.operations.job import Job, Queueable
    from lakewarden.operations.plans.value import Plan
    from lakewarden.operations.read import Freshness
    from lakewarden.operations.tags import Tag
    from lakewarden.operations.upgrade import UpgradedStorage
    from lakewarden.operator import Operator
    from lakewarden.planner import Planner
    from lakewarden.planning.status import ScopeStatus
    from lakewarden.repair.report import Repaired
    from lakewarden.report import ScopeReport
    from lakewarden.sql.results import Result
    from lakewarden.sql.services import Services
    from lakewarden.sql.session import SqlSession
    from lakewarden.sql.uploads import File
    from lakewarden.table import TableClient
    from lakewarden.verify.search import Searched


class Lakehouse:
    """An open warehouse, as the operator sees it: every table, every scope.

    Use it as a context manager, or call `close`: that stops the Spark session which it started.
    """

    def __init__(self, warehouse: Warehouse, engine: Engine) -> None:
        self.warehouse = warehouse
        self._engine = engine
        self._sessions = Sessions()

    @cached_property
    def feeds(self) -> Feeds:
        """One reading of each table's log, for all subscriptions of this process."""
        from lakewarden.live.feed import Feeds

        return Feeds(LiveQueries(self.warehouse.state), time.monotonic)

    @cached_property
    def _services(self) -> Services:
        from lakewarden.sql.query_engine.in_process import engine_of_process  # brings Arrow
        from lakewarden.sql.services import Services

        engine = engine_of_process(self.warehouse.settings.sql)
        return Services(self.warehouse, engine, self._sessions, lambda: self._operator, lambda: self.feeds)

    @cached_property
    def _operator(self) -> Operator:
        from lakewarden.operations.jobs import JobLog
        from lakewarden.operator import Operator

        warehouse = self.warehouse
        lease = timedelta(seconds=warehouse.settings.jobs.lease_seconds)
        return Operator(warehouse, self._engine, JobLog(warehouse.state, warehouse.clock, warehouse.new_id, lease))

    @cached_property
    def _applier(self) -> Applier:
        from lakewarden.applier import Applier

        return Applier(self._operator)

    @cached_property
    def _planner(self) -> Planner:
        from lakewarden.planner import Planner

        return Planner(self._operator)

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
        chosen = check_settings(settings) if settings else load_settings(os.environ)
        return cls(Warehouse.open(uri, chosen, clock, new_id), Engine(chosen, progress, spark))

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
        make_namespace(self.warehouse, name)

    def drop_namespace(self, name: str, *, cascade: bool = False) -> None:
        """Drops the namespace; with `cascade` its tables and views first.

        Raises:
            InUse: it has tables or views, and `cascade` is not given.
        """
        remove_namespace(self.warehouse, name, self._operator.drop if cascade else None)

    def namespaces(self) -> list[Namespace]:
        return list(self.warehouse.catalog.read().namespaces.values())

    def create_storage(
        self,
        storage_id: str,
        *,
        type: str,
        base: str = "",
        bucket: str = "",
        user_template: str = "",
        shared_template: str = "",
        name: str = "",
        description: str = "",
        connection: Connection = Connection(),
    ) -> Storage:
        """Creates a storage, after trying to write, read, list and delete there; empty templates mean the defaults.

        Args:
            type: `filesystem` (also `local`), `s3`, `gcs` or `azure`.
            base: a directory, or a URI such as `s3://bucket/prefix`; beside `bucket`, a prefix in it.
            bucket: of an object store; the scheme is added.
            connection: endpoint, region, path style and credentials (by reference) where the environment does not say them.

        Raises:
            AlreadyExists, InvalidArgument, InUse: the id is taken or none, a template or the base can't be, or the place is
                another warehouse's.
            StorageRefused, StorageUnavailable: the place can't be written or reached.
        """
        from lakewarden.operations.storages import make_storage, new_storage

        wanted = new_storage(
            storage_id,
            type,
            base,
            bucket=bucket,
            connection=connection,
            user_template=user_template,
            shared_template=shared_template,
            name=name,
            description=description,
            now=self.warehouse.clock(),
        )
        return make_storage(self.warehouse, wanted)

    def alter_storage(
        self,
        storage_id: str,
        *,
        user_template: str | None = None,
        shared_template: str | None = None,
        name: str | None = None,
        description: str | None = None,
        endpoint: str | None = None,
        region: str | None = None,
        path_style: bool | None = None,
        credentials: str | None = None,
    ) -> Storage:
        """Changes what is given, after trying the place as it will be reached then.

        A template changes only while no table of its type lies on the storage.
        """
        from lakewarden.operations.storages import StorageChange, change_storage

        change = StorageChange(user_template, shared_template, name, description, endpoint, region, path_style, credentials)
        return change_storage(self.warehouse, storage_id, change)

    def adopt_storage(self, storage_id: str) -> Storage:
        """Marks what is at a storage's place now as the storage, after its disk or bucket was lost for good, or restored without
        its marker. Nothing else makes the warehouse use it again.

        Raises:
            NotFound: there is none.
            InUse: the place is another storage's, or another warehouse's.
        """
        from lakewarden.operations.storages import adopt_storage

        return adopt_storage(self.warehouse, storage_id)

    def drop_storage(self, storage_id: str, *, if_exists: bool = False) -> bool:
        """Drops a storage; False where there is none and `if_exists` says that this is no error.

        Raises:
            NotFound: there is none.
            InUse: tables or users' scopes lie on it.
        """
        from lakewarden.operations.storages import remove_storage

        if if_exists and storage_id not in self.warehouse.catalog.read().storages:
            return False
        remove_storage(self.warehouse, storage_id)
        return True

    def storages(self) -> list[Storage]:
        return list(self.warehouse.catalog.read().storages.values())

    def create_table(
        self,
        name: str,
        *,
        type: TableType = "SHARED",
        columns: Sequence[Column],
        primary_key: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
    ) -> TableClient:
        """Creates a table.

        Args:
            name: `namespace.table`.
            type: `USER` (a scope per user), `SHARED` (one scope), or `STREAM` (a scope per user, in the log alone).
            columns: in order; docs/reference/types.md has their types.
            primary_key: names of one or more columns, which become NOT NULL; a STREAM table may have none.
            options: those of the type (docs/reference/access.md); TTL_SECONDS is required for STREAM.

        Raises:
            InvalidArgument, AlreadyExists, NotFound, InUse: nothing was created.
        """
        from lakewarden.operations.declare import make_table

        full = TableName.parse(name)
        if not (if_not_exists and full in self.warehouse.catalog.read().tables):
            make_table(self.warehouse, full, type, columns, primary_key, options or {})
        return self.table(name)

    def alter_table(self, name: str, change: Alteration) -> Table:
        """Changes one thing of a table: a column (`catalog.evolution`), or its options.

        Flushed files and rows in the log stay as they are and are read under the new schema; a scope's files are rewritten
        by its next flush. A `TableClient` that was made before goes on writing by the schema that it knows.

        Raises:
            InvalidArgument, AlreadyExists, NotFound, Unsupported, ConstraintViolation, InUse: nothing was changed.
        """
        from lakewarden.operations.alter import alter

        return alter(self.warehouse, TableName.parse(name), change)

    def drop_table(self, name: str) -> None:
        """Drops a table and all its data; waits for the cleanup. One that was interrupted goes on where it stopped.

        Raises:
            NotFound: no such table.
        """
        self._operator.drop(TableName.parse(name))

    def create_view(self, name: str, text: str, *, or_replace: bool = False) -> None:
        """Keeps a query under a name. Whoever reads it does so with their own rights, and sees their own rows.

        Raises:
            BadSyntax, InvalidArgument, AlreadyExists, NotFound: nothing was created.
        """
        from lakewarden.sql.parse import parse_query  # a third of a second that other commands need not spend

        parse_query(text)
        make_view(self.warehouse, TableName.parse(name), text, replacing=or_replace)

    def drop_view(self, name: str) -> None:
        """Raises:
        NotFound: no such view.
        """
        remove_view(self.warehouse, TableName.parse(name))

    def tables(self, namespace: str | None = None) -> list[Table]:
        found = live_tables(self.warehouse.catalog.read())
        return [table for table in found if namespace in (None, table.name.namespace)]

    def table(self, name: str) -> TableClient:
        """Raises:
        NotFound: no such table.
        """
        from lakewarden.table import TableClient

        table = find_table(self.warehouse.catalog.read(), TableName.parse(name))
        return TableClient.of(self.warehouse, table)

    # How it stands

    def pending(self) -> list[Pending]:
        """The scopes with rows to flush, oldest first; costs what lies in the log. STREAM tables have none.

        Those of a table whose log is corrupt are not known; its flush and `check` say so.
        """
        return pending_in(self.warehouse)

    def due(self) -> list[Due]:
        """The scopes that their table's FLUSH_POLICY wants flushed now, and why."""
        return list(due_scopes(self.warehouse.catalog.read(), self.pending(), self.warehouse.clock()))

    def status(self) -> list[ScopeStatus]:
        """The scopes with pending rows and how their tables stand, the one that waits longest first."""
        from lakewarden.planning.status import status

        return status(self.warehouse, self.pending())

    def check(self, storage: str | None = None) -> list[Finding]:
        """Is every storage reachable, every scope readable, log and table consistent?"""
        from lakewarden.operations.check import check

        return check(self.warehouse, self._engine.run, storage)

    def upgrade(self) -> list[UpgradedStorage]:
        """Brings a warehouse that an earlier release made to the newest format: gives every storage its identity and every
        table its floor. Stop earlier releases before; open the warehouse again afterwards.

        Raises:
            StorageUnavailable, StorageRefused, Corrupt: a storage, or the table of a scope that was flushed, is not there;
                nothing was upgraded.
        """
        from lakewarden.operations.upgrade import upgrade

        return upgrade(self.warehouse)

    def repair(
        self, table: str | None = None, *, user: str | None = None, dry_run: bool = False, restored: bool = False
    ) -> list[Repaired]:
        """Makes damaged logs and scopes whole again, as far as their rows are left, and says what is lost.

        What is in the way goes to `_quarantine/` in the scope's directory, where rows whose deletion cannot be excluded go too.

        Args:
            table: all tables where it is left out.
            user: only this user's scopes.
            dry_run: says what would be done, and changes nothing.
            restored: the warehouse or its data was just restored from a backup: the step that must follow.

        Returns:
            A report for each damaged log and for each scope; `skipped` where nothing is wrong.

        Raises:
            NotFound, InvalidArgument: no such table; an impossible user, or one for a SHARED table.
            StorageUnavailable: a storage is away, or is not the one that this warehouse uses.
        """
        return self._operator.repair(() if table is None else (table,), user, dry_run=dry_run, restored=restored)

    def health(self, storage: str | None = None, *, extended: bool = True) -> list[StorageHealth]:
        """How every storage is, or that one: what can be done there, how fast, and with `extended` how much lies there.

        Raises:
            NotFound: no such storage.
        """
        from lakewarden.operations.check import storages_named
        from lakewarden.operations.health import health

        chosen = storages_named(self.warehouse.catalog.read(), storage).values()
        return [health(self.warehouse, one, extended=extended) for one in chosen]

    @overload
    def plan(self, operation: Plannable, /, *tables: str, **options: Unpack[PlanOptions]) -> Plan: ...  # type: ignore[overload-overlap]  # a table's name has a dot
    @overload
    def plan(self, *tables: str) -> list[ScopeReport]: ...
    def plan(self, *names: str, **options: Unpack[PlanOptions]) -> Plan | list[ScopeReport]:
        """What an operation would do, as a value that `apply` takes; without an operation, what maintenance would do now.

        `lake.plan("vacuum", "chat.messages", user="u_42")` makes a plan of that operation and keeps it for 24 hours.
        `lake.plan("chat.messages")` gives a report for each operation on a scope that has something to do, and keeps nothing.

        Raises:
            InvalidArgument, Unsupported, NotFound: it cannot be requested so.
        """
        if names and "." not in names[0]:
            return self.planned(*names, **options)
        if options:
            raise InvalidArgument("name the operation first, as in lake.plan('vacuum', 'chat.messages', retain_hours=200)")
        return self._proposed(names)

    def planned(self, operation: str, *tables: str, **options: Unpack[PlanOptions]) -> Plan:
        """The plan of an operation by its name; as `plan`, for names that are not known before."""
        return self._planner.preview(new_request(operation, tables, **options)).plan

    def plan_due(self, *tables: str) -> list[Plan]:
        """What maintenance would do now, as plans in the order in which they are to be applied."""
        return self._planner.due(tables, {due.pending.scope for due in self.due()})

    def apply(self, plan: Plan | str, *, only: Request | None = None) -> list[ScopeReport]:
        """Does exactly what was planned, by the plan or its id, once: a report for each scope, `done`, or `failed` with CONFLICT
        where it moved since. A second call reports what the first one did.

        Args:
            only: what the plan has to have been made for.

        Raises:
            InvalidArgument, NotFound: it is not a plan of this warehouse, or of another request than `only`.
            Moved: it was made more than 24 hours ago.
        """

        def permit(request: Request) -> None:
            if only not in (None, request):
                raise InvalidArgument("the plan was not made for this request: request the same as when it was previewed")

        return self._applier.apply(plan, permit)

    def look(self, operation: Plannable, *tables: str, **options: Unpack[PlanOptions]) -> list[ScopeReport]:
        """What a dry run reports, without keeping a plan."""
        return self._planner.look(new_request(operation, tables, **options))

    def _proposed(self, tables: Sequence[str]) -> list[ScopeReport]:
        from lakewarden.operations.scopes import named_tables
        from lakewarden.operations.vacuum import VacuumOptions
        from lakewarden.planning.propose import planned_flush, vacuumable

        names = {table.name for table in named_tables(self.warehouse.catalog.read(), tables)}
        flushes = [planned_flush(self.warehouse, due) for due in self.due() if due.pending.table in names]
        compact, optimize = self.look("compact", *tables), self.look("optimize", *tables)
        safe = tuple(vacuumable(self.warehouse, names))
        vacuum = self._operator.maintain(Asked(safe), VacuumOptions(), dry_run=True) if safe else []
        return flushes + [report for report in (*compact, *optimize, *vacuum) if report.outcome != "skipped"]

    # What changes it: one report a scope

    def flush(self, *tables: str, user: str | None = None) -> list[ScopeReport]:
        """Moves pending rows into the Delta tables: of all tables where none is named, of one user where one is.

        Raises:
            NotFound: a table that is not there; nothing was flushed.
        """
        return self._operated(new_request("flush", tables, user=user), dry_run=False)

    def flush_scopes(self, scopes: Iterable[Scope]) -> list[ScopeReport]:
        """Flushes exactly these, in one job; those with nothing pending are passed over."""
        wanted = set(scopes)
        return self._operator.flush_where(wanted.__contains__, {"scopes": str(len(wanted))})

    def compact(self, *tables: str, user: str | None = None, dry_run: bool = False) -> list[ScopeReport]:
        """Folds each scope's newest small files into one."""
        return self._operated(new_request("compact", tables, user=user), dry_run)

    def evict(self, *tables: str, user: str | None = None, dry_run: bool = False) -> list[ScopeReport]:
        """Lets go of STREAM rows whose time is over, or that are beyond their scope's size: a report for each such scope.

        Raises:
            NotFound, Unsupported: a name that is no STREAM table's; nothing was evicted.
        """
        return self._operated(new_request("evict", tables, user=user), dry_run)

    def optimize(
        self, *tables: str, user: str | None = None, zorder: Sequence[str] = (), dry_run: bool = False
    ) -> list[ScopeReport]:
        """Packs each scope's files to the target size, or clusters them by columns."""
        return self._operated(new_request("optimize", tables, user=user, zorder=tuple(zorder)), dry_run)

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
            InvalidArgument: a retention below 168 hours, and `force` is not given.
        """
        return self._operated(new_request("vacuum", tables, user=user, retain_hours=retain_hours, force=force), dry_run)

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
        """
        options = PlanOptions(user=user, version=version, timestamp=timestamp, discard_pending=discard_pending)
        return self._operated(new_request("restore", (table,), **options), dry_run)

    def _operated(self, request: Request, dry_run: bool) -> list[ScopeReport]:
        return self._planner.preview(request).reports if dry_run else self._operator.run(request)

    def move(self, table: str, to: str) -> list[ScopeReport]:
        """Moves a table to another storage: copies, compares, switches, and empties the old place. Reads and writes go on;
        flushes wait while the last of it is copied. One that was interrupted goes on when it is asked for again.

        Scopes of users with a storage of their own stay there.

        Args:
            to: the storage's id.

        Returns:
            A report a scope; none where the table lies there already. Where a scope failed, the table stays where it is.

        Raises:
            NotFound, Unsupported: no such table or storage; a STREAM table.
            InUse: it is being moved elsewhere, or something lies at its place there.
            Conflict: a reader leases a version, or a user is being erased; try again later.
        """
        return self._operator.move(TableName.parse(table), to)

    def cancel_move(self, table: str) -> list[ScopeReport]:
        """Gives up a move before its switch; the table stays where it is, and what was copied goes.

        Raises:
            NotFound: no such table.
            InUse: it lies at the new place already; the move can only be ended.
        """
        return self._operator.cancel_move(TableName.parse(table))

    def export(self, user: str, to: str) -> Export:
        """Copies all that a user has, flushed first, as Delta tables with their history; the manifest comes last.

        Args:
            to: a directory or URI that is empty, or holds an earlier or interrupted export of the same user.

        Raises:
            InvalidArgument: the place holds a credential, or lies in the warehouse (but for its `exports/`) or a storage.
            InUse: something else lies there.
            Conflict: a scope could not be flushed, or was rewritten meanwhile; try again.
        """
        return self._operator.export(user, to)

    def import_user(self, source: str, user: str, tables: Sequence[str] | None = None) -> dict[str, int]:
        """Writes the rows of an export, as of its newest versions, for a user of this warehouse; rows by table.

        Args:
            tables: only these; all of the export where none is named. They have to be there, with the same columns.

        Raises:
            NotFound: no finished export, or no such table in it or here; nothing was written.
            Corrupt: a file is not what the manifest says; nothing was written.
        """
        from lakewarden.table.importing import import_export

        return import_export(self.table, source, user, tuple(tables or ()))

    def erase(
        self, user: str, tables: Sequence[str] | None = None, *, deep: bool = False, asked_by: str = "operator"
    ) -> Certificate:
        """Removes all that a user has, hot and cold, and searches for what is left; one that was interrupted goes on.

        Meanwhile the user's writes raise `BeingErased`; afterwards the user may start anew.

        Args:
            tables: only of these; all USER tables where none is named.
            deep: read every object under every storage.
            asked_by: stands in the certificate.

        Raises:
            NotFound, InvalidArgument: no such table, or a SHARED one; nothing was done.
            Conflict: something was left, or is still written to; remove what the message names, and erase again.
        """
        return self._operator.erase(EraseAsked(user, tuple(tables or ()), asked_by, deep))

    def ask_erasure(
        self, user: str, tables: Sequence[str] | None = None, *, deep: bool = False, asked_by: str = "operator"
    ) -> str:
        """Queues an erasure for `erase_asked`, here or elsewhere; the user's keyed hash, by which it is known until then.

        Raises:
            NotFound, InvalidArgument: as `erase`.
        """
        from lakewarden.operations.erase import ask_erasure

        return ask_erasure(self.warehouse, EraseAsked(user, tuple(tables or ()), asked_by, deep))

    def asked_erasure(self, request: str) -> EraseAsked:
        """What was asked for under this keyed hash.

        Raises:
            NotFound, InvalidArgument: nothing was; it is none.
        """
        return find_asked(self.warehouse.state, request)

    def plan_asked_erasure(self, request: str) -> Plan:
        """The plan of what was asked for under this keyed hash.

        Raises:
            NotFound, InvalidArgument: nothing was; it is none.
        """
        return self._planner.preview_asked(request)

    def erase_asked(self, request: str, *, plan_id: str | None = None) -> Certificate:
        """Erases as it was asked for under this keyed hash. One that fails stays asked for.

        Args:
            plan_id: a plan of it, made by `plan("erase", …)`: then it is done only if the tables are still those of the plan.

        Raises as `erase`, with the keyed hash in place of the id.
        """
        return self._operator.erase_asked(request) if plan_id is None else self._applier.erase_asked(request, plan_id)

    def verify_erased(self, user: str, tables: Sequence[str] | None = None, *, deep: bool = False) -> Searched:
        """Searches for anything of a user, by code that shares nothing with the deletion; changes nothing."""
        from lakewarden.operations.verification import verify_erased

        return verify_erased(self.warehouse, user, tuple(tables or ()), deep=deep)

    def erasures(self, user: str | None = None) -> list[Certificate]:
        """The certificates, oldest first; with `user` those of one who was erased, by their keyed hash."""
        from lakewarden.catalog.certificate import certificates

        mark = None if user is None else self.warehouse.erasures.mark(check_user(user))
        return [found for found in certificates(self.warehouse.state) if mark in (None, found.user)]

    def tag(self, table: str, name: str, *, user: str | None = None, version: int | None = None) -> Tag:
        """Names a version of a scope, the newest where none is given; no vacuum takes what a tag names."""
        from lakewarden.operations.tags import add_tag

        catalog = self.warehouse.catalog.read()
        scope = Scope(TableName.parse(table), user)
        target = self.warehouse.target(catalog, scope)
        return add_tag(self.warehouse.state, find_table(catalog, scope.table).id, target, name, version)

    def tags(self, table: str, *, user: str | None = None) -> list[Tag]:
        """The tags of a table, or of one user's scope, by user and name."""
        from lakewarden.operations.tags import tags_of

        found = tags_of(self.warehouse.state, self.table(table).table.id)
        return sorted((tag for tag in found if user in (None, tag.user)), key=lambda tag: (tag.user or "", tag.name))

    def drop_tag(self, table: str, name: str, *, user: str | None = None) -> None:
        """Gives up a name; the next vacuum may take the version.

        Raises:
            NotFound: no such table, or no tag of that name on that scope.
        """
        from lakewarden.operations.tags import drop_tag

        catalog, scope = self.warehouse.catalog.read(), Scope(TableName.parse(table), user)
        self.warehouse.target(catalog, scope)  # says what is wrong with the user
        drop_tag(self.warehouse.state, find_table(catalog, scope.table).id, user, name)

    # SQL

    def sql(
        self,
        text: str,
        *,
        user: str = "root",
        role: str = "system",
        freshness: Freshness = "strong",
        wait: bool = True,
        files: Mapping[str, File] | None = None,
        each: Callable[[Result], None] | None = None,
    ) -> list[Result]:
        """Runs the statements of a text, one after the other. Syntax and rights of all of it are checked before any runs.

        Args:
            user: whose rows it sees and writes in USER tables.
            role: what it may do: anonymous, user, service, dba or system.
            wait: runs the jobs that a statement starts before the next one; else they stay queued for `run_jobs`.
            files: what comes along, by the name that `FILE('name')` in VALUES calls it: bytes, a `Path`, or an `Upload`.
            each: is given every result as soon as it is there.

        Raises:
            BadSyntax, PermissionDenied, Unsupported: nothing was done, if it can be told from the text.
            LakewardenError: a statement failed; those before it are done.
        """
        return self.session(user=user, role=role).sql(text, freshness=freshness, wait=wait, files=files, each=each)

    def session(self, *, user: str, role: str = "user") -> SqlSession:
        """The same doors for one user in one role, through the gate.

        Raises:
            InvalidArgument: an impossible user, or no such role.
        """
        from lakewarden.sql.session import open_session  # sqlglot: a third of a second that other commands need not spend

        return open_session(self._services, user, role)

    def subscribe(
        self,
        text: str,
        *,
        user: str = "root",
        role: str = "system",
        from_seq: int | None = None,
        last_rows: int | None = None,
        batch_size: int = 10_000,
        interval: float = 0.5,
        timeout: float | None = None,
        pause: Pause = wait,
    ) -> Subscription:
        """The rows that a query shows, then each change to them: docs/subscriptions.md.

        Args:
            text: `SELECT … FROM namespace.table [WHERE …]` over one table, or a SUBSCRIBE statement.
            user, role: as in `sql`.
            from_seq: the last `_seq` that was delivered before; what came after it is told, and no rows to begin with. -1
                is before the first.
            last_rows: begin with so many of the newest rows; all where it is not given.
            batch_size: rows that are looked at at once.
            interval: seconds between two looks at the log, when it is iterated.
            timeout: seconds without an event after which iterating ends; None for never.
            pause: waits for so many seconds.

        Raises:
            BadSyntax, InvalidArgument, Unsupported: the text asks for more than rows of one table; or `from_seq` is too old:
                the message names the oldest that works.
            NotFound, PermissionDenied: there is no such table, or the session may not read it.
        """
        return self.session(user=user, role=role).subscribe(
            text,
            from_seq=from_seq,
            last_rows=last_rows,
            batch_size=batch_size,
            interval=interval,
            timeout=timeout,
            pause=pause,
        )

    def live_queries(self) -> list[LiveQuery]:
        """The subscriptions of every process, oldest first."""
        return LiveQueries(self.warehouse.state).there(self.warehouse.clock())

    def kill_live_query(self, live_id: str) -> LiveQuery:
        """Ends a subscription, wherever it is, at its next look.

        Raises:
            NotFound: there is none.
        """
        return LiveQueries(self.warehouse.state).kill(live_id)

    # Jobs

    def enqueue(self, operation: Queueable, *tables: str, user: str | None = None, to: str | None = None) -> Job:
        """Asks for an operation that `run_jobs`, here or elsewhere, will do.

        Args:
            to: the storage to move to; for a move alone.

        Raises:
            NotFound, InvalidArgument: a table, a user or a storage is none.
            AlreadyActive: the same was asked for already, and is not over.
        """
        from lakewarden.operations.enqueue import enqueue

        return enqueue(self.warehouse, self._operator.jobs, operation, Asked(tables, user), to)

    def jobs(self, limit: int | None = 50) -> list[Job]:
        """The last jobs, newest first."""
        return self._operator.jobs.newest(limit)

    def waiting_jobs(self) -> list[Job]:
        """What `run_jobs` would run now, oldest first."""
        from lakewarden.runner import Runner

        return Runner(self._operator).waiting()

    def run_jobs(self, only: Collection[str] | None = None) -> list[Job]:
        """Runs what is queued (`only`: these ids), oldest first; one that fails does not keep back the others.

        What a runner left that shows no life any more is taken over.
        """
        from lakewarden.runner import Runner

        return Runner(self._operator).run_waiting(only)

    def kill_job(self, job_id: str) -> Job:
        """Cancels a job that is not over; one that runs stops before its next scope."""
        return self._operator.jobs.kill(job_id)
