"""The operator: runs operations as jobs, each under an id that its commits carry and the job log keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from lakewarden.catalog.model import Catalog
from lakewarden.connection import Location
from lakewarden.errors import Conflict, LakewardenError, NotFound
from lakewarden.execution.engine import Engine
from lakewarden.operations.compact.scope import CompactOptions
from lakewarden.operations.drop import drop
from lakewarden.operations.erase.run import erase
from lakewarden.operations.evict import evict
from lakewarden.operations.export.contents import Export
from lakewarden.operations.export.run import check_target, export, own_place
from lakewarden.operations.flush.run import FlushTask, flush_scopes, forget_expired
from lakewarden.operations.flush.wanted import Only
from lakewarden.operations.maintain import Options, maintain_targets, operation_of, options_of, restore_of
from lakewarden.operations.move.run import Mover
from lakewarden.operations.plans.store import PlanLog
from lakewarden.operations.request import Request, Selection
from lakewarden.operations.restore.scope import RestoreOptions
from lakewarden.operations.rewind import Rewind, rewind
from lakewarden.operations.scopes import named_tables
from lakewarden.operations.sweep import Swept, sweep
from lakewarden.operations.whole_tables import maintain
from lakewarden.repair.report import Repaired
from lakewarden.repair.report import outcome_of as outcome_of_repair
from lakewarden.repair.run import Request as RepairRequest
from lakewarden.repair.run import repair
from lakewarden.report import Operation, ScopeReport
from lakewarden.scope import Scope, TableName
from lakewarden.state.audit import AuditLog
from lakewarden.state.certificates import Certificate
from lakewarden.state.erasure_requests import ErasureRequest, find_request, keep_request, nameless
from lakewarden.state.job import Job, new_job_id
from lakewarden.state.jobs import JobLog
from lakewarden.storage.paths import check_user
from lakewarden.warehouse import Warehouse, check_scope, find_table


@dataclass(frozen=True)
class Operator:
    """Runs operations over one warehouse. With `job_id` they run under that id, and the caller keeps the job."""

    warehouse: Warehouse
    engine: Engine
    jobs: JobLog

    def flush(self, selection: Selection, job_id: str | None = None) -> list[ScopeReport]:
        """Raises as `flushable`, before anything is flushed."""
        catalog = self.warehouse.catalog.read()
        return self.flush_where(self.flushable(selection, catalog), selection.parameters, job_id, catalog)

    def flushable(self, selection: Selection, catalog: Catalog | None = None) -> Callable[[Scope], bool]:
        """Returns which scopes a flush covers, by the newest catalog where none is given.

        Raises:
            NotFound: a table does not exist.
            InvalidArgument: an impossible user, or one for a SHARED table that was named.
        """
        tables = named_tables(catalog or self.warehouse.catalog.read(), selection.tables)
        if selection.user is not None:
            check_user(selection.user)
            for table in tables if selection.tables else ():
                check_scope(table, Scope(table.name, selection.user))
        names = {table.name for table in tables}
        if selection.user is not None:
            return Only([Scope(name, selection.user) for name in names])
        return lambda scope: scope.table in names

    def flush_where(
        self,
        wanted: Callable[[Scope], bool],
        parameters: dict[str, str],
        job_id: str | None = None,
        catalog: Catalog | None = None,
    ) -> list[ScopeReport]:
        """`catalog` as in `flush_scopes`."""

        def work(id_: str) -> list[ScopeReport]:
            return flush_scopes(self.warehouse, self.engine.run, self.flush_large, wanted, job_id=id_, catalog=catalog)

        reports = self.as_job("flush", parameters, work, job_id)
        if self.warehouse.settings.flush.compact_after:
            reports += self._compact_after(reports, parameters)
        return reports

    def maintain(self, selection: Selection, options: Options, *, dry_run: bool, job_id: str | None = None) -> list[ScopeReport]:
        def work(id_: str) -> list[ScopeReport]:
            return maintain(self.warehouse, self.engine.run, selection, options, dry_run=dry_run, job_id=id_)

        reports = self.as_job(operation_of(options), selection.parameters, work, job_id, keep=not dry_run)
        if operation_of(options) == "vacuum" and not dry_run:
            forget_expired(self.warehouse, self.warehouse.catalog.read(), self.warehouse.logs.views({}).sound)
            self._sweep()
            self._expire()
        return reports

    def _sweep(self) -> None:
        """Fences belong to no scope that a report could name, so the job log records what was removed."""
        started = self.warehouse.clock()
        own = new_job_id("vacuum", self.warehouse.clock, self.warehouse.new_id)
        swept = sweep(self.warehouse, own)
        if swept != Swept():
            said = f"removed {swept.fences} fences and {swept.seals} seals of erased users and dropped tables"
            why = f"; {len(swept.failed)} failed: {swept.failed[0]}" if swept.failed else ""
            self.jobs.keep("vacuum", own, started, {"of": "fences"}, "failed" if why else "completed", said + why)

    def _expire(self) -> None:
        """What is removed from the job log and the audit log is recorded too."""
        warehouse, kept = self.warehouse, self.warehouse.settings.maintenance
        started = warehouse.clock()
        jobs = self.jobs.expire(started - timedelta(days=kept.job_retention_days))
        audit = AuditLog(warehouse.state, warehouse.clock, warehouse.new_id)
        acts = audit.expire(started - timedelta(days=kept.audit_retention_days)) if kept.audit_retention_days else 0
        plans = PlanLog(warehouse.state, warehouse.erasures).expire(started)
        if jobs or acts or plans:
            own = new_job_id("vacuum", warehouse.clock, warehouse.new_id)
            more = f" and {plans} plans" if plans else ""
            said = f"removed {jobs} jobs and {acts} entries of the audit log{more}, which were too old"
            self.jobs.keep("vacuum", own, started, {"of": "logs"}, "completed", said)

    def restore(
        self, table: TableName, user: str | None, options: RestoreOptions, *, discard: bool, dry_run: bool
    ) -> list[ScopeReport]:
        def work(id_: str) -> list[ScopeReport]:
            selection = Rewind(table, user, options, discard, dry_run, id_)
            return rewind(self.warehouse, self.engine.run, self.flush_large, selection)

        moment = None if options.timestamp is None else options.timestamp.isoformat()
        target = {"version": str(options.version)} if moment is None else {"timestamp": moment}
        return self.as_job("restore", Selection((str(table),), user).parameters | target, work, None, keep=not dry_run)

    def evict(self, selection: Selection, *, dry_run: bool, job_id: str | None = None) -> list[ScopeReport]:
        """Raises:
        NotFound, Unsupported: a name is not a STREAM table's; nothing was evicted.
        """

        def work(id_: str) -> list[ScopeReport]:
            return evict(self.warehouse, selection.tables, selection.user, dry_run=dry_run, job_id=id_)

        return self.as_job("evict", selection.parameters, work, job_id, keep=not dry_run)

    def drop(self, table: TableName, still: Callable[[], None] = lambda: None) -> list[ScopeReport]:
        """`still` is called while no other process can drop or move the table, and raises where it must not be dropped."""
        if table not in self.warehouse.catalog.read().tables:
            raise NotFound(f"there is no table {table}")

        def work(id_: str) -> list[ScopeReport]:
            with self.warehouse.locks.create().hold(table.namespace, table.name) as lease:
                still()
                return drop(self.warehouse, self.engine.run, table, id_, lease)

        return self.as_job("drop", Selection((str(table),)).parameters, work, None)

    def move(
        self, table: TableName, storage_id: str, job_id: str | None = None, still: Callable[[], None] = lambda: None
    ) -> list[ScopeReport]:
        """Raises as `operations.move.run.Mover.move`; `still` as in `drop`."""

        def moved(mover: Mover) -> list[ScopeReport]:
            still()
            return mover.move(storage_id)

        parameters = Selection((str(table),)).parameters | {"to": storage_id}
        return self.as_job("move", parameters, lambda id_: self._moving(table, id_, moved), job_id)

    def cancel_move(self, table: TableName) -> list[ScopeReport]:
        """Raises as `operations.move.run.Mover.cancel`."""
        parameters = Selection((str(table),)).parameters | {"cancel": "true"}
        return self.as_job("move", parameters, lambda id_: self._moving(table, id_, Mover.cancel), None)

    def _moving(self, table: TableName, job_id: str, work: Callable[[Mover], list[ScopeReport]]) -> list[ScopeReport]:
        find_table(self.warehouse.catalog.read(), table)  # no lock for a table that does not exist
        with self.warehouse.locks.create().hold(table.namespace, table.name) as lease:
            return work(Mover(self.warehouse, self.engine.run, lease, table, job_id))

    def repair(self, tables: tuple[str, ...], user: str | None, *, dry_run: bool, restored: bool) -> list[Repaired]:
        """Raises as `repair.run.repair`."""
        started = self.warehouse.clock()
        job_id = new_job_id("repair", self.warehouse.clock, self.warehouse.new_id)
        found = repair(self.warehouse, self.engine.run, RepairRequest(tables, user, dry_run, restored), job_id)
        if any(one.outcome in ("done", "failed") for one in found):
            parameters = Selection(tables, user).parameters | {"restored": str(restored)}
            self.jobs.keep("repair", job_id, started, parameters, *outcome_of_repair(found))
        return found

    def export(self, user: str, to: str) -> Export:
        """Flushes what the user has pending, then copies; raises as `operations.export.run` does."""
        place = check_target(self.warehouse, to, check_user(user))
        started = self.warehouse.clock()
        job_id = new_job_id("export", self.warehouse.clock, self.warehouse.new_id)
        made = self._exported(user, place, job_id)
        self.jobs.keep("export", job_id, started, {"user": user}, "completed", f"{len(made.files)} files")
        return made

    def _export_queued(self, user: str, job_id: str) -> list[ScopeReport]:
        place = check_target(self.warehouse, own_place(self.warehouse, job_id), check_user(user))
        made = self._exported(user, place, job_id)
        return [
            ScopeReport(
                Scope(TableName.parse(table.name), user),
                "export",
                "done",
                Location(made.uri).below(table.path),
                version=table.version,
                metrics={"rows_exported": table.rows},
                finished_at=self.warehouse.clock(),
            )
            for table in made.tables
        ]

    def _exported(self, user: str, place: str, job_id: str) -> Export:
        failed = [report for report in self.flush(Selection(user=user)) if report.fault]
        if failed:
            raise Conflict(f"{failed[0].scope} could not be flushed: {failed[0].reason}; nothing was exported")
        return export(self.warehouse, user, place, job_id)

    def erase(self, erasure: ErasureRequest) -> Certificate:
        """Raises as `operations.erase.run.erase`; the job log knows the user by the keyed hash alone."""
        started = self.warehouse.clock()
        job_id = new_job_id("erase", self.warehouse.clock, self.warehouse.new_id)
        parameters = {"tables": ",".join(erasure.tables), "deep": str(erasure.deep)}
        keep = partial(self.jobs.keep, "erase", job_id, started)
        try:
            certificate = erase(self.warehouse, self.engine.run, self.jobs, erasure, job_id)
        except Conflict as error:
            keep(parameters | {"user": self.warehouse.erasures.mark(erasure.user)}, "failed", error.code)
            raise
        keep(parameters | {"user": certificate.user}, "completed", f"certificate {certificate.id}")
        return certificate

    def erase_requested(self, request: str) -> Certificate:
        """Erases what was requested; raises as `erase`, with the keyed hash in place of the id, and the request stays."""
        erasure = find_request(self.warehouse.state, request)
        with nameless(erasure.user, request):
            try:
                return self.erase(erasure)
            except LakewardenError:
                keep_request(self.warehouse.state, request, erasure)
                raise

    def run(self, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        """Runs the request without a plan; raises as the operation does."""
        selection = Selection(request.tables, request.user, request.look)
        match request.operation:
            case "flush":
                return self.flush(selection, job_id)
            case "evict":
                return self.evict(selection, dry_run=False, job_id=job_id)
            case "restore":
                return self.restore(*restore_of(request, self.warehouse), discard=request.discard_pending, dry_run=False)
            case _:
                return self.maintain(selection, options_of(request, self.warehouse), dry_run=False, job_id=job_id)

    def work_of(self, job: Job) -> list[ScopeReport]:
        """Runs a queued job's request under its id."""
        selection = Selection.of(job)
        match job.job_type:
            case "export":
                return self._export_queued(selection.user or "", job.job_id)
            case "move":
                return self.move(TableName.parse(selection.tables[0]), job.parameters["to"], job.job_id)
            case operation:
                return self.run(Request(operation, selection.tables, selection.user, look=selection.look), job.job_id)

    def as_job(
        self,
        operation: Operation,
        parameters: dict[str, str],
        work: Callable[[str], list[ScopeReport]],
        job_id: str | None,
        *,
        keep: bool = True,
    ) -> list[ScopeReport]:
        """Records the outcome in the job log, unless the caller does; where there is nothing to do, no job is recorded."""
        if job_id is not None:
            return work(job_id)
        started = self.warehouse.clock()
        own = new_job_id(operation, self.warehouse.clock, self.warehouse.new_id)
        reports = work(own)
        if keep and any(report.outcome != "skipped" for report in reports):
            self.jobs.record(operation, own, started, parameters, reports)
        return reports

    def _compact_after(self, flushed: Sequence[ScopeReport], parameters: dict[str, str]) -> list[ScopeReport]:
        """The optional compaction of the scopes that a flush wrote, outside its critical section."""
        catalog = self.warehouse.catalog.read()
        written = [self.warehouse.target(catalog, report.scope) for report in flushed if report.outcome == "done"]
        options = CompactOptions.of(self.warehouse.settings.compaction)

        def work(id_: str) -> list[ScopeReport]:
            return maintain_targets(self.warehouse, self.engine.run, written, options, dry_run=False, job_id=id_)

        return self.as_job("compact", parameters, work, None)

    def flush_large(self, task: FlushTask) -> ScopeReport:
        spark = self.engine.spark()
        from lakewarden.spark.large import flush_large  # the JVM's client: a second that most commands never need

        return flush_large(spark, task, over_s3a=self.warehouse.settings.spark.s3a)
