"""`daily_summary`: what each aircraft flew on each day, kept up with the demo's flights.

It runs when a flush has changed `nyc.flights`, and reads those aircraft alone that changed since its last run. The result is a
USER table of the warehouse: an erasure, an export or a restore of an aircraft finds its days as it finds its flights.
"""

from collections.abc import Iterator
from itertools import islice

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.client import Lakehouse

FLIGHTS = dg.AssetKey(["nyc", "flights"])
FLIGHTS_TABLE, SUMMARY_TABLE = "nyc.flights", "nyc.daily_summary"

UNTIL = "read until"
"""The event of the flights up to which the asset's newest materialization has read."""

_TABLE = f"""
CREATE USER TABLE IF NOT EXISTS {SUMMARY_TABLE}
(day DATE PRIMARY KEY, flights BIGINT NOT NULL, minutes_in_air DOUBLE, mean_delay DOUBLE)
WITH (FLUSH_POLICY = 'rows:1000,interval:60')
"""
_PAGE = 1_000
_WRITTEN_AT_ONCE = 500
"""Aircraft whose days are one write: what a run holds in memory does not grow with the fleet."""
_COUNTED_AGAIN = 50
_PLAUSIBLE = (-60.0, 1_440.0)
"""Minutes of a day's mean delay."""


def build_daily_summary() -> dg.Definitions:
    """The asset with its expectations, and the sensor that starts its runs: Dagster's own is not switched on."""
    automation = dg.AutomationConditionSensorDefinition(
        "automation", target=[daily_summary], default_status=dg.DefaultSensorStatus.RUNNING, minimum_interval_seconds=60
    )
    return dg.Definitions(assets=[daily_summary], sensors=[automation])


@dg.asset(
    deps=[FLIGHTS],
    group_name="nyc",
    kinds={"deltalake"},
    # Not held up by aircraft that were never flushed, nor by a flush that goes on: the next run reads what this one did not see.
    automation_condition=dg.AutomationCondition.eager().without(~dg.AutomationCondition.any_deps_missing()),
    check_specs=[
        dg.AssetCheckSpec("flights_add_up", asset="daily_summary", description="The days of an aircraft add up to its flights."),
        dg.AssetCheckSpec("delays_are_plausible", asset="daily_summary", description="No day is a day late."),
    ],
)
def daily_summary(context: dg.AssetExecutionContext, lake: dg.ResourceParam[Lakehouse]) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """Flights, minutes in the air and the mean delay of each aircraft and day, in `nyc.daily_summary`."""
    until, aircraft = _changed(context.instance, _read_until(context.instance))
    users = sorted(lake.warehouse.registry.users(lake.table(FLIGHTS_TABLE).table.id) if aircraft is None else aircraft)
    lake.sql(_TABLE)
    rows, implausible = 0, 0
    for some in _in_groups(users, _WRITTEN_AT_ONCE):
        days = _summarize(lake, some)
        rows += days.num_rows
        implausible += _implausible(days)
    miscounted = [user for user in users[:: max(1, len(users) // _COUNTED_AGAIN)] if not _adds_up(lake, user)]
    return dg.MaterializeResult(
        metadata={UNTIL: until, "aircraft": len(users), "days written": rows, "table": SUMMARY_TABLE},
        check_results=[
            dg.AssetCheckResult(
                check_name="flights_add_up", passed=not miscounted, metadata={"aircraft that do not": ", ".join(miscounted)}
            ),
            dg.AssetCheckResult(
                check_name="delays_are_plausible",
                passed=not implausible,
                severity=dg.AssetCheckSeverity.WARN,
                metadata={"days": implausible},
            ),
        ],
    )


def _read_until(instance: dg.DagsterInstance) -> int:
    event = instance.get_latest_materialization_event(dg.AssetKey(["daily_summary"]))
    found = event.asset_materialization.metadata.get(UNTIL) if event and event.asset_materialization else None
    return int(str(found.value)) if found else 0


def _changed(instance: dg.DagsterInstance, seen: int) -> tuple[int, set[str] | None]:
    """The newest event of the flights, and the aircraft that have one behind `seen`.

    None: all of them may have changed, as a table of very many users has no partitions.
    """
    found: set[str | None] = set()
    while True:
        behind = dg.AssetRecordsFilter(asset_key=FLIGHTS, after_storage_id=seen)
        records = instance.fetch_materializations(behind, limit=_PAGE, ascending=True).records
        if not records:
            return seen, None if None in found else {user for user in found if user is not None}
        found |= {record.partition_key for record in records}
        seen = records[-1].storage_id


def _in_groups(users: list[str], size: int) -> Iterator[list[str]]:
    every = iter(users)
    while group := list(islice(every, size)):
        yield group


def _summarize(lake: Lakehouse, users: list[str]) -> pa.Table:
    """Writes the days of these aircraft, and removes days on which they no longer fly. Returns what it wrote."""
    flights, summary = lake.table(FLIGHTS_TABLE), lake.table(SUMMARY_TABLE)
    written, gone = [], []
    for user in users:
        days = _days(flights.read(user=user, freshness="eventual"))
        written.append(days.append_column("aircraft", pa.repeat(user, days.num_rows)))
        former = summary.read(user=user).column("day").to_pylist()
        gone += [{"aircraft": user, "day": day} for day in set(former) - set(days.column("day").to_pylist())]
    rows = pa.concat_tables(written)
    if rows.num_rows:
        summary.write(rows, user_column="aircraft")
    if gone:
        summary.delete(gone, user_column="aircraft")
    return rows


def _days(flights: pa.Table) -> pa.Table:
    """The flights of one aircraft by day."""
    day = pc.strftime(flights["time_hour"], format="%Y-%m-%d")
    minutes = flights.append_column("date", pc.cast(day, pa.date32()))
    summed = minutes.group_by("date").aggregate([([], "count_all"), ("air_time", "sum"), ("dep_delay", "mean")])
    return pa.table(
        {
            "day": summed["date"],
            "flights": summed["count_all"],
            "minutes_in_air": pc.cast(summed["air_time_sum"], pa.float64()),
            "mean_delay": summed["dep_delay_mean"],
        }
    )


def _implausible(days: pa.Table) -> int:
    low, high = _PLAUSIBLE
    delay = days["mean_delay"]
    return days.filter(pc.or_kleene(pc.less(delay, pa.scalar(low)), pc.greater(delay, pa.scalar(high)))).num_rows


def _adds_up(lake: Lakehouse, user: str) -> bool:
    flights = lake.table(FLIGHTS_TABLE).read(user=user, freshness="eventual").num_rows
    return bool(sum(row["flights"] for row in lake.table(SUMMARY_TABLE).read(user=user).to_pylist()) == flights)
