"""Scheduled maintenance. Times are UTC. Covers every scope of the warehouse; work that is not worthwhile is skipped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import dagster as dg

from lakewarden.catalog.model import Catalog, Table
from lakewarden.client import Lakehouse
from lakewarden.client.maintain_once import why_held
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration.evaluations import build_schedule
from lakewarden.dagster.orchestration.runs import under_way
from lakewarden.errors import InvalidArgument
from lakewarden.tables.warehouse import live_tables


def build_schedules(mount: Mount, catalog: Catalog) -> list[dg.ScheduleDefinition]:
    """Those of the warehouse's maintenance, and of Dagster's own storage. Eviction sleeps until there is a STREAM table: each new
    table loads the code location again."""
    streams = any(table.type == "STREAM" for table in live_tables(catalog))
    return [
        build_schedule(mount, evict_minutely, running=streams),
        *(build_schedule(mount, look) for look in (compact_hourly, optimize_nightly, vacuum_weekly)),
        _plain(mount, "prune_nightly", "50 3 * * *", _PRUNES),
    ]


_PRUNES = "Removes old events of scopes from Dagster's own storage; the warehouse is not touched."


def _plain(mount: Mount, name: str, cron: str, said: str) -> dg.ScheduleDefinition:
    """One that starts a run each time, whatever there is."""
    job, on = mount.named(f"{name.partition('_')[0]}_job"), dg.DefaultScheduleStatus.RUNNING
    return dg.ScheduleDefinition(name=mount.named(name), job_name=job, cron_schedule=cron, description=said, default_status=on)


def compact_hourly(_context: dg.ScheduleEvaluationContext, lake: Lakehouse, _mount: Mount) -> dg.RunRequest | dg.SkipReason:
    """Folds the newest small files of scopes that have enough of them."""
    return _disabled(lake) or dg.RunRequest()


def optimize_nightly(_context: dg.ScheduleEvaluationContext, lake: Lakehouse, _mount: Mount) -> dg.RunRequest | dg.SkipReason:
    """Packs files to the target size, where that pays."""
    return _disabled(lake) or dg.RunRequest()


def _disabled(lake: Lakehouse, of_type: Callable[[Table], bool] = lambda _: True) -> dg.SkipReason | None:
    """Skips where every table's engine is disabled."""
    why = why_held(lake, of_type)
    return dg.SkipReason(why) if why else None


def vacuum_weekly(_context: dg.ScheduleEvaluationContext, lake: Lakehouse, _mount: Mount) -> dg.RunRequest | dg.SkipReason:
    """Lists files that no version inside the retention needs; deletes them if `maintenance.scheduled_deletes` is set."""
    if (skipped := _disabled(lake)) is not None:
        return skipped
    deletes = lake.warehouse.settings.maintenance.scheduled_deletes
    return dg.RunRequest(run_config={"ops": {"vacuum": {"config": {"dry_run": not deletes}}}})


def evict_minutely(context: dg.ScheduleEvaluationContext, lake: Lakehouse, mount: Mount) -> dg.RunRequest | dg.SkipReason:
    """Removes expired rows of STREAM tables. Starts no run if nothing has expired."""
    if not any(table.type == "STREAM" for table in lake.tables()):
        return dg.SkipReason("there is no STREAM table")
    if (skipped := _disabled(lake, lambda table: table.type == "STREAM")) is not None:
        return skipped
    if under_way(context.instance, mount, "evict"):
        return dg.SkipReason("an eviction is under way")
    if all(report.outcome == "skipped" for report in lake.evict(dry_run=True)):
        return dg.SkipReason("no row of a STREAM table has expired")
    return dg.RunRequest(run_config={"ops": {"evict": {"config": {"dry_run": False}}}})


SURVEY_CRON = "20 4 * * *"
"""Behind the night's maintenance."""


@dataclass(frozen=True)
class Surveys:
    """Places with Delta tables that others wrote."""

    places: Sequence[str] = ()
    """URIs, or `EnvVar`s with them."""
    cron: str = SURVEY_CRON
    """When all of them are looked at, in UTC."""


def build_survey_schedule(mount: Mount, cron: str) -> dg.ScheduleDefinition:
    """Raises InvalidArgument: it is not a cron expression."""
    try:
        return _plain(mount, "survey_daily", cron, "Looks at tables that others wrote. Nothing is written there.")
    except dg.DagsterInvalidDefinitionError as error:
        raise InvalidArgument(f"survey_cron {cron!r} is not a cron expression: it has five fields, as {SURVEY_CRON!r}") from error
