"""`lakewarden maintain --once`: the tick of Dagster's sensors and schedules, done here, for cron and other schedulers.

What is due is decided by the same rules: flushes by FLUSH_POLICY, queued jobs, uploads that no ledger has, topics that are
behind, and the maintenance of `CADENCES`, each once for each of its times, whoever comes again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Literal

import msgspec

from lakewarden.base.clock import from_millis, is_ahead, to_millis
from lakewarden.catalog.changes.engines import DISABLED, is_active
from lakewarden.catalog.changes.pipelines import live_pipelines, rule_of
from lakewarden.catalog.model import Table
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.fleet_days import ScheduleStanding, keep_schedules, standings_of
from lakewarden.errors import LakewardenError
from lakewarden.tables.warehouse import live_tables

if TYPE_CHECKING:
    from lakewarden.client import Lakehouse

_OF = "maintain"
_LISTED = 10_000
"""Objects of a source that one look lists, as Dagster's sensor does."""


@dataclass(frozen=True)
class Cadence:
    """When something is due, in UTC: each minute, or at one of the hour, of the day, of the week (0 is Sunday)."""

    minute: int | None = None
    hour: int | None = None
    weekday: int | None = None

    @property
    def cron(self) -> str:
        minute, hour, weekday = ("*" if each is None else str(each) for each in (self.minute, self.hour, self.weekday))
        return f"{minute} {hour} * * {weekday}"

    def last(self, now: datetime) -> datetime:
        """The newest of its times that is not after `now`."""
        at = now.astimezone(UTC).replace(second=0, microsecond=0)
        if self.minute is None:
            return at
        step = timedelta(hours=1) if self.hour is None else timedelta(days=1)
        at = at.replace(minute=self.minute) if self.hour is None else at.replace(hour=self.hour, minute=self.minute)
        while at > now or (self.weekday is not None and at.isoweekday() % 7 != self.weekday):
            at -= step
        return at


EVICT, COMPACT, OPTIMIZE, VACUUM, CHECK = "evict_minutely", "compact_hourly", "optimize_nightly", "vacuum_weekly", "check_nightly"

CADENCES = {
    EVICT: Cadence(),
    COMPACT: Cadence(17),  # not on the full hour, when most other jobs start
    OPTIMIZE: Cadence(30, 2),
    VACUUM: Cadence(0, 4, 0),
    CHECK: Cadence(10, 1),
}
"""By the names of Dagster's schedules, which have the same times."""

Came = Literal["done", "failed", "due", "nothing"]


@dataclass(frozen=True)
class DueAction:
    """What one rule found due, and what came of it; `due` in a dry run."""

    action: str
    outcome: Came
    scopes: int = 0
    """Scopes, jobs, objects or tables, whichever the action is over."""
    failed: int = 0
    reason: str = ""
    code: str = ""
    """Of the first fault."""


@dataclass(frozen=True)
class MaintainOnce:
    """One tick over a warehouse."""

    lake: Lakehouse
    dry_run: bool

    def run(self) -> list[DueAction]:
        """Each rule in turn; one that fails does not stop the others."""
        rules: list[tuple[str, Callable[[], DueAction]]] = [
            ("flush", self._flush),
            ("jobs", self._jobs),
            *((f"ingest {name}", lambda name=name: self._ingest(name)) for name in self._pipelines()),
            ("relay", self._relay),
            *((name, lambda name=name: self._scheduled(name)) for name in CADENCES),
        ]
        found = [self._guarded(name, rule) for name, rule in rules]
        if not self.dry_run:
            found.append(self._guarded("health", self._health))
        return found

    def _guarded(self, name: str, rule: Callable[[], DueAction]) -> DueAction:
        try:
            return replace(rule(), action=name)
        except LakewardenError as error:
            return DueAction(name, "failed", failed=1, reason=error.message, code=error.code)

    def _flush(self) -> DueAction:
        due = self.lake.due()
        if self.dry_run or not due:
            return _planned(len(due), due[0].reason if due else "no scope is due")
        return _done(self.lake.flush_scopes(one.pending.scope for one in due))

    def _jobs(self) -> DueAction:
        waiting = self.lake.waiting_jobs()
        if self.dry_run or not waiting:
            return _planned(len(waiting), "" if waiting else "no job is queued")
        ran = self.lake.run_jobs()
        bad = [job for job in ran if job.status == "failed"]
        return _came(len(ran), len(bad), bad[0].message if bad else "")

    def _pipelines(self) -> Sequence[str]:
        catalog = self.lake.warehouse.catalog.read()
        enabled = [one for one in live_pipelines(catalog) if rule_of(catalog, one).enabled]
        return [str(one.table) for one in enabled if is_active(catalog, one.table)]

    def _ingest(self, table: str) -> DueAction:
        new = self.lake.pipelines.untaken(table, islice(self.lake.pipelines.listing(table), _LISTED))
        if self.dry_run or not new:
            return _planned(len(new), "" if new else "nothing new")
        report = self.lake.ingest(table)
        return _came(len(new), 0, str(report))

    def _relay(self) -> DueAction:
        if self.dry_run:
            behind = [one for one in self.lake.topics.relay_status_of_every() if one.report is not None and one.report.lag]
            return _planned(len(behind), "" if behind else "no topic is behind")
        found = self.lake.topics.relay_every()
        bad = [one for one in found if one.error is not None]
        if not bad or bad[0].error is None:
            return _came(len(found), 0, "" if found else "no table has a topic")
        return replace(_came(len(found), len(bad), bad[0].error.message), code=bad[0].error.code)

    def _scheduled(self, name: str) -> DueAction:
        """Once for each of its times: that is noted before it begins, as a schedule that failed is not started again."""
        now = self.lake.warehouse.clock()
        last = CADENCES[name].last(now)
        noted = next((one for one in standings_of(self.lake.warehouse.state, _OF) if one.name == name), None)
        # A time that only a wrong clock can have noted would hold it back until then.
        if noted and last <= from_millis(noted.last_at) and not is_ahead(from_millis(noted.last_at), now):
            return _planned(0, f"done for {last:%Y-%m-%d %H:%M} UTC; the next comes by {CADENCES[name].cron!r}")
        if why := self._why_not(name):
            return _planned(0, why)
        if self.dry_run:
            return _planned(1, f"due since {last:%Y-%m-%d %H:%M} UTC")
        self._note(began := ScheduleStanding(name, _OF, CADENCES[name].cron, on=True, last_at=to_millis(last), last="began"))
        done = self._maintained(name)
        self._note(msgspec.structs.replace(began, last=done.outcome))
        return done

    def _note(self, one: ScheduleStanding) -> None:
        warehouse = self.lake.warehouse
        others = (each for each in standings_of(warehouse.state, _OF) if each.name != one.name)
        keep_schedules(warehouse.state, _OF, [*others, one], warehouse.clock())

    def _why_not(self, name: str) -> str:
        catalog = self.lake.warehouse.catalog.read()
        tables = [table for table in live_tables(catalog) if (table.type == "STREAM") == (name == EVICT)]
        if not tables:
            return f"there is no {'STREAM ' if name == EVICT else ''}table"
        return why_held(self.lake, lambda table: table in tables)

    def _maintained(self, name: str) -> DueAction:
        if name == COMPACT:
            return _done(self.lake.compact(scheduled=True))
        if name == OPTIMIZE:
            return _done(self.lake.optimize(scheduled=True))
        if name == VACUUM:
            deletes = self.lake.warehouse.settings.maintenance.scheduled_deletes
            found = _done(self.lake.vacuum(dry_run=not deletes))
            return found if deletes else replace(found, reason="listed alone: maintenance.scheduled_deletes is not set")
        if name == CHECK:
            findings = self.lake.check(quick=True)
            bad = [one for one in findings if not one.passed]
            return _came(len(findings), len(bad), bad[0].message if bad else "")
        return _done(self.lake.evict())

    def _health(self) -> DueAction:
        return _came(self.lake.book_fleet(), 0, "days of tables kept")


def why_held(lake: Lakehouse, of: Callable[[Table], bool]) -> str:
    """Why nothing is maintained: the engine of each of these tables is disabled. Of some, their reports say so."""
    catalog = lake.warehouse.catalog.read()
    tables = [table for table in live_tables(catalog) if of(table)]
    return DISABLED if tables and not any(is_active(catalog, table.name) for table in tables) else ""


def _planned(count: int, reason: str) -> DueAction:
    return DueAction("", "due" if count else "nothing", count, reason=reason)


def _done(reports: Sequence[ScopeReport]) -> DueAction:
    counts = Counter(report.outcome for report in reports)
    first = next((report for report in reports if report.fault), None)
    worked = counts["done"] + counts["failed"] + counts["planned"]
    found = _came(worked, counts["failed"], first.reason if first else "")
    return found if first is None or first.fault is None else replace(found, code=first.fault.code)


def _came(count: int, failed: int, reason: str) -> DueAction:
    outcome: Came = "failed" if failed else "done" if count else "nothing"
    return DueAction("", outcome, count, failed, reason, "INTERNAL" if failed else "")
