"""An ingest: finishes what another left open, then takes what is new in the source, or what is named, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice

from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.scope import TableName
from lakewarden.base.setting_sections import PipelinesSettings
from lakewarden.catalog.access import OPERATOR, Principal
from lakewarden.catalog.changes.engines import require_active
from lakewarden.catalog.changes.pipelines import pipeline_of, rule_of, table_of
from lakewarden.catalog.model import OBJECT, IngestRule, Pipeline
from lakewarden.catalog.state.audit import AuditLog
from lakewarden.catalog.state.ledger import LOOKS, Ledger, LedgerView, ObjectBatch, OfferedObject
from lakewarden.catalog.state.ledger_runs import KnownObject
from lakewarden.errors import FailedPrecondition, InvalidArgument, LakewardenError
from lakewarden.ingest.pipelines.context import Attempted, CountingAttempt, IngestContext, check_resumed, finish_batch
from lakewarden.ingest.pipelines.in_tasks import InTasks, OpenReads
from lakewarden.ingest.pipelines.landing import Here
from lakewarden.ingest.pipelines.reading import ReadWith, bounded, reads_of_tasks
from lakewarden.ingest.pipelines.report import IngestReport, ObjectReport, Tally
from lakewarden.ingest.pipelines.rules import untaken, why_not
from lakewarden.ingest.pipelines.source import source_of
from lakewarden.log.once import Resume
from lakewarden.maintenance.workplace import Workplace
from lakewarden.storage.sources import SourceObject
from lakewarden.tables.fanout import Run
from lakewarden.tables.warehouse import Warehouse


# How many objects are taken in one commit, and which batches tasks read.
def in_tasks(bounds: PipelinesSettings, objects: Sequence[SourceObject]) -> bool:
    """Whether tasks read them: they are many, or many bytes; of a few large ones each would be a task of its own anyway."""
    return len(objects) >= bounds.spark_objects or (len(objects) > bounds.workers and _bytes(objects) >= bounds.spark_bytes)


def fills(bounds: PipelinesSettings, objects: Sequence[SourceObject], *, tasks: bool) -> bool:
    """Whether they are enough for a batch of the full size."""
    most = _most(bounds) if tasks else bounds.batch_objects
    return len(objects) >= most or _bytes(objects) >= bounds.batch_bytes


def cut(
    bounds: PipelinesSettings, objects: Sequence[SourceObject], *, tasks: bool
) -> tuple[list[SourceObject], list[SourceObject]]:
    """The first ones, as many as one batch may have, and the others; of an object that is there twice, the last.

    Args:
        tasks: whether there can be tasks.
    """
    most = _most(bounds) if tasks and in_tasks(bounds, objects) else bounds.batch_objects
    some: dict[str, SourceObject] = {}
    size = 0
    for one in objects:
        if some and (len(some) >= most or size + one.size > bounds.batch_bytes):
            break
        some[one.key] = one
        size += one.size
    return list(some.values()), [one for one in objects if one.key not in some]


def _most(bounds: PipelinesSettings) -> int:
    """Objects that tasks read for one commit."""
    return max(bounds.spark_objects, bounds.batch_objects)


def _bytes(objects: Sequence[SourceObject]) -> int:
    return sum(one.size for one in objects)


_PAGE = 1_000
"""Objects that are compared with the ledger at a time."""


@dataclass(frozen=True)
class IngestRequest:
    """What to ingest into one table.

    `objects`: by key, or by URI; all that is new where None are named. `force`: take them whatever the rule and the ledger say.
    `anywhere`: objects outside of the pipeline's source too. `limit`: how many objects at most, where none are named. `resume`:
    how to go on where a repair left uncertain what was taken (`log.once.Resume`).
    """

    table: TableName
    objects: tuple[str, ...] | None = None
    force: bool = False
    anywhere: bool = False
    limit: int | None = None
    resume: Resume | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise InvalidArgument(f"limit {self.limit} must be at least 1")


@dataclass(frozen=True)
class Readers:
    """Who reads the objects: this process, or tasks where a batch is large, if there can be some."""

    here: ReadWith
    run: Run | None = None
    """Runs tasks, however little they have to do."""
    in_task: Callable[[Pipeline], OpenReads] | None = None


def _age(one: SourceObject) -> tuple[datetime, str]:
    """By which a later object of a batch is the one whose rows win."""
    return one.modified, one.key


class ObjectIngest:
    """One ingest into one table."""

    def __init__(
        self, warehouse: Warehouse, request: IngestRequest, readers: Readers, job_id: str, reach: Reach = no_faults
    ) -> None:
        """
        Raises:
            NotFound: the table does not exist, or was dropped.
            FailedPrecondition: it is a manual table, the engine of its namespace is disabled, or its rule is.
        """
        catalog = warehouse.catalog.read()
        self._warehouse = warehouse
        self._request = request
        self._pipeline: Pipeline = pipeline_of(catalog, request.table)
        self._rule: IngestRule = rule_of(catalog, self._pipeline)
        require_active(catalog, request.table.namespace)
        if not (self._rule.enabled or request.force):
            raise FailedPrecondition(
                f"the rule {self._rule.id} of {request.table} is disabled: ALTER RULE {self._rule.id} SET ENABLED = true"
            )
        self._source = source_of(warehouse, catalog, self._pipeline)
        self._ledger = Ledger(warehouse.state, self._pipeline.id)
        self._seen: LedgerView | None = None
        self._tasks = readers.run is not None
        self._reach = reach
        self._context = IngestContext(warehouse, self._pipeline, self._source, self._ledger, job_id, reach)
        self._attempted = self._attempted_by(readers)
        self._tally = Tally(IngestReport(str(request.table), self._pipeline.id, job_id))
        self._job_id = job_id

    def run(self) -> IngestReport:
        """Raises:
        NotFound: a named object does not exist; nothing was ingested of them.
        FailedPrecondition: a repair left uncertain what was taken: say how to go on (`IngestRequest.resume`).
        Corrupt: the ledger lacks something that its table has: repair it.
        Conflict, StorageUnavailable: try again: what was taken is not taken twice.
        """
        check_resumed(self._warehouse, self._pipeline, self._ledger, self._request.resume)
        named = None if self._request.objects is None else self._named(self._request.objects)
        view = self._settled_view()
        if self._request.resume is not None and not self._replaces:
            view = self._pass_over(view, self._request.resume)
        by_age = bool(view.lost and self._pipeline.primary_key and not self._request.force)
        if by_age:
            self._take_by_age()
        if named is not None:
            self._take_all(named)
        elif not by_age:
            self._take_listed()
        return self._tally.done

    def _pass_over(self, view: LedgerView, how: Resume) -> LedgerView:
        """Where rows could not be replaced: counts what may have been taken before as taken, or as new."""
        if how == "skip":
            uploads = untaken(self._ledger, self._rule, list(self._source.uploads()))
            known = self._ledger.known(view, [one.key for one in uploads])
            self._ledger.remember([(one.key, one.etag) for one in uploads if one.key in known], view)
        self._ledger.pass_over(view)
        return self._settled_view()

    def _take_by_age(self) -> None:
        """With a key, objects that may have been taken before come in their own order again, so that a newer one wins as it
        did: all of them, where some are named."""
        listed = iter(self._source.uploads())
        new = [one for page in iter(lambda: list(islice(listed, _PAGE)), []) for one in self._new(page)]
        limit = self._request.limit
        self._tally.stop(more=limit is not None and len(new) > limit)
        self._take_all(sorted(new, key=_age)[:limit])

    def _named(self, names: Sequence[str]) -> list[SourceObject]:
        """Each object once, in the order of the names."""
        found = {one.key: one for name in names for one in self._source.named(name, anywhere=self._request.anywhere)}
        return list(found.values())

    def _take_listed(self) -> None:
        """Compares the source with the ledger, a page at a time; what is new is collected to batches of their full size."""
        bounds = self._warehouse.settings.pipelines
        listed = iter(self._source.uploads())
        held: list[SourceObject] = []
        left = self._request.limit
        while page := list(islice(listed, _PAGE)):
            new = self._new(page)
            if left is not None:
                self._tally.stop(more=len(new) > left)
                new = new[:left]
                left -= len(new)
            held += new
            while fills(bounds, held, tasks=self._tasks):
                held = self._take_some(held)
            if left == 0:
                self._tally.stop(more=next(listed, None) is not None)
                break
        self._take_all(held)

    def _take_all(self, objects: Sequence[SourceObject]) -> None:
        while objects:
            objects = self._take_some(objects)

    def _take_some(self, objects: Sequence[SourceObject]) -> list[SourceObject]:
        """Takes the first ones, as many as one batch may have; returns the others."""
        some, others = cut(self._warehouse.settings.pipelines, objects, tasks=self._tasks)
        self._take(sorted(some, key=_age))
        return others

    def _take(self, objects: Sequence[SourceObject]) -> None:
        """Puts what is still new into a batch, and finishes it. Of two processes that do so at once, one finishes the other's."""

        def planned(view: LedgerView) -> tuple[ObjectBatch, list[ObjectReport]] | None:
            self._look_again()
            new, skipped = self._divided(objects, view)
            batch = ObjectBatch(view.next, self._job_id, self._warehouse.clock(), tuple(new))
            if new:
                self._reach("ingest:planned")
            return (batch, skipped) if not new or self._ledger.add(batch) else None  # another process was faster

        batch, skipped = self._ledger.looked(planned, self._settled_view)
        if batch.objects:  # nothing was taken since the view
            self._reach("ingest:batch")
            skipped += [] if self._finish(batch, fresh=True) else self._finished_elsewhere(batch)
        self._tally.skip(skipped, named=self._request.objects is not None)

    def _look_again(self) -> None:
        """Takes the rule as it is now.

        Raises:
            NotFound, FailedPrecondition: the table was dropped meanwhile, or its engine disabled.
        """
        catalog = self._warehouse.catalog.read()
        require_active(catalog, self._request.table.namespace)
        table_of(catalog, self._pipeline)
        self._rule = rule_of(catalog, pipeline_of(catalog, self._request.table))

    def _settled_view(self) -> LedgerView:
        """A look at the ledger that shows no open batch; those that are open are finished first."""
        for _ in range(LOOKS):
            view, found = self._ledger.looked(lambda view: (view, self._ledger.open_batch(view)))
            if found is None:
                return view
            self._finish(found, fresh=False)
        raise self._ledger.busy()

    def _finish(self, batch: ObjectBatch, *, fresh: bool) -> bool:
        """Returns whether this process settled the batch, and counts it."""
        done = finish_batch(self._context, self._attempted, batch, fresh=fresh)
        if done is not None:
            self._tally.add(batch, *done)
        return done is not None

    def _finished_elsewhere(self, batch: ObjectBatch) -> list[ObjectReport]:
        """What became of a batch that another process settled. Its attempt is removed: who settled it has counted the rows."""
        objects = [offered.object for offered in batch.objects]
        known = self._ledger.looked(lambda view: self._ledger.known(view, [one.key for one in objects]))
        took = {one.key for one in objects if one.key in known and known[one.key].is_of(one.etag)}
        reason = f"another ingest finished batch {batch.number} of {self._request.table} first"
        return [ObjectReport(one.key, one.etag, "known" if one.key in took else "left", reason=reason) for one in objects]

    def _new(self, objects: Sequence[SourceObject]) -> list[SourceObject]:
        """Those that are new by a look that may be some pages old: `_take` looks again."""
        seen = iter((self._seen,))
        view, (new, skipped) = self._ledger.looked(
            lambda view: (view, self._divided(objects, view)), lambda: next(seen, None) or self._ledger.look()
        )
        self._seen = view
        self._tally.skip(skipped, named=False)
        return [offered.object for offered in new]

    def _divided(self, objects: Sequence[SourceObject], view: LedgerView) -> tuple[list[OfferedObject], list[ObjectReport]]:
        """Those that are to be taken, and those that are not."""
        skipped: list[ObjectReport] = []
        wanted = []
        for one in objects:
            reason = "" if self._request.force else why_not(self._rule, one.key, one.size)
            if reason:
                skipped.append(ObjectReport(one.key, one.etag, "unmatched", reason=reason))
            else:
                wanted.append(one)
        known = self._ledger.known(view, [one.key for one in wanted])
        new = []
        for one in wanted:
            before = known.get(one.key)
            if before is not None and before.is_of(one.etag) and not self._request.force:
                skipped.append(ObjectReport(one.key, one.etag, "known"))
            else:
                new.append(OfferedObject(one, replaces=self._replaced(one, before)))
        return new, skipped

    def _replaced(self, one: SourceObject, before: KnownObject | None) -> bool:
        """Whether earlier rows of the object may be in the table, which it replaces.

        Raises:
            FailedPrecondition: they may be there, and nothing shows which they are.
        """
        if before is None or self._replaces or self._request.resume == "repeat":
            return before is not None and self._replaces
        raise FailedPrecondition(
            f"{one.key} may have been taken into {self._request.table} before, which has no column {OBJECT} by which its rows"
            " could be replaced: with resume 'repeat' it is taken again and they stay, with 'skip' it counts as taken"
        )

    @property
    def _replaces(self) -> bool:
        """Whether an object's rows can be found: by its name, or by their keys."""
        table = self._warehouse.catalog.read().tables.get(self._request.table)
        return table is None or table.schema.keyed or table.schema.column(OBJECT) is not None

    def _attempted_by(self, readers: Readers) -> Attempted:
        here = Here(self._context, readers.here).attempted
        if readers.run is None or readers.in_task is None:
            return here
        tasks = InTasks(self._context, readers.here, readers.run, readers.in_task(self._pipeline), here).attempted
        bounds = self._warehouse.settings.pipelines

        def attempted(batch: ObjectBatch) -> CountingAttempt | None:
            spread = in_tasks(bounds, [one.object for one in batch.objects])
            return tasks(batch) if spread else here(batch)

        return attempted


# An ingest as a job: under an id that its commits carry, recorded when it has finished, with its entry in the audit log.
INGEST = "INGEST"
"""The action in the audit log."""


def ingest(at: Workplace, request: IngestRequest, job_id: str | None = None, principal: Principal = OPERATOR) -> IngestReport:
    """An ingest that finds nothing to take, where no object is named, leaves no job and no entry in the audit log.

    Args:
        job_id: of a job that the caller records.
        principal: who ingests.

    Raises: as `ObjectIngest` and `ObjectIngest.run`.
    """
    started = at.warehouse.clock()
    own = job_id or at.new_job_id("ingest")
    audit = AuditLog(at.warehouse.state, at.warehouse.clock, at.warehouse.new_id)
    target = f"table:{request.table}"
    parameters = {"tables": str(request.table), "objects": str(len(request.objects)) if request.objects else "new"}
    try:
        with bounded(at.warehouse.settings.pipelines) as read:
            readers = Readers(read, at.in_tasks, partial(reads_of_tasks, at.warehouse.settings.pipelines))
            report = ObjectIngest(at.warehouse, request, readers, own).run()
    except LakewardenError as error:
        if job_id is None:
            at.jobs.keep("ingest", own, started, parameters, "failed", error.message)
        audit.note(principal, INGEST, target, f"{own}: failed: {error.message}")
        raise
    if job_id is None and report.batches:
        at.jobs.keep("ingest", own, started, parameters, "completed", str(report))
    if request.objects or report.batches:
        audit.note(principal, INGEST, target, f"{own}: {report}")
    return report
