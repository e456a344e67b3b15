"""Vacuum: deletes files that no version inside the retention needs. Its options."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lakewarden.maintenance.options import OfScopes, option


@dataclass(frozen=True)
class VacuumOptions(OfScopes):
    """`retain_hours` in place of the table's retention; below 168 hours, its own included, `force` is required."""

    retain_hours: float | None = option(
        None, "Hours to keep removed files, instead of the table's; below 168 only with force.", flag="--retain"
    )
    force: bool = option(False, "Allow a retention below 168 hours: versions in that time can then no longer be restored.")
    ignore_checks: bool = option(False, "Include scopes that failed a check: what is deleted may be what mends them.")
    keep_versions: tuple[int, ...] = ()
    keep_files: frozenset[str] = frozenset()
    """Paths that rows in the log refer to."""
    latest: datetime | None = None
    """The horizon is not later than this."""
    recorded: bool = False
    """Whether to commit the marks even if nothing is deleted."""


OPTIONS = VacuumOptions
