"""Statements about pipelines and their rules."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.sql.statements.base import OnTable, Pairs, Statement


@dataclass(frozen=True)
class CreateFromTemplate(OnTable):
    """CREATE SHARED TABLE … FROM TEMPLATE: the template owns the schema. A list among the options is the text of a JSON list."""

    template: str
    options: Pairs = ()
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropPipeline(Statement):
    pipeline: str
    if_exists: bool = False


@dataclass(frozen=True)
class AlterRule(Statement):
    rule: str
    changes: Pairs


@dataclass(frozen=True)
class ShowRules(Statement):
    namespace: str | None = None


@dataclass(frozen=True)
class ShowPipelines(Statement):
    namespace: str | None = None
