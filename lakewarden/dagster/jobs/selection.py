"""The fields of every operation's config that select its scopes, and the config of a run that was made from them."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg
from pydantic import Field

from lakewarden.errors import InvalidArgument


def plan_field() -> str:
    """The config field for the id of a plan."""
    found: str = Field(
        "",
        description="The `plan_id` that a dry run of this config showed: exactly that plan is applied, and scopes that have"
        " changed since fail. Leave the other fields as they were.",
    )
    return found


def check_plan(plan: str, *, dry_run: bool) -> None:
    """Raises:
    InvalidArgument: a plan is given to a dry run.
    """
    if plan and dry_run:
        raise InvalidArgument("a dry run applies no plan: set dry_run to false to apply it, or omit the plan to preview again")


class ScopeSelection(dg.Config):
    """Which scopes. By default every scope of the warehouse."""

    tables: list[str] = Field([], description="Tables as namespace.table; empty means all of the warehouse.")
    user: str | None = Field(None, description="Only this user's scope of each of the tables.")


def op_config(run: dg.DagsterRun) -> Mapping[str, object]:
    """The config of the run's only op; empty if the launchpad was left empty."""
    ops = run.run_config.get("ops")
    ours = next(iter(ops.values()), None) if isinstance(ops, Mapping) else None
    config = ours.get("config") if isinstance(ours, Mapping) else None
    return config if isinstance(config, Mapping) else {}
