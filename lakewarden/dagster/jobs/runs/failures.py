"""Translates the library's errors to Dagster's: one failure for a run, with the scopes and whether to retry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import dagster as dg

from lakewarden.catalog.report import ScopeReport
from lakewarden.dagster.assets.metadata import table_value
from lakewarden.dagster.jobs.runs.tags import subject_tags, tag_run
from lakewarden.errors import LakewardenError, Transient

RETRIES = dg.RetryPolicy(max_retries=2, delay=5, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)
"""For transient failures; `allow_retries` of the failure decides."""

_SHOWN = 500


@contextmanager
def declined(context: dg.OpExecutionContext) -> Iterator[None]:
    """Tags the run with what it is for, and translates errors inside the block.

    Raises:
        dagster.Failure: the library raised an error about the whole request.
    """
    partition = {"user": context.partition_key} if context.has_partition_key else {}
    tag_run(context, subject_tags({**(context.op_config or {}), **partition}))
    try:
        yield
    except LakewardenError as error:
        raise dg.Failure(
            description=f"{error.code}: {error.message}",
            metadata={"code": error.code},
            allow_retries=isinstance(error, Transient),
        ) from error


def raise_failures(reports: Sequence[ScopeReport]) -> None:
    """Raises:
    dagster.Failure: at least one scope failed.
    """
    failed = [report for report in reports if report.fault]
    if not failed:
        return
    first = failed[0]
    raise dg.Failure(
        description=f"{len(failed)} of {len(reports)} scopes failed; the first, {first.scope}: {_fault(first)}",
        metadata={
            "code": first.fault.code if first.fault else "",
            "failed": len(failed),
            "failed scopes": scopes_table(failed[:_SHOWN], _fault),
        },
        allow_retries=any(report.fault.transient for report in failed if report.fault),
    )


def _fault(report: ScopeReport) -> str:
    return "" if report.fault is None else f"{report.fault.code}: {report.fault.message}"


def step_failures(instance: dg.DagsterInstance, run_id: str) -> list[dg.Failure | None]:
    """The failures that a run's steps ended with; None for any other error."""
    records = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.STEP_FAILURE).records
    events = [record.event_log_entry.dagster_event for record in records]
    found = [event.step_failure_data.user_failure_data for event in events if event]
    return [one and dg.Failure(one.description, one.metadata) for one in found]


def code_of(failure: dg.Failure | None) -> str | None:
    """The error code that a failure carries; None if it carries none."""
    code = failure.metadata.get("code") if failure else None
    return code.value if isinstance(code, dg.TextMetadataValue) else None


def scopes_table(reports: Sequence[ScopeReport], why: Callable[[ScopeReport], str]) -> dg.MetadataValue:
    """The scopes as a table, each with its message."""
    return table_value({"table": str(one.scope.table), "user": one.scope.user or "", "why": why(one)} for one in reports)
