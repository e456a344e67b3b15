"""An ingest as a job: under an id that its commits carry, recorded when it has finished."""

from __future__ import annotations

from lakewarden.errors import LakewardenError
from lakewarden.operations.procedures.workplace import Workplace
from lakewarden.pipelines.ingest.bounded import bounded
from lakewarden.pipelines.ingest.report import IngestReport
from lakewarden.pipelines.ingest.run import Ingest, IngestRequest


def ingest(at: Workplace, request: IngestRequest, job_id: str | None = None) -> IngestReport:
    """Args:
        job_id: of a job that the caller records.

    Raises: as `Ingest` and `Ingest.run`.
    """
    started = at.warehouse.clock()
    own = job_id or at.new_job_id("ingest")
    parameters = {"tables": str(request.table), "objects": str(len(request.objects)) if request.objects else "new"}
    try:
        with bounded(at.warehouse.settings.pipelines) as read:
            report = Ingest(at.warehouse, request, read, own).run()
    except LakewardenError as error:
        if job_id is None:
            at.jobs.keep("ingest", own, started, parameters, "failed", error.message)
        raise
    if job_id is None and report.batches:
        at.jobs.keep("ingest", own, started, parameters, "completed", str(report))
    return report
