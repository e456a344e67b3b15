"""Forms of operations: the fields for the options follow from the operation's own; a dry run makes a plan, and links to the form
that applies it.
"""

from collections.abc import Callable, Sequence
from dataclasses import Field as OptionField
from dataclasses import fields
from typing import Any, Protocol, TypeVar, cast, get_type_hints, runtime_checkable

import dagster as dg
from pydantic import Field, create_model

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import ScopeReport
from lakewarden.client import Lakehouse
from lakewarden.client.dagster_links import plan_path
from lakewarden.dagster.jobs.event_log.book import book
from lakewarden.dagster.jobs.runs import ScopeSelection, warehouse_op
from lakewarden.dagster.lakehouse import WarehouseRun
from lakewarden.errors import InvalidArgument, NotFound
from lakewarden.maintenance.options import OptionValues, options_type
from lakewarden.maintenance.plans.store import PlanLog
from lakewarden.maintenance.request import Request, new_request


def plan_field() -> str:
    """The config field for the id of a plan."""
    found: str = Field(
        "",
        description="The `plan_id` of a dry run of this form: exactly that plan is applied, and scopes that have changed since"
        " fail. The dry run's own link, `apply`, fills the form with it.",
    )
    return found


@runtime_checkable
class WithDryRun(Protocol):
    """A form that first shows what it would do, and applies what was shown."""

    @property
    def dry_run(self) -> bool: ...
    @property
    def plan(self) -> str: ...


def check_plan(form: WithDryRun) -> None:
    """Raises InvalidArgument: a plan is given to a dry run."""
    if form.plan and form.dry_run:
        raise InvalidArgument("a dry run applies no plan: set dry_run to false to apply it, or omit the plan to preview again")


def run_or_apply(
    lake: Lakehouse, operation: Operation, tables: Sequence[str], options: OptionValues, form: WithDryRun
) -> list[ScopeReport]:
    """Runs an operation, previews it, or applies the plan that a preview made: of the same request, or of any where the form has
    the plan alone.

    Raises:
        InvalidArgument: a plan is given to a dry run, or the request is not valid.
        NotFound: there is no such plan.
    """
    if form.plan:
        check_plan(form)
        is_blank = not tables and not any(options.values())
        only = planned_request(lake, operation, form.plan) if is_blank else new_request(operation, tables, **options)
        return lake.apply(form.plan, only=only)
    return lake.run(operation, *tables, dry_run=form.dry_run, **options)


def planned_request(lake: Lakehouse, operation: Operation, plan_id: str) -> Request:
    """What a plan was made for: it knows its scopes and the state, so that a form may hold the plan alone.

    Raises:
        NotFound: there is no such plan.
        InvalidArgument: it is for another operation.
    """
    found = PlanLog(lake.warehouse.state, lake.warehouse.erasures).request(plan_id)
    if found is None:
        raise NotFound(f"there is no plan {plan_id}; launch a dry run of this form for a new one")
    if found.operation != operation:
        raise InvalidArgument(f"plan {plan_id} is for {found.operation}, not for {operation}: launch it from that form")
    return found


def planned_restore(lake: Lakehouse, plan_id: str, table: TableName, user: str | None = None) -> Request:
    """The same for a restore.

    Raises:
        NotFound: there is no such plan.
        InvalidArgument: it is not for a restore of this table, or of this user's scope.
    """
    found = planned_request(lake, "restore", plan_id)
    if found.tables != (str(table),) or user not in (None, found.user):
        whose = table if user is None else Scope(table, user)
        raise InvalidArgument(f"plan {plan_id} is not for a restore of {whose}: launch a dry run of this form for one that is")
    return found


def apply_link(context: dg.OpExecutionContext, plan_id: str, *needed: str) -> dict[str, dg.MetadataValue]:
    """The form of this run, filled with the plan that its dry run made: launching it applies exactly that plan.

    A URL, since a run's page hides Markdown behind a button; a short one, since the page shows it whole.

    Args:
        needed: the fields that the form wants beside the plan.
    """
    now = {"dry_run": False} if "dry_run" in context.op_config else {}
    form = {name: context.op_config[name] for name in needed} | now | {"plan": plan_id}
    return {"apply": dg.MetadataValue.url(plan_path(context.job_name, context.op.name, form))}


def plan_link(context: dg.OpExecutionContext, reports: Sequence[ScopeReport], *needed: str) -> dict[str, dg.MetadataValue]:
    """The same for a dry run's reports; nothing where nothing is planned."""
    plan_id = next((report.plan_id for report in reports if report.outcome == "planned" and report.plan_id), None)
    return apply_link(context, plan_id, *needed) if plan_id else {}


C = TypeVar("C", bound=dg.Config)


def _shown(operation: Operation) -> list[OptionField[Any]]:
    return [one for one in fields(options_type(operation)) if one.metadata.get("form")]


def takes_options(operation: Operation) -> Callable[[type[C]], type[C]]:
    """A class decorator: adds the operation's options to a config, but for those that it asks for by a field of its own; before
    the field that says whether it is only a look.
    """

    def completed(form: type[C]) -> type[C]:
        base: Any = form.__base__
        hints = get_type_hints(options_type(operation))
        own: dict[str, Any] = {
            name: (found.annotation, found) for name, found in form.model_fields.items() if name not in base.model_fields
        }
        added = {one.name: _field(one, hints[one.name]) for one in _shown(operation) if one.name not in own}
        names = list(own)
        first = names[: names.index("dry_run")] if "dry_run" in own else names
        every: dict[str, Any] = {**{name: own[name] for name in first}, **added, **own}
        made: Any = create_model(form.__name__, __base__=base, __doc__=form.__doc__, __module__=form.__module__, **every)
        return cast("type[C]", made)

    return completed


def option_values(form: dg.Config, operation: Operation) -> OptionValues:
    """The options that were filled in, with `user` and `look` where the form has them."""
    return {
        name: getattr(form, name) for name in (*(one.name for one in _shown(operation)), "user", "look") if hasattr(form, name)
    }


def op_on_scopes(operation: Operation, form: type[ScopeSelection], description: str, kind: str = "spark") -> dg.OpDefinition:
    """The op of an operation; `form` is its config. One without a dry run is done as a schedule does it."""

    @warehouse_op(description, name=operation, kind=kind)
    def on_scopes(run: WarehouseRun, config: form) -> None:  # type: ignore[valid-type]  # Dagster makes the form of it
        chosen: ScopeSelection = config
        options = option_values(chosen, operation)
        if isinstance(chosen, WithDryRun):
            reports = run_or_apply(run.lake, operation, chosen.tables, options, chosen)
            run.context.add_output_metadata(plan_link(run.context, reports))
            book(run, reports, preview=chosen.dry_run)
        else:
            book(run, run.lake.run(operation, *chosen.tables, scheduled=True, **options))

    return on_scopes


def _field(option: OptionField[Any], kind: object) -> tuple[object, Any]:
    """Dagster's forms have lists, and texts for times."""
    if isinstance(option.default, tuple):
        return list[str], Field([*option.default], description=option.metadata["help"])
    return kind, Field(option.default, description=option.metadata["help"])
