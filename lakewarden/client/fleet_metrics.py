"""The fleet in Prometheus' text: `lakewarden metrics` for a textfile collector, and `/metrics` for a dba's or a scrape token.

Labels name tables, operations and results: never a user. Counters count since the first day that is kept of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lakewarden.maintenance.planning.fleet import Fleet, FleetTable, WeekWork
from lakewarden.storage.meter import READS, WRITES

_LOOKS = {
    "scopes": "Scopes that were ever flushed.",
    "backlog_scopes": "Scopes with rows in the write log.",
    "backlog_rows": "Rows in the write log.",
    "backlog_bytes": "Their bytes.",
    "backlog_oldest_seconds": "How long the oldest of them has waited.",
    "late_scopes": "Scopes whose rows wait too long for FLUSH_POLICY.",
    "broken_scopes": "Scopes that cannot be read, or on which an operation failed for good.",
    "failed_check_scopes": "Scopes whose rows or columns failed a check.",
    "away_scopes": "Scopes on a storage that is away.",
    "rows": "Rows in Delta tables.",
    "files": "Live data files.",
    "bytes": "Their bytes.",
    "dead_bytes": "Bytes of replaced files that a vacuum has not deleted yet.",
}
_FIELDS = {
    "backlog_scopes": "pending_scopes",
    "backlog_rows": "pending_rows",
    "backlog_bytes": "pending_bytes",
    "backlog_oldest_seconds": "oldest_seconds",
    "failed_check_scopes": "failed_scopes",
}

_SUMS = {
    "files": "Live data files of tables of others.",
    "bytes": "Their bytes.",
    "small_files": "Of these files those that are small.",
    "dead_bytes": "Bytes in their directories that no live version names.",
    "unnamed_files": "Data files there that no commit names.",
    "at_seconds": "When a place was last looked at, in seconds since 1970.",
}

Labels = tuple[str, ...]


class FleetCollector(Collector):
    """The families of one look at the fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def collect(self) -> Iterator[Metric]:
        for name, text in _LOOKS.items():
            yield self._gauge(name, text, attrgetter(f"look.{_FIELDS.get(name, name)}"))
        yield self._gauge("unknown_scopes", "Scopes that were not looked at.", lambda one: one.health.status.scopes_unknown)
        yield self._gauge("unreadable", "1 where the log or the state of the table cannot be read.", attrgetter("is_unread"))
        unread = GaugeMetricFamily("lakewarden_unread", "What of the week cannot be read.", labels=("kind",))
        for kind in ("job", "kept note"):
            unread.add_metric((kind,), self._fleet.unread[kind])
        yield unread
        yield self._gauge("free_bytes", "Dead bytes past the retention.", lambda one: one.debt.free_now)
        yield from self._planned()
        yield from self._surveys()
        yield self._counter("operations", "Scopes by what an operation came to.", _results, "result")
        yield self._counter("jobs", "Jobs that ended.", lambda one: {(): one["jobs"]})
        yield self._counter("conflicts", "Scopes that lost a race.", lambda one: {(): one["conflicts"]})
        yield self._counter("retries", "Retries of queued jobs.", lambda one: {(): one["retries"]})
        yield self._counter("store_requests", "Requests to object stores by jobs.", _requests, "kind")
        yield self._counter("store_bytes", "Bytes from and to object stores by jobs.", _bytes, "direction")
        yield self._counter("dollars", "What these requests and bytes cost.", lambda one: {(): one.dollars})

    def _planned(self) -> Iterator[Metric]:
        for name in ("scopes", "files", "bytes", "dollars", "unknown"):
            family = GaugeMetricFamily(
                f"lakewarden_planned_{name}", f"What an operation would do now: {name}.", labels=("table", "operation")
            )
            for one in self._fleet.tables:
                for each in one.planned:
                    family.add_metric((one.name, each.operation), getattr(each, name))
            yield family

    def _surveys(self) -> Iterator[Metric]:
        """Places by the beginning of their keyed hash: a path may be named after a user whom the warehouse does not know."""
        surveys = self._fleet.surveys
        if not surveys:
            return
        for name, text in _SUMS.items():
            family = GaugeMetricFamily(f"lakewarden_surveyed_{name}", text, labels=("place",))
            for one in surveys:
                family.add_metric((one.place_id,), one.at / 1000 if name == "at_seconds" else getattr(one, name))
            yield family
        for name, text, label in (("tables", "by verdict", "verdict"), ("damage", "that have a kind of damage", "kind")):
            family = GaugeMetricFamily(f"lakewarden_surveyed_{name}", f"Tables of others {text}.", labels=("place", label))
            for one in surveys:
                for key, count in sorted(getattr(one, name).items()):
                    family.add_metric((one.place_id, key), count)
            yield family

    def _gauge(self, name: str, text: str, value: Callable[[FleetTable], float]) -> Metric:
        family = GaugeMetricFamily(f"lakewarden_{name}", text, labels=("table",))
        for one in self._fleet.tables:
            family.add_metric((one.name,), value(one))
        return family

    def _counter(self, name: str, text: str, values: Callable[[WeekWork], Mapping[Labels, float]], *labels: str) -> Metric:
        """Of each operation; `values` by those of the other labels."""
        family = CounterMetricFamily(f"lakewarden_{name}", text, labels=("table", "operation", *labels))
        for one in self._fleet.tables:
            for each in one.ever:
                for found, value in values(each).items():
                    family.add_metric((one.name, each.operation, *found), value)
        return family


def _results(one: WeekWork) -> Mapping[Labels, float]:
    return {("done",): one["done"], ("failed",): one["failed"]}


def _requests(one: WeekWork) -> Mapping[Labels, float]:
    return {(kind,): one[kind] for kind in (*READS, *WRITES, "DELETE")}


def _bytes(one: WeekWork) -> Mapping[Labels, float]:
    return {("in",): one["bytes_in"], ("out",): one["bytes_out"]}


def metrics_text(fleet: Fleet) -> str:
    """The figures in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(FleetCollector(fleet))
    return generate_latest(registry).decode()
