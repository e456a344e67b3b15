"""What has to hold when the restarts are over: rows, and one event for each commit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from lakewarden.client import Lakehouse
from lakewarden.errors import NotFound
from lakewarden.maintenance.check.scope import SECOND_OPINION
from tests.restarts.writer import TABLE

_PAGE = 2_000
_VERSION = "delta/version"

Rows = Mapping[str, Mapping[int, str]]


@dataclass(frozen=True)
class Found:
    """What the warehouse and Dagster have."""

    tenants: int
    commits: int
    settled: bool
    """Whether all rows were flushed and all runs had ended in time."""
    wrong_rows: tuple[str, ...]
    unbooked: tuple[str, ...]
    """Scopes and versions of commits without an event."""
    booked_twice: tuple[str, ...]

    @property
    def wrong(self) -> bool:
        return bool(not self.settled or self.wrong_rows or self.unbooked or self.booked_twice)


def acknowledged(journals: Iterable[Path]) -> dict[str, dict[int, str]]:
    """The rows of each tenant, by the journals of writers that share no tenant."""
    rows: dict[str, dict[int, str]] = {}
    for journal in journals:
        for line in journal.read_text().splitlines():
            for row in json.loads(line):
                rows.setdefault(row["user"], {})[row["id"]] = row["content"]
    return rows


def inspect(warehouse: str, instance: dg.DagsterInstance, expected: Rows, *, settled: bool) -> Found:
    with Lakehouse.open(warehouse) as lake:
        table = lake.table(TABLE)
        wrong: list[str] = []
        versions: dict[str, set[int]] = {}
        for user, rows in sorted(expected.items()):
            if {row["id"]: row["content"] for row in table.read(user=user, freshness="eventual").to_pylist()} != rows:
                wrong.append(user)
            versions[user] = set()
            with suppress(NotFound):  # never flushed, where nothing settled in time
                versions[user] = {entry.version for entry in table.history(user=user, limit=None)}
        wrong += [str(one) for one in lake.check() if one.check == SECOND_OPINION and not one.passed]
    booked = events(instance)
    missing = [
        f"{user} v{version}" for user, all_of in versions.items() for version in sorted(all_of - set(booked.get(user, ())))
    ]
    twice = [f"{user} v{version}" for user, of in booked.items() for version, count in Counter(of).items() if count > 1]
    commits = sum(map(len, versions.values()))
    return Found(len(expected), commits, settled, tuple(wrong), tuple(missing), tuple(twice))


def events(instance: dg.DagsterInstance) -> dict[str, list[int]]:
    """The versions that Dagster knows of each partition, one for each event."""
    key, cursor = dg.AssetKey(TABLE.split(".")), None
    found: dict[str, list[int]] = {}
    while True:
        page = instance.fetch_materializations(key, limit=_PAGE, cursor=cursor)
        _add(found, page.records)
        if not page.has_more:
            return found
        cursor = page.cursor


def _add(found: dict[str, list[int]], records: Sequence[dg.EventLogRecord]) -> None:
    for record in records:
        version = record.asset_materialization.metadata.get(_VERSION) if record.asset_materialization else None
        if record.partition_key and isinstance(version, dg.IntMetadataValue) and version.value is not None:
            found.setdefault(record.partition_key, []).append(version.value)
