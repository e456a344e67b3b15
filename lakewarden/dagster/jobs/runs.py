"""What a run is for, which tags it has, how it fails, and what its retry does."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from inspect import Parameter, Signature
from typing import Any, get_type_hints

import dagster as dg
from pydantic import Field

from lakewarden.base.clock import Clock
from lakewarden.base.scope import TableName
from lakewarden.catalog.report import ScopeReport
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.metadata import table_value
from lakewarden.dagster.internals import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    PARTITION_NAME_TAG,
)
from lakewarden.dagster.lakehouse import WarehouseRun, begin_of
from lakewarden.dagster.mount import Mount
from lakewarden.errors import LakewardenError, Transient
from lakewarden.storage.paths import encode

OPERATION = ".dagster/lakewarden_operation"
"""Its job or assets, which the pages show, say it to people."""

TABLE = "lakewarden/table"
"""The table of a run that has only one."""

OF_TABLES = ".dagster/lakewarden_table."
"""Before a table's name: a run over several tables has such a tag for each, with the value `yes`, since a tag has one value."""

USER = "lakewarden/user"
"""The user of a run that has only one, encoded as in paths: any text is a user's id, and the pages split tags at `=`."""

SCOPES = ".dagster/lakewarden_scopes"
"""The number of scopes of a run that names them."""

SCOPE = ".dagster/lakewarden_scope"
"""The scope of a run that has only one: the queue runs one run of a scope at a time (dagster.yaml)."""

QUEUED_BEHIND = "lakewarden/queued_behind"
"""On a run that waits or waited in the queue: the runs that held its slots."""

OBJECTS = ".dagster/lakewarden_objects"
"""The number of objects of an ingest that names them."""

SEEN_UNTIL = ".dagster/lakewarden_seen_until"
"""On a run that the flush sensor requested: the log's time up to which the sensor had seen the scopes' rows."""

ALERT_OWED = ".dagster/lakewarden_alert_owed"
"""On a run that failed: the warehouse whose alert of it was refused; empty once it was taken."""

SLOT = ".dagster/lakewarden_slot"
"""Which slots of the queue a run needs: dagster.yaml limits the runs of each value."""

SPARK = "spark"
"""One JVM at a time."""
LIGHT = "light"
"""Work in the run's own process: it does not wait behind a JVM."""


def job_tags(operation: str, priority: int, slot: str = LIGHT) -> dict[str, str]:
    """The tags of a job's runs.

    Args:
        priority: in the queue; 20 where a user waits, 10 where rows do, 0 and below for maintenance.
        slot: `SPARK` where it may need a JVM: over many scopes, or over a large one. A run of few may be tagged `LIGHT` instead.
    """
    return {OPERATION: operation, SLOT: slot, "dagster/priority": str(priority)}


def job_of(op: dg.OpDefinition, tags: Mapping[str, str], description: str) -> dg.JobDefinition:
    """The job of one op, called as that with `_job` behind. It runs in the run's own process: Dagster's default executor starts
    another for each step, which may start a JVM of its own.
    """

    @dg.job(name=f"{op.name}_job", executor_def=dg.in_process_executor, tags=dict(tags), description=description)
    def only() -> None:
        op()

    return only


def job_of_table(
    op: dg.OpDefinition,
    mount: Mount,
    table: TableName,
    resources: Mapping[str, object],
    tags: Mapping[str, str],
    description: str,
    partitions: dg.PartitionsDefinition[str] | None,
) -> dg.JobDefinition:
    """The job of one op on one table, named by the operation in its `job_tags` and the table; its form selects a partition."""
    return dg.GraphDefinition(mount.table_named(tags[OPERATION], table), node_defs=[op]).to_job(
        description=description,
        resource_defs=resources,
        executor_def=dg.in_process_executor,
        tags={**tags, **mount.tags, TABLE: str(table)},
        partitions_def=partitions,
    )


_TABLES_TAGGED = 20
_TAG_NAME = re.compile(r"[A-Za-z0-9_.-]{1,63}")
"""What Dagster takes behind the slash of a tag's key."""


def subject_tags(config: Mapping[str, object]) -> dict[str, str]:
    """The tags that say which tables and scopes a run is for, from the config of its op, in whichever of its fields."""
    tables, users = tables_in(config), _users_in(config)
    several = [name for name in sorted(tables)[:_TABLES_TAGGED] if _TAG_NAME.fullmatch(name)]
    exact = config.get("scopes")
    return {
        **({TABLE: tables.copy().pop()} if len(tables) == 1 else {OF_TABLES + name: "yes" for name in several}),
        **({USER: encode(users.copy().pop(), folds_case=False)} if len(users) == 1 else {}),
        **({SCOPES: str(_count(exact))} if isinstance(exact, Mapping) and exact else {}),
    }


def tables_in(config: Mapping[str, object]) -> set[str]:
    """The names of the tables in an op's config."""
    named = {str(name) for field in ("tables", "scopes") if isinstance(names := config.get(field), Iterable) for name in names}
    one = config.get("table")
    return named | ({str(one)} if one else set())


def _users_in(config: Mapping[str, object]) -> set[str]:
    one, scopes = config.get("user"), config.get("scopes")
    exact = {user for users in scopes.values() for user in users} if isinstance(scopes, Mapping) else set()
    return exact | ({str(one)} if one else set())


def _count(scopes: Mapping[str, object]) -> int:
    return sum(max(len(users), 1) for users in scopes.values() if isinstance(users, list))


def tag_run(context: dg.OpExecutionContext, tags: Mapping[str, str]) -> None:
    """Adds the tags that the run does not have yet: one that a person launched has only its job's."""
    missing = {key: value for key, value in tags.items() if context.run.tags.get(key) != value}
    if missing:
        context.instance.add_run_tags(context.run_id, missing)


# The fields of every operation's config that select its scopes, and the config of a run that was made from them.
class ScopeSelection(dg.Config):
    """Which scopes. By default every scope of the warehouse."""

    tables: list[str] = Field([], description="Tables as namespace.table; empty means all of the warehouse.")
    user: str | None = Field(None, description="Only this user's scope of each of the tables.")


class WithLook(ScopeSelection):
    """Which scopes maintenance opens. By default those that may need it, by what the state knows of each."""

    look: bool = Field(
        False, description="Open each scope: this finds what other programs committed, and in a vacuum what dead writers left."
    )


def op_config(run: dg.DagsterRun) -> Mapping[str, object]:
    """The config of the run's only op; empty if the launchpad was left empty."""
    ops = run.run_config.get("ops")
    ours = next(iter(ops.values()), None) if isinstance(ops, Mapping) else None
    config = ours.get("config") if isinstance(ours, Mapping) else None
    return config if isinstance(config, Mapping) else {}


def named_by(run: WarehouseRun) -> Mapping[str, object]:
    """What the run is for, in the words of an op's config. The run of an asset has none: it names a table and partitions."""
    context = run.context
    if not context.has_assets_def:
        config: Mapping[str, object] = context.op_config
        return config
    users = context.partition_keys if context.has_partitions else ()
    return _of_tables([table for key in context.assets_def.keys if (table := run.mount.table_of(key))], users)


def named_by_run(instance: dg.DagsterInstance, mount: Mount, run: dg.DagsterRun) -> Mapping[str, object]:
    """The same of a run that may have ended, by what Dagster keeps of it."""
    if not run.asset_selection:
        return op_config(run)
    tables = [table for key in run.asset_selection if (table := mount.table_of(key))]  # it may have others' assets beside them
    return _of_tables(tables, _partitions_of(instance, run, mount.dotted(tables[0])) if len(tables) == 1 else ())


def of_whole_tables(named: Mapping[str, object], shared: Collection[str]) -> Mapping[str, object]:
    """The same for SHARED tables as a whole: the partitions of a large one are no scopes."""
    scopes = named.get("scopes")
    if not isinstance(scopes, Mapping):
        return named
    return {**named, "scopes": {table: [] if table in shared else users for table, users in scopes.items()}}


def _of_tables(tables: Sequence[TableName], users: Sequence[str]) -> Mapping[str, object]:
    return {"scopes": {str(table): list(users) for table in tables}} if users else {"tables": [str(table) for table in tables]}


def _partitions_of(instance: dg.DagsterInstance, run: dg.DagsterRun, partitions: str) -> Sequence[str]:
    """The partitions that the run names; none where it names none, or where one of its range's ends was removed."""
    if one := run.tags.get(PARTITION_NAME_TAG):
        return [one]
    first, last = run.tags.get(ASSET_PARTITION_RANGE_START_TAG), run.tags.get(ASSET_PARTITION_RANGE_END_TAG)
    users = instance.get_dynamic_partitions(partitions) if first and last else []
    if first not in users or last not in users:
        return []
    return users[users.index(first) : users.index(last) + 1]


# Translates the library's errors to Dagster's: one failure for a run, with the scopes and whether to retry.
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


def warehouse_op(said: str, *, name: str = "", kind: str = "", **more: Any) -> Callable[[Callable[..., None]], dg.OpDefinition]:
    """The op of a function over a warehouse, which takes its `run`, and its `config` where it has one. What it raises is
    `declined`; what may go away is tried again.

    Args:
        said: the op's description.
        name: where it is not the function's.
        more: as `dagster.op` takes it.
    """

    def made(work: Callable[..., None]) -> dg.OpDefinition:
        def step(context: dg.OpExecutionContext, lake: Lakehouse, mount: Mount, **form: object) -> None:
            with declined(context):
                work(WarehouseRun(context, lake, mount), **form)

        form = get_type_hints(work).get("config")
        resources = {"lake": dg.ResourceParam[Lakehouse], "mount": dg.ResourceParam[Mount]}
        takes = {"context": dg.OpExecutionContext, **({"config": form} if form else {}), **resources}
        taken = [Parameter(each, Parameter.POSITIONAL_OR_KEYWORD, annotation=takes[each]) for each in takes]
        step.__signature__ = Signature(taken, return_annotation=None)  # type: ignore[attr-defined]  # what Dagster reads
        tags = {"kind": kind} if kind else None
        return dg.op(name=name or work.__name__, retry_policy=RETRIES, tags=tags, description=said, **more)(step)

    return made


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


# Runs that others retry: what a run that died had committed is booked by its retry, and by no other run.
UNDER_WAY = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]

IN_VAIN = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]

WILL_RETRY = "dagster/will_retry"

_REQUESTED_WITHIN = timedelta(minutes=2)
"""The daemon requests the retry of a run some seconds after the run has failed."""


def ended_at(record: dg.RunRecord) -> datetime:
    """When a run ended; one that has not, when it last changed."""
    return datetime.fromtimestamp(record.end_time, UTC) if record.end_time else record.update_timestamp.replace(tzinfo=UTC)


def awaits_retry(run: dg.DagsterRun, ended: datetime, now: datetime) -> bool:
    """Whether the run failed, and the daemon has yet to request its retry."""
    requested = "dagster/auto_retry_run_id" in run.tags
    return run.tags.get(WILL_RETRY) == "true" and not requested and now - ended < _REQUESTED_WITHIN


def retried_by(instance: dg.DagsterInstance, run: dg.DagsterRun) -> frozenset[str]:
    """The beginnings of the ids of the runs that this one retries."""
    found, run_id = set[str](), run.parent_run_id
    while run_id is not None:
        found.add(begin_of(run_id))
        parent = instance.get_run_by_id(run_id)
        run_id = parent.parent_run_id if parent else None
    return frozenset(found)


def attempts_before(context: dg.OpExecutionContext) -> frozenset[str]:
    """The beginnings of the ids of the runs in whose place this attempt is: those that the run retries, and where the step is
    tried again the run itself. What they committed may have no event yet."""
    own = {begin_of(context.run_id)} if context.retry_number else set[str]()
    return retried_by(context.instance, context.run) | own


def book_themselves(instance: dg.DagsterInstance, own: dg.DagsterRun, clock: Clock) -> frozenset[str]:
    """The beginnings of the ids of the runs whose commits another run than `own` will book: they themselves, or their retries.

    The order matters: what is under way is read again, since a retry may be requested while the failed runs are read.
    """
    wanted = dg.RunsFilter(statuses=UNDER_WAY)
    found = {run.run_id: run for run in instance.get_runs(wanted)}
    now = clock()
    lately = dg.RunsFilter(
        statuses=[dg.DagsterRunStatus.FAILURE], tags={WILL_RETRY: "true"}, updated_after=now - _REQUESTED_WITHIN
    )
    failed = [(one.dagster_run, one.update_timestamp.replace(tzinfo=UTC)) for one in instance.get_run_records(lately)]
    found |= {run.run_id: run for run, ended in failed if awaits_retry(run, ended, now)}
    found |= {run.run_id: run for run in instance.get_runs(wanted)}
    others = [run for run in found.values() if run.run_id != own.run_id]
    return frozenset(map(begin_of, (run.run_id for run in others))).union(*(retried_by(instance, run) for run in others))
