"""The sensor that keeps topics up to date, where no process of its own does (`lakewarden relay --follow`)."""

from __future__ import annotations

import dagster as dg

from lakewarden.catalog.model import Catalog
from lakewarden.dagster.jobs.topics.relay import RELAY
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration.evaluated import build_sensor
from lakewarden.dagster.orchestration.runs import under_way
from lakewarden.dynamic.topic import topic_of_table
from lakewarden.lakehouse import Lakehouse
from lakewarden.warehouse import live_tables


def has_topics(catalog: Catalog) -> bool:
    """Whether a table has a topic of its own."""
    return any(topic_of_table(table) is not None for table in live_tables(catalog))


def build_relay_sensor(mount: Mount) -> dg.SensorDefinition:
    """Off until somebody starts it: it would fence a relay that follows by itself."""
    return build_sensor(mount, relay_sensor, "relay_job", seconds=15, running=False)


def relay_sensor(context: dg.SensorEvaluationContext, lake: Lakehouse, mount: Mount) -> dg.SensorResult | dg.SkipReason:
    """Publishes changes of tables with log.system kafka. Off by default: start it where no `lakewarden relay --follow` runs."""
    if under_way(context.instance, mount, RELAY):
        return dg.SkipReason("a relay is under way")
    outcomes = lake.topics.relay_status_of_every()
    behind = [str(each.table) for each in outcomes if each.report is not None and each.report.lag]
    if not behind:
        errors = [f"{each.table}: {each.error.message}" for each in outcomes if each.error is not None]
        return dg.SkipReason("; ".join(errors) or "every topic has all changes of its table")
    return dg.SensorResult(run_requests=[dg.RunRequest()])
