"""An ingest as a job: under an id that its commits carry, recorded when it has finished, with its entry in the audit log."""

from __future__ import annotations

from functools import partial

from lakewarden.catalog.access import OPERATOR, Principal
from lakewarden.catalog.state.audit import AuditLog
from lakewarden.errors import LakewardenError
from lakewarden.ingest.objects.child_reads import bounded, reads_of_tasks
from lakewarden.ingest.objects.report import IngestReport
from lakewarden.ingest.objects.run import IngestRequest, ObjectIngest, Readers
from lakewarden.maintenance.workplace import Workplace

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
