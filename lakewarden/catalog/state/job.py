"""A job: its id, its states, its outcome, its form in the job log, and the process that runs it."""

from __future__ import annotations

import os
import platform
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Literal

from lakewarden.base.clock import Clock, NewId, from_millis, to_millis
from lakewarden.catalog.operations import SPECS, Operation
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import Conflict, Corrupt
from lakewarden.storage.paths import without_name
from lakewarden.storage.sums import kept_as

WorkByTable = Mapping[str, Mapping[str, int]]
"""Amounts by name, by table id. In them stands no user."""

NO_WORK: WorkByTable = MappingProxyType({})

OF_REPORTS = ("files_added", "files_removed", "bytes_added", "bytes_removed", "files_deleted", "bytes_deleted")
"""Metrics of reports that are added up; what a flush calls `bytes_written` counts as added."""


def work_of(reports: Iterable[ScopeReport], ids: Mapping[str, str], spent: WorkByTable = NO_WORK) -> dict[str, dict[str, int]]:
    """Adds up what was done and what failed.

    Args:
        ids: of tables, by name; what has none is not counted.
        spent: requests and bytes by table id. Those that served several tables together, as of the catalog and of jobs, count for
            the table with most scopes.
    """
    found: dict[str, dict[str, int]] = {}
    for report in reports:
        table_id = ids.get(str(report.scope.table))
        if table_id is not None and report.outcome in ("done", "failed"):
            add(found.setdefault(table_id, {}), _amounts(report))
    most = max(found, key=lambda each: found[each].get("done", 0) + found[each].get("failed", 0), default="")
    for table_id, amounts in spent.items():
        if (known := table_id if table_id in found else most) in found:
            add(found[known], amounts)
    return found


def add(to: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        to[name] = to.get(name, 0) + amount


def _amounts(report: ScopeReport) -> dict[str, int]:
    counts = {report.outcome: 1}
    if report.fault is not None:
        return counts | ({"conflicts": 1} if report.fault.code == Conflict.code else {})
    written = {"bytes_added": report.metrics["bytes_written"]} if "bytes_written" in report.metrics else {}
    return counts | {name: count for name in OF_REPORTS if (count := report.metrics.get(name))} | written


JobStatus = Literal["new", "queued", "running", "retrying", "completed", "failed", "cancelled", "skipped"]

ACTIVE: frozenset[JobStatus] = frozenset({"new", "queued", "running", "retrying"})

METADATA = "metadata"
"""The parameter with what the caller attaches to the commits of a queued job."""


@dataclass(frozen=True)
class Job:
    """One requested operation over one or more scopes. `parameters` are those of the request, as text."""

    job_id: str
    job_type: Operation
    status: JobStatus
    created_at: datetime
    parameters: dict[str, str] = field(default_factory=dict)
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    step: int = 0
    """The number of states before this one."""
    idempotency_key: str | None = None
    retry_count: int = 0
    updated_at: datetime | None = None
    """When its runner last reported that it is alive."""
    node_id: str | None = None
    """The process that runs it, or ran it."""
    exception_trace: str | None = None
    request_id: str | None = None
    """The request over a network that queued it."""
    work: dict[str, dict[str, int]] = field(default_factory=dict)
    """What it did, by table id (`work_of`)."""

    @property
    def active(self) -> bool:
        return self.status in ACTIVE


def new_job_id(operation: Operation, clock: Clock, new_id: NewId) -> str:
    """Returns a job id: `FL-` and so on, the moment in milliseconds and eight random digits. Unique, and sorted by time."""
    return f"{SPECS[operation].prefix}-{to_millis(clock()):012x}-{new_id()[:8]}"


def unread_job(job_id: str, error: Corrupt) -> Job:
    """What the id alone says of a job whose state cannot be read."""
    prefix, millis, _ = job_id.split("-")
    operation = next(name for name, spec in SPECS.items() if spec.prefix == prefix)
    return Job(
        job_id, operation, "failed", from_millis(int(millis, 16)), message=f"{error.message}; what became of it is not known"
    )


def outcome_of(reports: Sequence[ScopeReport]) -> tuple[JobStatus, str]:
    """Returns a job's status, and its reports in one line."""
    counts = Counter(report.outcome for report in reports)
    message = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) or "nothing to do"
    first = next((report for report in reports if report.fault), None)
    if first is not None:
        return "failed", f"{message}; {first.scope}: {first.reason}"
    return ("completed" if counts["done"] else "skipped"), message


def idempotency_key(operation: Operation, parameters: dict[str, str]) -> str:
    """Returns the operation and its subject, independent of the order of the tables and of what is attached to it."""
    tables = ",".join(sorted(parameters.get("tables", "").split(",")))
    # What a caller attaches does not make it another request (docs/decisions/0123-metadata-goes-with-its-rows.md).
    rest = [f"{name}={value}" for name, value in sorted(parameters.items()) if name not in ("tables", METADATA)]
    return ":".join([operation, tables, *rest])


def named_in(job: Job) -> set[str]:
    """Returns the users that a job names: its own user, and the user of the first scope that failed."""
    user = job.parameters.get("user")
    return {*re.findall(r"\[([^\]]+)\]", job.message), *([] if user is None else [user])}


def without_user(job: Job, user: str, mark: str) -> Job:
    """Returns the job with every occurrence of a user's id replaced by the keyed hash."""
    parameters = {name: mark if name == "user" and value == user else value for name, value in job.parameters.items()}
    if parameters != job.parameters:
        parameters.pop(METADATA, None)  # it may say anything of the user whose rows the job was for
    # The key spells the parameters, so it would name the user.
    key = job.idempotency_key if parameters == job.parameters else idempotency_key(job.job_type, parameters)
    trace = job.exception_trace and without_name(job.exception_trace, user, mark)
    message = without_name(job.message, user, mark)
    return replace(job, parameters=parameters, message=message, idempotency_key=key, exception_trace=trace)


def decode(key: str, data: bytes) -> Job:
    """Reads a job. Raises Corrupt: the data is not a job; the message names `key`."""
    return kept_as(Job, data, f"the job {key} can't be read")


# The process that runs a job, by the name that the job log keeps: `host:process id`.
def this_node() -> str:
    """Returns the name of this process."""
    return f"{platform.node()}:{os.getpid()}"


def has_ended(node: str | None) -> bool:
    """Returns whether a process of this machine has ended; False for another machine's process, which is not visible here."""
    host, _, process = (node or "").rpartition(":")
    if host != platform.node() or not process.isdigit():
        return False
    try:
        # Signal 0 only looks whether the process is there.
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False  # another user's
    return False
