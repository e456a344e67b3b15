"""Reports runs that failed for good, and checks that turned failed (`check_alerts`): to a webhook, or to any function."""

from __future__ import annotations

import io
import json
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from email.message import Message
from http.client import HTTPException
from urllib.parse import quote, urlsplit

import dagster as dg
import msgspec

from lakewarden.base.scope import Scope, TableName
from lakewarden.dagster.assets.health import ALL_CHECKS_PASS, NOTHING_LATE
from lakewarden.dagster.assets.health_changes import newest_executions
from lakewarden.dagster.internals import AssetCheckExecutionRecord, AssetCheckExecutionRecordStatus
from lakewarden.dagster.jobs.runs import ALERT_OWED, code_of, named_by_run, step_failures, tables_in
from lakewarden.dagster.mount import Mount, value_of
from lakewarden.dagster.orchestration.reloading import VARIABLE as DAGSTER_URL
from lakewarden.errors import InvalidArgument

SHOWN = 100
"""Scopes that a report names: bodies stay small, and the page has them all."""


@dataclass(frozen=True)
class Alert:
    """What failed, as an alert says it: a run, or a check that turned failed."""

    warehouse: str
    job: str
    """Of the run, or of the one that evaluated the check; the name of the sensor that did."""
    run_id: str
    """Empty if a sensor evaluated the check."""
    url: str
    """The page of the run or the check; without its address if `LAKEWARDEN_DAGSTER_URL` is not set."""
    tables: tuple[str, ...]
    """Those that failed; those that the run was for, if its failure names none. Empty: the whole warehouse."""
    scopes: tuple[str, ...]
    """The scopes that failed, as `namespace.table[user]`: the first hundred."""
    code: str | None
    """The error code (docs/reference/errors.md); None for a check, and where a run was lost with its process."""
    message: str

    @property
    def text(self) -> str:
        """All of it in a line, for people."""
        return f"{self.job} failed on {self.warehouse}: {self.message} {self.url}"


class FailedRun(Alert):
    """A run that failed, and will not be retried."""


@dataclass(frozen=True, kw_only=True)
class FailedAssetCheck(Alert):
    """A check that turned failed. It has all that a `FailedRun` has, so a function need not tell them apart."""

    check: str
    asset: str
    """Its asset's key, as `chat/messages`."""
    severity: str
    """`ERROR`, or `WARN` where the check only warns."""

    @property
    def text(self) -> str:
        return f"{self.check} of {self.asset} failed on {self.warehouse}: {self.message} {self.url}"


Failed = FailedRun | FailedAssetCheck
OnFailure = Callable[[Failed], None]


@dataclass(frozen=True)
class Webhook:
    """Posts a JSON object: the fields of what failed, and a `text`, which is what Slack and others show."""

    url: str = field(repr=False)
    """http or https, or an `EnvVar` with it; it may be a secret, so no message shows it."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """More headers, such as `Authorization`; the values may be `EnvVar`s."""
    timeout_seconds: float = 10.0

    def __call__(self, failed: Failed) -> None:
        """Raises:
        InvalidArgument: a variable is not set, or the URL is not one of HTTP.
        OSError: no server there accepts it, it answers with another address, or not within `timeout_seconds` in all.
        """
        url = value_of(self.url)
        if urlsplit(url).scheme not in ("http", "https"):
            raise InvalidArgument("the webhook's URL must begin with http:// or https://: give the address that takes the POST")
        headers = {"Content-Type": "application/json", **{name: value_of(value) for name, value in self.headers.items()}}
        body = msgspec.json.encode({"text": failed.text, **asdict(failed)})
        _post(urllib.request.Request(url, body, headers), self.timeout_seconds)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A POST that is sent on becomes a GET without its body on the way: the alert would be lost, and nothing would say so."""

    def redirect_request(
        self, req: urllib.request.Request, fp: object, code: int, msg: str, headers: object, newurl: str
    ) -> None:
        if isinstance(fp, io.IOBase):
            fp.close()
        why = "the webhook answers with another address: give that one"
        raise urllib.error.HTTPError(f"{urlsplit(req.full_url).scheme}://…", code, why, Message(), None)


def _post(request: urllib.request.Request, timeout: float) -> None:
    """In a thread of its own: the timeout of a socket is that of each byte, and a server may trickle them."""
    raised = list[Exception]()

    def post() -> None:
        try:
            urllib.request.build_opener(_NoRedirect).open(request, timeout=timeout).close()
        except (OSError, HTTPException) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            raised.append(error)

    thread = threading.Thread(target=post, name="webhook", daemon=True)
    thread.start()
    thread.join(timeout)
    if thread.is_alive():
        raise TimeoutError(f"the webhook did not answer within {timeout:g} s")
    for error in raised:
        raise error if isinstance(error, OSError) else OSError(f"the webhook did not answer in HTTP: {error!r}")


def build_alert_sensor(mount: Mount, tables: Iterable[TableName], on_failure: OnFailure) -> dg.SensorDefinition:
    """A sensor that calls the function once for each failed run of the warehouse.

    Args:
        tables: of the warehouse: runs that were started from an asset's page have no tags of a job.
    """
    keys = {mount.asset_key(table) for table in tables}

    @dg.run_failure_sensor(name=mount.named("alert_sensor"), default_status=dg.DefaultSensorStatus.RUNNING)
    def alert_sensor(context: dg.RunFailureSensorContext) -> dg.SkipReason | None:
        """Reports runs of this warehouse that failed, to the webhook or function that the deployment gives."""
        run = context.dagster_run
        if keys.isdisjoint(_selected(run)) and run.tags.items().isdisjoint(mount.tags.items()):
            return dg.SkipReason(f"run {run.run_id} is not of this warehouse")
        if run.tags.get("dagster/will_retry") == "true":
            return dg.SkipReason(f"run {run.run_id} will be retried")
        try:
            on_failure(_failed_run(context.instance, mount, run))
        except Exception:  # of a function that the deployment gives
            # Dagster's cursor moves on behind a tick that fails, too: the other sensor sends it again.
            context.instance.add_run_tags(run.run_id, {ALERT_OWED: mount.uri})
            raise
        return None

    return alert_sensor


def page(path: str) -> str:
    """The URL of a page of Dagster's; without its address if `LAKEWARDEN_DAGSTER_URL` is not set."""
    return f"{os.environ.get(DAGSTER_URL, '').rstrip('/')}/{path}"


def _selected(run: dg.DagsterRun) -> set[dg.AssetKey]:
    return {*(run.asset_selection or ()), *(check.asset_key for check in run.asset_check_selection or ())}


def _failed_run(instance: dg.DagsterInstance, mount: Mount, run: dg.DagsterRun) -> FailedRun:
    failure = next(filter(None, step_failures(instance, run.run_id)), None)
    ends = instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.RUN_FAILURE).records
    scopes = list(_failed_scopes(failure.metadata.get("failed scopes") if failure else None))
    tables = {str(scope.table) for scope in scopes} or tables_in(named_by_run(instance, mount, run))
    return FailedRun(
        warehouse=mount.uri,
        job=run.job_name,
        run_id=run.run_id,
        url=page(f"runs/{run.run_id}"),
        tables=tuple(sorted(tables)),
        scopes=tuple(str(scope) for scope in scopes[:SHOWN]),
        code=code_of(failure),
        message=(failure and failure.description)
        or next((one.event_log_entry.get_dagster_event().message for one in ends), None)
        or "",
    )


def _failed_scopes(table: object) -> Iterator[Scope]:
    """As `failures.raise_failures` writes them."""
    if isinstance(table, dg.TableMetadataValue):
        for record in table.records:
            yield Scope(TableName.parse(str(record.data["table"])), str(record.data["user"]) or None)


# Reports checks that turned failed: what is wrong with rows, what is late, what expectations find. Each once for each turn.
#
# The cursor holds the checks that were reported and have not passed since. What a receiver refuses is not in it, so it is sent
# again by the next tick, also behind a restart of the daemon. So is the alert of a run that was refused.

_REPEATED = frozenset({NOTHING_LATE, ALL_CHECKS_PASS})
"""Checks of the warehouse that sum up those of its tables, which are reported themselves."""

_BUDGET = 30.0
"""Seconds after which a tick sends no more: Dagster ends one of a minute, and a receiver that is down takes its timeout each."""

_SCOPES = ("failed scopes", "late")
"""The metadata that names scopes, with their users (`checks.scopes_shown`, `checks.lateness`)."""


def build_check_alert_sensor(
    mount: Mount, definitions: Iterable[dg.AssetChecksDefinition | dg.AssetsDefinition], on_failure: OnFailure
) -> dg.SensorDefinition:
    """A sensor that calls the function once whenever one of these checks turns failed."""
    keys = sorted({key for one in definitions for key in one.check_keys if key.name not in _REPEATED})

    @dg.sensor(
        name=mount.named("check_alert_sensor"),
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports checks that turned failed, to the webhook or function that the deployment gives.",
    )
    def check_alert_sensor(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        reported = frozenset(json.loads(context.cursor)) if context.cursor else frozenset[str]()
        results = {spelled(key): one for key, one in newest_executions(context.instance, keys).items()}
        # a check that is being evaluated, or was cut off, is as it was before
        passed = {name for name, one in results.items() if one.status is AssetCheckExecutionRecordStatus.SUCCEEDED}
        failed = {name: one for name, one in results.items() if one.status is AssetCheckExecutionRecordStatus.FAILED}
        standing = reported & results.keys() - passed
        turned = [_described(mount, one) for name, one in failed.items() if name not in reported]
        refused = context.instance.get_runs(dg.RunsFilter(tags={ALERT_OWED: mount.uri}), limit=SHOWN)
        runs = [_failed_run(context.instance, mount, run) for run in refused]
        sent, refusals = _send([*turned, *runs], on_failure)
        known = standing | {f"{one.asset}:{one.check}" for one in sent if isinstance(one, FailedAssetCheck)}
        for one in (one for one in sent if isinstance(one, FailedRun)):
            context.instance.add_run_tags(one.run_id, {ALERT_OWED: ""})
        if refusals and known == reported:
            raise refusals[0]
        context.update_cursor(json.dumps(sorted(known)))
        for error in refusals:
            context.log.error("an alert was refused, and is sent again: %s", error)
        left = f", {owed} are sent again" if (owed := len(turned) + len(runs) - len(sent)) else ""
        counted = f"{len(sent)} checks and runs reported{left}; {len(known)} checks are failed"
        return dg.SkipReason(counted if known or runs else "no check is failed")

    return check_alert_sensor


def spelled(key: dg.AssetCheckKey) -> str:
    """A check's key in the cursor."""
    return f"{key.asset_key.to_user_string()}:{key.name}"


def _send(every: Sequence[Failed], on_failure: OnFailure) -> tuple[list[Failed], list[Exception]]:
    """Returns those that were taken, and the errors of those that were not. One that is refused keeps back no other."""
    sent, refusals, until = list[Failed](), list[Exception](), time.monotonic() + _BUDGET
    for one in every:
        if time.monotonic() > until:
            break
        try:
            on_failure(one)
        except Exception as error:  # noqa: BLE001  # of a function that the deployment gives
            refusals.append(error)
        else:
            sent.append(one)
    return sent, refusals


def _described(mount: Mount, record: AssetCheckExecutionRecord) -> FailedAssetCheck:
    key, entry, evaluation = record.key, record.event, record.evaluation
    table = mount.table_of(dg.AssetKey(key.asset_key.path[: len(mount.key_prefix) + 2]))  # or that which it stands beneath
    path = "/".join(quote(part, safe="") for part in key.asset_key.path)
    has_run = bool(record.run_id)
    return FailedAssetCheck(
        warehouse=mount.uri,
        check=key.name,
        asset=key.asset_key.to_user_string(),
        severity=evaluation.severity.value if evaluation else dg.AssetCheckSeverity.ERROR.value,
        job=(entry.job_name if entry and has_run else None) or mount.named("health_sensor"),
        run_id=record.run_id if has_run else "",
        url=page(f"assets/{path}?view=checks&checkDetail={key.name}"),
        tables=(str(table),) if table else (),
        scopes=tuple(_scopes(table, evaluation.metadata if evaluation else {}))[:SHOWN],
        code=None,
        message=(evaluation.description if evaluation else None) or "",
    )


def _scopes(table: TableName | None, metadata: Mapping[str, object]) -> Iterator[str]:
    if table is None:
        return
    for name in _SCOPES:
        if isinstance(shown := metadata.get(name), dg.TableMetadataValue):
            for record in shown.records:
                yield str(Scope(table, str(record.data["user"]) or None))
