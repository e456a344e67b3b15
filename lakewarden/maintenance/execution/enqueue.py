"""Queues an operation for a runner, after checking that it can be done."""

from __future__ import annotations

from lakewarden.base.commit_metadata import carried
from lakewarden.catalog.operations import Request
from lakewarden.catalog.state.job import METADATA, Job
from lakewarden.maintenance.execution.operator import Operator
from lakewarden.maintenance.procedures.procedure import procedure_of
from lakewarden.maintenance.request import check_queueable, job_parameters


def enqueue(operator: Operator, request: Request, request_id: str | None = None) -> Job:
    """Raises:
    NotFound, InvalidArgument, Unsupported, AlreadyActive: as `Lakehouse.enqueue`.
    """
    procedure_of(check_queueable(request).operation).check_queued(operator.workplace, request)
    metadata = {METADATA: text} if (text := carried()) else {}
    return operator.jobs.enqueue(request.operation, job_parameters(request) | metadata, request_id)
