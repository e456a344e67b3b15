"""Reports checks that turned failed: what is wrong with rows, what is late, what expectations find. Each once for each turn.

The cursor holds the checks that were reported and have not passed since. What a receiver refuses is not in it, so it is sent
again by the next tick, also behind a restart of the daemon.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import quote

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord, AssetCheckExecutionRecordStatus

from lakewarden.base.scope import Scope, TableName
from lakewarden.dagster.assets.health import ALL_CHECKS_PASS, NOTHING_LATE
from lakewarden.dagster.assets.health_changes import newest_executions
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration.alerts import SHOWN, FailedAssetCheck, OnFailure, page

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
        standing = {name for name in reported if name in results and not _has_passed(results[name])}
        turned = [one for name, one in results.items() if _has_failed(one) and name not in reported]
        sent, refusals = _send([_described(mount, one) for one in turned], on_failure)
        known = standing | {_name_of(one) for one in sent}
        if refusals and known == reported:
            raise refusals[0]
        context.update_cursor(json.dumps(sorted(known)))
        for error in refusals:
            context.log.error("an alert was refused, and is sent again: %s", error)
        left = f", {len(turned) - len(sent)} are sent again" if len(turned) > len(sent) else ""
        return dg.SkipReason(
            f"{len(sent)} checks turned failed{left}; {len(known)} are failed" if known else "no check is failed"
        )

    return check_alert_sensor


def spelled(key: dg.AssetCheckKey) -> str:
    """A check's key in the cursor."""
    return f"{key.asset_key.to_user_string()}:{key.name}"


def _name_of(failed: FailedAssetCheck) -> str:
    return f"{failed.asset}:{failed.check}"


def _has_failed(record: AssetCheckExecutionRecord) -> bool:
    return record.status is AssetCheckExecutionRecordStatus.FAILED


def _has_passed(record: AssetCheckExecutionRecord) -> bool:
    """One that is being evaluated, or was cut off, is as it was before."""
    return record.status is AssetCheckExecutionRecordStatus.SUCCEEDED


def _send(every: Sequence[FailedAssetCheck], on_failure: OnFailure) -> tuple[list[FailedAssetCheck], list[Exception]]:
    """Returns those that were taken, and the errors of those that were not. One that is refused keeps back no other."""
    sent, refusals, until = list[FailedAssetCheck](), list[Exception](), time.monotonic() + _BUDGET
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
    table = _table_of(mount, key.asset_key)
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


def _table_of(mount: Mount, key: dg.AssetKey) -> TableName | None:
    """The table of an asset, or of one that stands beneath it."""
    return mount.table_of(dg.AssetKey(key.path[: len(mount.key_prefix) + 2]))


def _scopes(table: TableName | None, metadata: Mapping[str, object]) -> Iterator[str]:
    if table is None:
        return
    for name in _SCOPES:
        if isinstance(shown := metadata.get(name), dg.TableMetadataValue):
            for record in shown.records:
                yield str(Scope(table, str(record.data["user"]) or None))
