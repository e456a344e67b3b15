"""The sensor that keeps topics up to date, where no other process does: `lakewarden serve`, or `lakewarden relay --follow`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import dagster as dg
import msgspec

from lakewarden.catalog.model import Catalog
from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.relay import RELAY
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration.evaluations import build_sensor
from lakewarden.dagster.orchestration.runs import under_way
from lakewarden.ingest.topic_report import RelayReport
from lakewarden.tables.dynamic import topic_of_table
from lakewarden.tables.warehouse import live_tables

_MOST_TICKS = 240
"""That a relay which does not get on is left alone: an hour."""


def has_topics(catalog: Catalog) -> bool:
    """Whether a table has a topic of its own."""
    return any(topic_of_table(table) is not None for table in live_tables(catalog))


def build_relay_sensor(mount: Mount) -> dg.SensorDefinition:
    return build_sensor(mount, relay_sensor, "relay_job", seconds=15)


def relay_sensor(context: dg.SensorEvaluationContext, lake: Lakehouse, mount: Mount) -> dg.SensorResult | dg.SkipReason:
    """Publishes changes of tables with log.system kafka, where topics lack some and no other process publishes them."""
    if under_way(context.instance, mount, RELAY):
        return dg.SkipReason("a relay is under way")
    outcomes = lake.topics.relay_status_of_every()
    before = msgspec.json.decode(context.cursor, type=dict[str, TopicLook]) if context.cursor else {}
    seen, behind = look_at((each.report for each in outcomes if each.report is not None), before)
    cursor = msgspec.json.encode(seen).decode()
    if behind:
        return dg.SensorResult(run_requests=[dg.RunRequest()], cursor=cursor)
    errors = [f"{each.table}: {each.error.message}" for each in outcomes if each.error is not None]
    waiting = "others publish, or are waited for: " + ", ".join(name for name, each in seen.items() if each.lags)
    lagging = any(each.lags for each in seen.values())
    reason = "; ".join(errors) or (waiting if lagging else "every topic has all changes of its table")
    return dg.SensorResult(skip_reason=reason, cursor=cursor)


class TopicLook(msgspec.Struct, frozen=True):
    """How a topic stood at the last tick."""

    seq: int | None
    lags: bool = False
    runs: int = 0
    """That were requested while it stood there."""
    ticks: int = 0
    """To wait before the next one."""


def look_at(reports: Iterable[RelayReport], before: Mapping[str, TopicLook]) -> tuple[dict[str, TopicLook], list[str]]:
    """How topics stand by table, and the tables for which a run is due: the topic lacks changes and has not moved since the
    last tick. Where runs do not get it on, each comes after twice the time."""
    seen, due = {}, []
    for each in reports:
        name = str(each.table)
        last = before.get(name, TopicLook(each.seq))
        if not each.lag or last.seq != each.seq:
            seen[name] = TopicLook(each.seq, bool(each.lag))
        elif last.ticks:
            seen[name] = TopicLook(each.seq, True, last.runs, last.ticks - 1)
        else:
            seen[name] = TopicLook(each.seq, True, last.runs + 1, min(_MOST_TICKS, 2**last.runs - 1))
            due.append(name)
    return seen, due
