"""The fleet as rows for programs: what the page shows, figure by figure. `status --all --format json` prints them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields

import msgspec

from lakewarden.maintenance.planning.fleet import Fleet, FleetTable, PlannedWork, StorageDebt, WeekWork

Figure = object


def table_row(one: FleetTable) -> dict[str, Figure]:
    """A table: the numbers of its status, and what the page adds to them. `figures` are the page's own: there a scope that
    failed a check is not among the broken ones, which `broken_scopes` counts together."""
    status, found = one.health.status, one.health
    return {
        **{field.name: getattr(status, field.name) for field in fields(status) if field.name != "totals"},
        "late_scopes": found.late_scopes,
        "failed_scopes": found.failed_scopes,
        "away_scopes": found.away_scopes,
        "figures": msgspec.to_builtins(one.look),
        "file_sizes": list(status.totals.file_sizes),
        "file_counts": list(status.totals.file_counts),
        "reasons": [asdict(each) | {"examples": list(map(str, each.examples))} for each in found.worst],
        "planned": _planned(one.planned),
        "debt": _debt(one.debt),
        "week": _week(one.week),
        "days": [
            {"day": each.day, "look": msgspec.to_builtins(each.look), "worst": msgspec.to_builtins(each.worst)}
            for each in one.days
            if each.looked_at
        ],
    }


def warehouse_row(fleet: Fleet) -> dict[str, Figure]:
    """The warehouse as a whole."""
    return {
        "warehouse": fleet.warehouse,
        "at": fleet.at,
        "verdict": fleet.verdict,
        "tables": len(fleet.tables),
        "figures": {name: fleet.total(name) for name in _SUMS},
        "scopes_unknown": fleet.unseen,
        "file_sizes": list(fleet.grouped("file_sizes")),
        "file_counts": list(fleet.grouped("file_counts")),
        "planned": _planned(fleet.planned),
        "debt": _debt(fleet.debt),
        "week": _week(fleet.week),
        "surveys": [msgspec.to_builtins(one) | {"at": one.looked_at} for one in fleet.surveys],
        "schedules": [
            {"name": one.name, "kind": one.kind, "every": one.every, "on": one.on, "last_at": one.last_time, "last": one.last}
            for one in fleet.schedules
        ],
        "schedules_at": fleet.schedules_at,
        "prices": msgspec.to_builtins(fleet.prices),
    }


_SUMS = (
    "scopes",
    "pending_scopes",
    "pending_rows",
    "pending_bytes",
    "broken_scopes",
    "failed_scopes",
    "late_scopes",
    "away_scopes",
    "rows",
    "files",
    "bytes",
    "dead_bytes",
)


def _planned(found: Iterable[PlannedWork]) -> dict[str, Mapping[str, Figure]]:
    return {one.operation: {name: value for name, value in asdict(one).items() if name != "operation"} for one in found}


def _debt(debt: StorageDebt) -> dict[str, Figure]:
    return asdict(debt) | {"next_on": None if debt.next_on is None else debt.next_on.isoformat()}


def _week(found: Iterable[WeekWork]) -> dict[str, Mapping[str, Figure]]:
    return {one.operation: {**one.amounts, "requests": one.requests, "dollars": one.dollars} for one in found}
