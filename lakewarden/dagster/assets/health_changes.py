"""Reports checks outside of a step of theirs, and lets those of health say what a run left.

The health sensor looks every few minutes only. Until then a partition would be red and the health green, or the other way round
behind a repair.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import dagster as dg
from dagster import AssetCheckEvaluation

from lakewarden.base.quantities import portions
from lakewarden.base.scope import TableName
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.health import (
    FLUSHED_IN_TIME,
    HEALTH_CHECKS,
    OTHERS,
    events_of,
    health_checks,
    health_key,
    lateness,
    warehouse_event,
)
from lakewarden.dagster.internals import AssetCheckEvaluationTargetMaterializationData, AssetCheckExecutionRecord
from lakewarden.dagster.lakehouse import WarehouseRun
from lakewarden.dagster.mount import Mount
from lakewarden.errors import LakewardenError
from lakewarden.maintenance.planning.health import TableHealth, health
from lakewarden.tables.warehouse import cold_tables

_AT_ONCE = 500
"""Checks of which the newest results are read together."""

Said = dict[dg.AssetCheckKey, tuple[bool, str | None]]
"""Of each check whether its newest result passed, and its description."""


def newest_executions(
    instance: dg.DagsterInstance, keys: Sequence[dg.AssetCheckKey]
) -> Mapping[dg.AssetCheckKey, AssetCheckExecutionRecord]:
    """The newest execution of each check that has one, in one query for many: the public call reads one at a time."""
    found, sought = dict[dg.AssetCheckKey, AssetCheckExecutionRecord](), set(keys)
    for some in portions(keys, lambda _: 1, _AT_ONCE):
        found |= instance.event_log_storage.get_latest_asset_check_execution_by_key(some)
    return {key: one for key, one in found.items() if key in sought}


def report_checks(instance: dg.DagsterInstance, results: Iterable[dg.AssetCheckResult]) -> None:
    """Books results of checks as events without a run, each for its asset's newest event.

    Without that Dagster compares times, of which SQLite keeps whole seconds: a result in the second of its asset's event counts
    as older, and pages show none.
    """
    every = list(results)
    records = instance.get_asset_records([_asset_of(one) for one in every])
    newest = {one.asset_entry.asset_key: one.asset_entry.last_materialization_record for one in records}
    for one in every:
        instance.report_runless_asset_event(_evaluation(one, newest.get(_asset_of(one))))


def _asset_of(result: dg.AssetCheckResult) -> dg.AssetKey:
    assert result.asset_key is not None, "where no step has it, the result names it"
    return result.asset_key


def _evaluation(result: dg.AssetCheckResult, newest: dg.EventLogRecord | None) -> AssetCheckEvaluation:
    assert result.check_name is not None, "as the asset"
    target = newest and AssetCheckEvaluationTargetMaterializationData(
        storage_id=newest.storage_id, run_id=newest.run_id, timestamp=newest.timestamp
    )
    return AssetCheckEvaluation(
        asset_key=_asset_of(result),
        check_name=result.check_name,
        passed=result.passed,
        severity=result.severity,
        metadata=result.metadata,
        description=result.description,
        target_materialization_data=target,
    )


def book_health(run: WarehouseRun, tables: Collection[TableName], *, failed: bool = False) -> None:
    """For each table that the run changed, or found broken: its numbers and the worst of all of its scopes, and whether it is
    flushed in time. Then the checks that come out otherwise now. Call this behind the events of the tables: else Dagster calls
    their health unsynced.

    What cannot be read for it fails no run whose work is done: the health sensor looks again.
    """
    try:
        found = health(run.lake.warehouse, tables) if tables else []
    except LakewardenError as error:
        run.context.log.warning("the health of the tables is not booked: %s", error)
        return
    for event in (event for one in found for event in events_of(run.mount, one)):
        run.context.log_event(event)
    report_changes(run, failed=failed)


def report_changes(run: WarehouseRun, *, failed: bool = False, tables: Collection[TableName] = ()) -> None:
    """Books the health of the warehouse anew where the newest result of a check says something else than what is so now.

    Where all are green and nothing failed, nothing is looked at. What cannot be read for it fails no run whose work is done.

    Args:
        failed: whether the run found, or left, something that is not well.
        tables: whose own health is booked, too, then.
    """
    context, lake, mount = run.context, run.lake, run.mount
    try:
        newest = _newest(context.instance, mount, lake)
        if not failed and all(passed for passed, _ in newest.values()):
            return
        found = health(lake.warehouse, files_of=OTHERS)
    except LakewardenError as error:
        context.log.warning("the checks of health are not booked: %s", error)
        return
    changed = [one for one in checks_of_health(mount, found) if newest.get(_key(one)) != (one.passed, one.description)]
    if changed:
        of_tables = (event for one in found if one.table in tables for event in events_of(mount, one))
        for event in (*of_tables, warehouse_event(mount, found)):
            context.instance.report_runless_asset_event(event)
        others = [one for one in changed if _asset_of(one) != health_key(mount)]
        report_checks(context.instance, [*health_checks(mount, found), *others])  # all: the former are of the event before


def checks_of_health(mount: Mount, found: Sequence[TableHealth]) -> list[dg.AssetCheckResult]:
    """Those of the warehouse's health, and of each table whether it is flushed in time."""
    return [*(health_checks(mount, found) if found else []), *(lateness(mount, one) for one in found)]


def _key(result: dg.AssetCheckResult) -> dg.AssetCheckKey:
    return dg.AssetCheckKey(_asset_of(result), result.check_name or "")


def _newest(instance: dg.DagsterInstance, mount: Mount, lake: Lakehouse) -> Said:
    """Of those that were ever evaluated."""
    keys = [dg.AssetCheckKey(health_key(mount), check) for check in HEALTH_CHECKS]
    tables = cold_tables(lake.warehouse.catalog.read())
    keys += [dg.AssetCheckKey(mount.asset_key(table.name), FLUSHED_IN_TIME) for table in tables]
    records = newest_executions(instance, keys)
    results = {key: one.event.asset_check_evaluation for key, one in records.items() if one.event}
    return {key: (one.passed, one.description) for key, one in results.items() if one}
