"""The scopes that a failed check keeps from a vacuum: the files that it would delete may be the only good ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakewarden.base.scope import Scope
from lakewarden.catalog.operations import SPECS
from lakewarden.catalog.state.failed_checks import NO_FILE_MENDS, UNREADABLE
from lakewarden.catalog.state.failed_checks import StandingFailure as Failure
from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import FailedCheck
from lakewarden.tables.warehouse import Warehouse, find_table


def blocked_scopes(warehouse: Warehouse, targets: Sequence[ScopeTarget]) -> Mapping[Scope, FailedCheck]:
    """Why these scopes may not be vacuumed; one listing for each table."""
    catalog = warehouse.catalog.read()
    failed = {
        name: warehouse.failed_checks.of(find_table(catalog, name).id) for name in {target.scope.table for target in targets}
    }
    found = ((target.scope, failed[target.scope.table].get(_mark(warehouse, target), ())) for target in targets)
    # Failed operations stand among the checks; they say nothing of which files are good.
    of_checks = ((scope, [each for each in failures if each.check not in {*SPECS, *NO_FILE_MENDS}]) for scope, failures in found)
    return {scope: _error(scope, failures) for scope, failures in of_checks if failures}


def _mark(warehouse: Warehouse, target: ScopeTarget) -> str:
    return target.mark or warehouse.erasures.mark(target.scope.user or "")


def _error(scope: Scope, failures: Sequence[Failure]) -> FailedCheck:
    newest = max(failures, key=lambda failure: (failure.version, failure.at))
    more = f" and {len(failures) - 1} more" if len(failures) > 1 else ""
    which = "" if newest.version == UNREADABLE else f" in version {newest.version}"
    return FailedCheck(
        f"{scope} failed the check {newest.check}{which} at {newest.at:%Y-%m-%d %H:%M} UTC{more}: a vacuum"
        " may delete the files that mend it; mend it and check it again, or vacuum with --ignore-checks"
    )
