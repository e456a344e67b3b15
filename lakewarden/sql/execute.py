"""Executes a bound statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from lakewarden.sql.bind import BoundStatement
from lakewarden.sql.context import Context
from lakewarden.sql.results import Result
from lakewarden.sql.specs import STATEMENTS
from lakewarden.sql.statement_spec import AuditEntrySpec, StatementSpec
from lakewarden.sql.statements.base import Ref, Statement

if TYPE_CHECKING:
    from lakewarden.tables.rows.files import Upload

Handler = Callable[[Context, Any], Result]


def execute(bound: BoundStatement, uploads: Mapping[str, Upload]) -> Result:
    """Raises:
    LakewardenError: the statement failed.
    """
    bound = bound.entered()
    statement, context = bound.statement, replace(bound.context, uploads=uploads)
    spec = STATEMENTS[type(statement)]
    result = handler_of(spec)(context, statement)
    if spec.audited is not None and not getattr(statement, "dry_run", False):  # a dry run changes nothing
        context.door.audit.note(context.principal, spec.audited.action, _target(context, statement, spec.audited))
    return result


def _target(context: Context, statement: Statement, audited: AuditEntrySpec) -> str:
    """A table or view by its whole name, anything else by its id."""
    found = getattr(statement, audited.field)
    return f"{audited.kind}:{context.named(found) if isinstance(found, Ref) else found}"


def handler_of(spec: StatementSpec) -> Handler:
    module, _, name = spec.handler.partition(".")
    return cast("Handler", getattr(import_module(f"lakewarden.sql.handlers.{module}"), name))
