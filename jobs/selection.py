"""The part of every operation's form that says which scopes it is for."""

from __future__ import annotations

import dagster as dg
from pydantic import Field

from lakewarden.errors import InvalidArgument


def plan_field() -> str:
    """The form's field for the id of a plan."""
    found: str = Field(
        "",
        description="The id that a dry run of this form showed as `plan_id`: then exactly what it planned is done, and what has"
        " changed since fails. Fill in the rest as it was.",
    )
    return found


def check_plan(plan: str, *, dry_run: bool) -> None:
    """Raises:
    InvalidArgument: a plan is given to a dry run.
    """
    if plan and dry_run:
        raise InvalidArgument("a plan is applied: set dry_run to false, or leave out the plan to preview again")


class ScopeSelection(dg.Config):
    """Which scopes. Left as it is: every scope of the warehouse."""

    tables: list[str] = Field([], description="Tables as namespace.table; none means all of the warehouse.")
    user: str | None = Field(None, description="Only this user's scope of each of the tables.")
