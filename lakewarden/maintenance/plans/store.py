"""Plans that the warehouse keeps: `plans/<plan id>/<part>` holds lines of the plan, the first part its head.

Beside them lie `begun`, written by each apply for the store's time, and `done`, the job of an apply that left no commit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import msgspec

from lakewarden.base.clock import Clock
from lakewarden.base.connection import Location
from lakewarden.base.quantities import grouped
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.report import ScopePlan, ScopeReport
from lakewarden.catalog.state.erasures import Certificate, Erasures, certificates
from lakewarden.catalog.state.records import content, empty_replaced, first_of, newest, rewrite
from lakewarden.errors import InvalidArgument, Moved, NotFound
from lakewarden.maintenance.plans.value import KEPT_FOR, PLAN_ID, VALID_FOR, Plan, PlanHead, check_head, read_line
from lakewarden.maintenance.request import Request, request_of_wire
from lakewarden.storage.objects import Missing, ObjectStore, StoredObject

_ROOT = "plans"
_BEGUN = "begun"
_DONE = "done"
_FIRST = "/000000"
_PART_LINES = 5_000
"""Of one object: some megabytes, so that no part is too much for one request."""


@dataclass(frozen=True)
class DoneBy:
    """The job that applied a plan whose operation leaves no commit. It names no user."""

    job_id: str
    message: str


def erasure_reports(certificate: Certificate, warehouse: str, message: str) -> list[ScopeReport]:
    """What an erasure reports: the scope of each table that it covers, at the warehouse's URI."""
    user, place = certificate.user, Location(warehouse)
    scopes = (Scope(TableName.parse(one.table), user) for one in certificate.tables)
    return [ScopeReport(scope, "erase", "done", place, message) for scope in scopes]


@dataclass(frozen=True)
class KeptPlan:
    """A plan as the warehouse keeps it. `plan` is None where an erasure that was done by it has removed it."""

    plan: Plan | None
    done: DoneBy | None


@dataclass(frozen=True)
class PlanLog:
    """The plans of one warehouse; `store` is rooted at its `_lakewarden/`."""

    store: ObjectStore
    erasures: Erasures

    def keep(self, plan: Plan, clock: Clock) -> None:
        """Keeps a plan, without those who are being erased: their erasures may have looked before it was there."""
        home, lines = f"{_ROOT}/{plan.plan_id}", list(plan.lines())
        starts = range(0, len(lines), _PART_LINES)
        keys = [f"{home}/{number:06d}" for number in range(len(starts))]
        for key, start in zip(reversed(keys), reversed(starts), strict=True):  # the head last: without it there is no plan
            self.store.create(key, b"\n".join(lines[start : start + _PART_LINES]))
        users = {self.erasures.mark(user): user for user in plan.users}
        took = clock() - plan.planned_at
        # by the store's clock, as erasures are dated
        for mark in self.erasures.among(users, lambda: self.store.get_dated(keys[0])[1] - took) if users else ():
            self._leave_out(home, users[mark], None)

    def request(self, plan_id: str) -> Request | None:
        """What a plan was made for; None where there is no such plan.

        Raises:
            InvalidArgument: that is not the id of a plan.
        """
        _check_id(plan_id)
        data = content(self.store, f"{_ROOT}/{plan_id}{_FIRST}")
        return None if data is None else request_of_wire(read_line(_lines(data)[0], PlanHead).request)

    def begin(self, plan_id: str, now: datetime) -> KeptPlan:
        """The plan, to be applied now; by the store's own time and by `now` it is not too old.

        Raises:
            InvalidArgument: that is not the id of a plan.
            NotFound: there is no such plan.
            Moved: it is too old.
        """
        _check_id(plan_id)
        home = f"{_ROOT}/{plan_id}"
        listing = self.store.list(home)
        parts = _parts(listing)
        if not listing or (parts and not first_of(parts[0]).endswith(_FIRST)):  # it was never stored whole: its head comes last
            raise NotFound(f"there is no plan {plan_id}: it was made for another warehouse, or removed when it was too old")
        begun = f"{home}/{_BEGUN}"
        self.store.put(begun, b"")
        listing = self.store.list(home)
        found, parts = {stored.key: stored for stored in listing}, _parts(listing)
        if parts:
            _check_age(plan_id, found[begun].modified - found[parts[0]].modified)
        plan = self._read(parts) if parts else None
        if plan is not None:
            _check_age(plan_id, now - plan.planned_at)
        return KeptPlan(plan, self._done(f"{home}/{_DONE}"))

    def finish(self, plan_id: str, done: DoneBy) -> None:
        """Notes what a second apply reports."""
        self.store.put(f"{_ROOT}/{plan_id}/{_DONE}", msgspec.json.encode(done))

    def erased_before(self, warehouse: str, done: DoneBy) -> list[ScopeReport]:
        """What a plan did that was removed with its user, by the certificate; as `erasure_reports`."""
        found = (each for each in certificates(self.store) if each.id == done.job_id)
        return [report for certificate in found for report in erasure_reports(certificate, warehouse, done.message)]

    def expire(self, now: datetime) -> int:
        """Removes the plans that are too old to apply, and returns how many."""
        plans = grouped(self.store.list(_ROOT), lambda stored: stored.key.rpartition("/")[0]).values()
        old = [objects for objects in plans if now - max(stored.modified for stored in objects) > KEPT_FOR]
        self.store.delete(stored.key for objects in old for stored in objects)
        return len(old)

    def forget(self, user: str, tables: Collection[str] | None) -> None:
        """Leaves a user out of every plan: of these tables, or of all where it is None."""
        self._leave_out(_ROOT, user, tables)

    def _leave_out(self, below: str, user: str, tables: Collection[str] | None) -> None:
        listing = self.store.list(below)
        for key in _parts(listing):
            if self._is_for(key, user, tables):
                home = key.rpartition("/")[0]
                self.store.delete([stored.key for stored in self.store.list(home) if _is_part(stored.key)])
            else:
                rewrite(self.store, key, partial(_without, key, user, tables))
        empty_replaced(self.store, [stored for stored in self.store.list(below) if _is_part(stored.key)])

    def _is_for(self, key: str, user: str, tables: Collection[str] | None) -> bool:
        """Whether the head of a plan is in this part, and the plan was requested for the user."""
        data = content(self.store, key) if first_of(key).endswith(_FIRST) else None
        return data is not None and _is_for(request_of_wire(read_line(_lines(data)[0], PlanHead).request), user, tables)

    def _read(self, parts: list[str]) -> Plan:
        lines = (line for part in parts for line in _lines(content(self.store, part) or b""))
        head = read_line(next(lines, b""), PlanHead)
        check_head(head)
        scopes = tuple(read_line(line, ScopePlan) for line in lines)
        return head.plan(scopes)

    def _done(self, key: str) -> DoneBy | None:
        try:
            return read_line(self.store.get(key), DoneBy)
        except Missing:
            return None


def _parts(listing: Iterable[StoredObject]) -> list[str]:
    """What counts of each part of plans."""
    return [stored.key for stored in newest(listing) if _is_part(stored.key)]


def _is_part(key: str) -> bool:
    return first_of(key).rpartition("/")[2].isdigit()


def _without(key: str, user: str, tables: Collection[str] | None, data: bytes) -> bytes:
    """The lines of a part that are not about the user; never no bytes at all."""
    lines = _lines(data)
    first = int(first_of(key).endswith(_FIRST))  # the head stands there
    kept = lines[:first] + [line for line in lines[first:] if not _names(read_line(line, ScopePlan), user, tables)]
    return data if len(kept) == len(lines) else b"\n".join(kept) or b"\n"


def _lines(part: bytes) -> list[bytes]:
    return [line for line in part.split(b"\n") if line]


def _check_id(plan_id: str) -> None:
    if not PLAN_ID.fullmatch(plan_id):
        raise InvalidArgument(f"{plan_id[:80]!r} is not the id of a plan, as PL-0123456789ab-01234567")


def _check_age(plan_id: str, age: timedelta) -> None:
    if age > VALID_FOR:
        raise Moved(f"plan {plan_id} was made {age} ago, and is too old to be applied: plan again")


def _is_for(request: Request, user: str, tables: Collection[str] | None) -> bool:
    """Whether a plan was requested for this user, over no other tables than these."""
    return request.user == user and (tables is None or (bool(request.tables) and set(request.tables) <= set(tables)))


def _names(line: ScopePlan, user: str, tables: Collection[str] | None) -> bool:
    return line.user == user and (tables is None or line.table in tables)
