"""Health assets: one beside each table's asset, and one for the warehouse. Their events are numbers that plot over time.

An asset of its own, since the plots of a partitioned asset join its partitions. Beside it stands `flushed`, for tables whose
FLUSH_POLICY has an interval: it is materialized at each look while no scope is late, and so grows stale when one is. The
table's own asset would be stale when nothing is written, too. They stand behind their table in the lineage, and each run that
changes it books them after it: else Dagster would call them unsynced.

No `from __future__ import annotations` where Dagster reads a signature.
"""

import os
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import chain
from typing import get_args

import dagster as dg

from lakewarden.base.quantities import in_units
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.model import Catalog, Table
from lakewarden.client.dagster_links import forms_for
from lakewarden.dagster.assets.metadata import Metadata, markdown_line, no_markup, table_value
from lakewarden.dagster.lakehouse import LAKE, lake_of
from lakewarden.dagster.mount import FLUSHED, HEALTH, Mount
from lakewarden.maintenance.planning.health import LATE_AFTER, Severity, TableHealth, Trouble, health, interval_of
from lakewarden.storage.paths import encode
from lakewarden.tables.warehouse import cold_tables

LOOK_EVERY = timedelta(minutes=5)
"""How often the health is looked at without a run."""

OTHERS = 20
"""Scopes without rows in the log that a look considers for their files."""

STEP = "health"

NOTHING_LATE = "nothing_late"
ALL_CHECKS_PASS = "all_checks_pass"

FLUSHED_IN_TIME = "flushed_in_time"
"""A check of the whole table, of the log alone; the health sensor evaluates it every few minutes."""

HEALTH_CHECKS = {
    NOTHING_LATE: "No scope's rows wait in the write log for much longer than the interval of FLUSH_POLICY.",
    "nothing_broken": "Every scope and every log can be read, as far as operations, checks and looks have found.",
    ALL_CHECKS_PASS: "No scope's failure of a check stands, of ours or of Great Expectations.",
}
"""Of the warehouse's health: what turns it red in the lineage."""


def health_key(mount: Mount, table: TableName | None = None) -> dg.AssetKey:
    """The key of a table's health; without a table, of the warehouse's."""
    return mount.health_key if table is None else mount.known_key(table, HEALTH)


def flushed_key(mount: Mount, table: TableName) -> dg.AssetKey:
    return mount.known_key(table, FLUSHED)


def build_health_assets(mount: Mount, catalog: Catalog) -> list[dg.AssetsDefinition]:
    """The assets of all tables and of the warehouse, as one step that runs for any of them; none without tables."""
    tables = cold_tables(catalog)
    if not tables:
        return []

    said = "The health of the warehouse: the sums of all tables, a line for each, and the worst scopes."
    specs = [
        *(_of_table(mount, table) for table in tables),
        *(_flushed(mount, table) for table in tables if interval_of(table)),
        _spec(mount, health_key(mount), said),
    ]

    @dg.multi_asset(
        name=mount.named(STEP),
        description="Look at what the state knows of each table, and book it as numbers.",
        # by number: Dagster's own names of outputs are the same for `a.b__c` and `a__b.c`
        outs={f"look_{number}": dg.AssetOut.from_spec(spec, is_required=False) for number, spec in enumerate(specs)},
        ins={
            f"table_{number}": dg.AssetIn(mount.asset_key(table.name), dagster_type=dg.Nothing)
            for number, table in enumerate(tables)
        },
        internal_asset_deps={f"look_{number}": _behind(mount, spec, tables) for number, spec in enumerate(specs)},
        check_specs=[dg.AssetCheckSpec(name, asset=health_key(mount), description=text) for name, text in HEALTH_CHECKS.items()],
        can_subset=True,
        required_resource_keys={mount.named(LAKE)},
    )
    def look(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]:
        found = health(lake_of(context, mount).warehouse, files_of=OTHERS)
        for event in health_events(mount, found):
            if event.asset_key in context.selected_asset_keys:
                yield dg.MaterializeResult(asset_key=event.asset_key, metadata=event.metadata)
        for result in health_checks(mount, found):
            if dg.AssetCheckKey(health_key(mount), str(result.check_name)) in context.selected_asset_check_keys:
                yield result

    return [look]


def _behind(mount: Mount, spec: dg.AssetSpec, tables: Sequence[Table]) -> set[dg.AssetKey]:
    """What an asset stands behind in the lineage: a table's health behind the table, and `flushed` behind that."""
    parents = {
        **{health_key(mount, table.name): mount.asset_key(table.name) for table in tables},
        **{flushed_key(mount, table.name): health_key(mount, table.name) for table in tables},
    }
    return {parents[spec.key]} if spec.key in parents else set()


def _of_table(mount: Mount, table: Table) -> dg.AssetSpec:
    said = f"The health of {table.name}: tenants, rows in the log, files, and the worst scopes with the reason."
    return _spec(mount, health_key(mount, table.name), f"{said} Its plots are over time.")


def _flushed(mount: Mount, table: Table) -> dg.AssetSpec:
    late = timedelta(seconds=interval_of(table)) + LATE_AFTER
    said = (
        f"Fresh while {table.name} is flushed in time: {LATE_AFTER.seconds // 60} minutes beyond the interval of"
        f" {interval_of(table)} s in FLUSH_POLICY, no row waits in the log. It is materialized at each look that finds that."
    )
    return _spec(mount, flushed_key(mount, table.name), said, fail=late + 2 * LOOK_EVERY, warn=late + LOOK_EVERY)


def _spec(
    mount: Mount, key: dg.AssetKey, said: str, fail: timedelta = LATE_AFTER + 2 * LOOK_EVERY, warn: timedelta | None = None
) -> dg.AssetSpec:
    fresh = dg.FreshnessPolicy.time_window(fail_window=fail, warn_window=warn)
    return dg.AssetSpec(
        key, description=said, group_name=mount.health_group, owners=mount.owners, freshness_policy=fresh, skippable=True
    )


def health_events(mount: Mount, found: Sequence[TableHealth]) -> list[dg.AssetMaterialization]:
    """An event for each table, one more for each that is flushed in time, and one for the warehouse of which these are all."""
    return [*(event for one in found for event in events_of(mount, one)), *([warehouse_event(mount, found)] if found else [])]


def events_of(mount: Mount, one: TableHealth) -> list[dg.AssetMaterialization]:
    """The event of one table, and a second where it is flushed in time."""
    named = {"dagster/table_name": str(one.table)}
    metadata: Metadata = {**_worst(mount, one.worst), "size": in_units(one.status.bytes), **_numbers([one]), **named}
    event = dg.AssetMaterialization(health_key(mount, one.table), description=_description(one), metadata=metadata)
    in_time = dg.AssetMaterialization(flushed_key(mount, one.table), description="no scope is late")
    return [event, *([in_time] if one.interval and not one.is_late else [])]


def health_checks(mount: Mount, found: Sequence[TableHealth]) -> list[dg.AssetCheckResult]:
    """Whether all is well in all tables."""
    broken = [(one, one.broken_scopes + one.away_scopes + (1 if one.status.error else 0)) for one in found]
    return [
        _check(mount, NOTHING_LATE, [(one, one.late_scopes) for one in found], "late"),
        _check(mount, "nothing_broken", broken, "broken", "away"),
        _check(mount, ALL_CHECKS_PASS, [(one, one.failed_scopes) for one in found], "failed check"),
    ]


def _check(
    mount: Mount, name: str, counts: Sequence[tuple[TableHealth, int]], severity: Severity, *also: Severity
) -> dg.AssetCheckResult:
    bad = [(one, count) for one, count in counts if count]
    said = ", ".join(f"{count:,} of {one.status.table}" for one, count in bad[:_TABLES_SHOWN])
    worst = [each for one, _ in bad for each in one.worst if each.severity in (severity, *also)]
    away = [f"away: {each.reason}" for each in worst if each.severity == "away"]
    return dg.AssetCheckResult(
        asset_key=health_key(mount),
        check_name=name,
        passed=not bad,
        description="; ".join([f"{severity}: {said}", *away[:1]]) if bad else "none",
        metadata={"scopes": sum(count for _, count in bad), **_worst(mount, worst)},
    )


def lateness(mount: Mount, found: TableHealth) -> dg.AssetCheckResult:
    """Whether the table is flushed in time."""
    late = [(scope, one.reason) for one in found.worst if one.severity == "late" for scope in one.examples]
    counted = f"{found.late_scopes:,} of {found.status.scopes:,} scopes"
    shown = {"late": table_value({"user": scope.user or "", "why": why} for scope, why in late)}
    return dg.AssetCheckResult(
        asset_key=mount.asset_key(found.table),
        check_name=FLUSHED_IN_TIME,
        passed=not found.is_late,
        description=f"{counted} are late" if found.is_late else "no scope is late",
        metadata={
            "scopes/late": found.late_scopes,
            "backlog/oldest_seconds": int(found.status.oldest_pending_age or 0),
            **(shown if late else {}),
        },
    )


def warehouse_event(mount: Mount, found: Sequence[TableHealth]) -> dg.AssetMaterialization:
    said = ", ".join([*_wrong(found), *_counted(found, "late_scopes", "late")]) or "all is flushed in time"
    return dg.AssetMaterialization(health_key(mount), description=said, metadata=_warehouse_metadata(mount, found))


_WRONG = {"away_scopes": "on a storage that is away", "broken_scopes": "broken", "failed_scopes": "failed a check"}


def _wrong(found: Sequence[TableHealth]) -> Iterator[str]:
    return chain.from_iterable(_counted(found, name, what) for name, what in _WRONG.items())


def _counted(found: Sequence[TableHealth], name: str, what: str) -> Iterator[str]:
    if scopes := sum(getattr(one, name) for one in found):
        yield f"{scopes:,} scopes: {what}"


def _description(one: TableHealth) -> str:
    late = f"{one.late_scopes:,} of {one.status.scopes:,} scopes are late" if one.late_scopes else "flushed in time"
    return "; ".join(filter(None, [*_wrong([one]), late, one.status.error]))


def _warehouse_metadata(mount: Mount, found: Sequence[TableHealth]) -> Metadata:
    worst_first = sorted(
        found, key=lambda one: (one.away_scopes, one.broken_scopes, one.failed_scopes, one.late_scopes, _age(one)), reverse=True
    )
    lines = [markdown_line(*_cells(one)) for one in worst_first[:_TABLES_SHOWN]]
    head = [
        "| table | tenants | broken | failed checks | late | rows in the log | files | size |",
        "|---|---|---|---|---|---|---|---|",
    ]
    left = [f"and {len(found) - _TABLES_SHOWN} more tables"] if len(found) > _TABLES_SHOWN else []
    by_severity = sorted((each for one in worst_first for each in one.worst), key=lambda each: _SEVERITIES.index(each.severity))
    tables = dg.MetadataValue.md("\n".join([*head, *lines, *left]))
    page = os.environ.get(PAGE)
    linked = {"page": dg.MetadataValue.md(f"[the fleet]({page})")} if page else {}
    return {"tables": tables, **linked, **_worst(mount, by_severity), **_numbers(found)}


PAGE = "LAKEWARDEN_FLEET_URL"
"""The variable that says where the page of the fleet is served; `lakewarden ui` sets it."""


_SEVERITIES = get_args(Severity)

_TABLES_SHOWN = 10
"""Lines that Dagster shows as a table; what has a thousand signs it hides behind a button."""

_SIGNS = 1_000


def _cells(one: TableHealth) -> Sequence[str | int]:
    status = one.status
    scopes = (status.scopes, one.broken_scopes, one.failed_scopes, one.late_scopes)
    return (status.table, *scopes, status.pending_rows, status.files, in_units(status.bytes))


def _numbers(found: Sequence[TableHealth]) -> Metadata:
    """The same keys on every event: Dagster plots them."""
    return {
        "tenants": sum(one.status.scopes for one in found),
        "backlog/scopes": sum(one.status.scopes_pending for one in found),
        "backlog/rows": sum(one.status.pending_rows for one in found),
        "backlog/bytes": sum(one.status.pending_bytes for one in found),
        "backlog/oldest_seconds": int(max(map(_age, found), default=0)),
        "away/scopes": sum(one.away_scopes for one in found),
        "broken/scopes": sum(one.broken_scopes for one in found),
        "late/scopes": sum(one.late_scopes for one in found),
        "failed_checks/scopes": sum(one.failed_scopes for one in found),
        "unknown/scopes": sum(one.status.scopes_unknown for one in found),
        "delta/rows": sum(one.status.rows for one in found),
        "delta/num_files": sum(one.status.files for one in found),
        "delta/bytes": sum(one.status.bytes for one in found),
    }


def _age(one: TableHealth) -> float:
    """Seconds; 0 where no row is in the log."""
    return one.status.oldest_pending_age or 0.0


def _worst(mount: Mount, worst: Sequence[Trouble]) -> Metadata:
    """A line a reason as Markdown, since the cells of Dagster's own tables are no links; few enough that none is hidden.
    The links stand where a narrow window shows them: the page cuts what is wide."""
    if not worst:
        return {}
    shown = ["| scopes | form | which | why |", "|---|---|---|---|"]
    for place, one in enumerate(worst):
        forms = " · ".join(f"[{form.verb}]({form.path})" for form in forms_for(one, mount.key_prefix))
        line = markdown_line(one.count, forms, ", ".join(map(_whose, one.examples)), _reason(one))
        left = f"| | | | and {len(worst) - place} more reasons |"
        if sum(map(len, [*shown, line, left])) + len(shown) + 2 >= _SIGNS:
            shown.append(left)
            break
        shown.append(line)
    return {"worst": dg.MetadataValue.md("\n".join(shown))}


_REASON = 160


def _reason(one: Trouble) -> str:
    """The code and the reason."""
    return no_markup(" ".join(filter(None, [one.code, one.reason])), _REASON)


def _whose(scope: Scope) -> str:
    return " ".join(filter(None, [str(scope.table), _user(scope)]))


def _user(scope: Scope) -> str:
    """The user as in paths: whatever the id, it is not markup, and an erasure finds it in what Dagster keeps."""
    return "" if scope.user is None else f"`{encode(scope.user, folds_case=False)}`"
