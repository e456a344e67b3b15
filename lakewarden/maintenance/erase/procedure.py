"""Erase: removes all data of a user, as a whole, and searches for remains."""

from __future__ import annotations

from functools import partial

from lakewarden.base.scope import Scope
from lakewarden.catalog.access import can
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.erasures import Certificate, ErasureRequest, find_request, keep_request, nameless
from lakewarden.errors import Conflict, InvalidArgument, LakewardenError
from lakewarden.maintenance.erase import EraseOptions
from lakewarden.maintenance.erase.run import erase
from lakewarden.maintenance.erase.verification import check_known, tables_of_users
from lakewarden.maintenance.plans.still_planned import check_standing, place_of
from lakewarden.maintenance.plans.store import DoneBy, PlanLog, erasure_reports
from lakewarden.maintenance.plans.value import Plan
from lakewarden.maintenance.procedure import AsAWhole
from lakewarden.maintenance.request import Request, request_of
from lakewarden.maintenance.workplace import Workplace
from lakewarden.storage.open import open_store
from lakewarden.storage.paths import check_user
from lakewarden.tables.presence import Presence

_OPERATOR = "operator"


class Erase(AsAWhole):
    def look(self, at: Workplace, catalog: Catalog, request: Request) -> list[ScopeReport]:
        """A report for each table that the user is erased from.

        Raises:
            NotFound, InvalidArgument: no such table, or a SHARED one; an unknown or impossible user.
            StorageUnavailable: a storage is away.
        """
        warehouse, user = at.warehouse, check_user(request.user)
        if not request.options_of(EraseOptions).even_if_unknown:
            check_known(warehouse, user, request.tables)
        Presence.among(map(warehouse.root, catalog.storages.values())).check()  # as the erasure does
        reports = []
        for table in tables_of_users(catalog, request.tables):
            place = place_of(warehouse, catalog, table, user)
            sizes = [found.size for found in open_store(place).list("")] if can(table.type, "cold tier") else []
            pending = warehouse.log(table).view((user,)).pending.get(user)
            metrics = {"hot_rows": pending.rows if pending else 0, "files": len(sizes), "bytes": sum(sizes)}
            reason = f"{metrics['hot_rows']} rows in the log and {metrics['files']} files of {metrics['bytes']} bytes go"
            reports.append(ScopeReport(Scope(table.name, user), "erase", "planned", place, reason=reason, metrics=metrics))
        return reports

    def run(self, at: Workplace, catalog: Catalog, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        certificate = erase_user(at, _erasure(request, _OPERATOR))
        return erasure_reports(certificate, at.warehouse.uri, f"certificate {certificate.id}")

    def apply(self, at: Workplace, plan: Plan) -> DoneBy:
        check_standing(at.warehouse, plan)
        return _done_by(erase_user(at, _erasure(plan.request, f"plan {plan.plan_id}")))


def _erasure(request: Request, asked_by: str) -> ErasureRequest:
    return ErasureRequest(request.user or "", request.tables, asked_by, request.options_of(EraseOptions).deep)


def erase_user(at: Workplace, erasure: ErasureRequest) -> Certificate:
    """Raises as `maintenance.erase.run.erase`; the job log knows the user by the keyed hash alone."""
    started = at.warehouse.clock()
    job_id = at.new_job_id("erase")
    parameters = {"tables": ",".join(erasure.tables), "deep": str(erasure.deep)}
    keep = partial(at.jobs.keep, "erase", job_id, started)
    try:
        certificate = erase(at.warehouse, at.engine.run, at.jobs, erasure, job_id)
    except Conflict as error:
        # The code alone: the message may have the user's id in it.
        keep(parameters | {"user": at.warehouse.erasures.mark(erasure.user)}, "failed", error.code)
        raise
    keep(parameters | {"user": certificate.user}, "completed", f"certificate {certificate.id}")
    return certificate


def erase_requested(at: Workplace, request: str) -> Certificate:
    """Erases what was requested under this keyed hash; raises as `erase_user`, with the hash in place of the id, and the
    request stays."""
    state = at.warehouse.state
    erasure = find_request(state, request)
    with nameless(erasure.user, request):
        try:
            return erase_user(at, erasure)
        except LakewardenError:
            # The erasure removes its request early, since that has the id; after a failure the runner needs it again.
            keep_request(state, request, erasure)
            raise


def erase_as_planned(at: Workplace, request: str, plan_id: str) -> Certificate:
    """Erases what was requested under this keyed hash, as it was planned.

    Raises:
        InvalidArgument, NotFound: it is not a plan of that erasure.
        Moved: a table of the plan changed; nothing was erased.
    """
    plans = PlanLog(at.warehouse.state, at.warehouse.erasures)
    found = plans.begin(plan_id, at.warehouse.clock())
    erasure = find_request(at.warehouse.state, request)
    if found.plan is None or found.plan.request != request_of(erasure):
        raise InvalidArgument(f"plan {plan_id} does not belong to the erasure {request}; preview that erasure again")
    with nameless(erasure.user, request):
        check_standing(at.warehouse, found.plan)
    certificate = erase_requested(at, request)
    plans.finish(plan_id, _done_by(certificate))
    return certificate


def _done_by(certificate: Certificate) -> DoneBy:
    return DoneBy(certificate.id, f"certificate {certificate.id}")


PROCEDURE = Erase()
