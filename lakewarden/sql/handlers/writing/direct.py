"""Carries out statements straight in Delta, past the write log: by one commit each (tables/direct)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import msgspec
import pyarrow as pa
from sqlglot import exp

from lakewarden.sql.context import Context
from lakewarden.sql.handlers.writing.file_query import DeleteFile, FileQuery, UpdateFile
from lakewarden.sql.handlers.writing.revision import Reviser
from lakewarden.sql.handlers.writing.target import WriteTarget, wanted_by
from lakewarden.sql.handlers.writing.within import within_of
from lakewarden.sql.query_engine.in_process import engine_of_process
from lakewarden.sql.results import AffectedRows
from lakewarden.sql.statements.rows import Assignment
from lakewarden.storage.steps import Steps
from lakewarden.tables.direct.revise import Spread
from lakewarden.tables.direct.value import DirectResult, Given
from lakewarden.tables.fanout import SizedWork
from lakewarden.tables.rows.intake import RowParts, Rows

T = TypeVar("T")
R = TypeVar("R")


def append(target: WriteTarget, given: Given) -> AffectedRows:
    result = target.client.direct.append(given)
    return _affected(target, result, result.rows_inserted)


def completed(target: WriteTarget, given: Rows | RowParts) -> Iterable[pa.Table]:
    """The rows as they are stored; those of parts as they are read."""
    if isinstance(given, RowParts):
        return (target.client.completed(part, user=target.user) for part in given.tables())
    return [target.client.completed(given, user=target.user)]


def overwrite_directly(target: WriteTarget, given: Given | None) -> AffectedRows:
    """Replaces all rows; None truncates."""
    if given is None:
        result = target.client.direct.overwrite([], operation="TRUNCATE")
        return _affected(target, result, result.rows_deleted)
    result = target.client.direct.overwrite(given)
    return _affected(target, result, result.rows_inserted)


def update_directly(context: Context, target: WriteTarget, query: exp.Select, assignments: Sequence[Assignment]) -> AffectedRows:
    """Args:
    query: a `revision_query` with its condition.
    """
    decide = UpdateFile(FileQuery.of(context, target, query), Reviser.of(context, target, assignments), lambda: context.engine)
    result = _edited(context, target, query, decide, "UPDATE")
    return _affected(target, result, result.rows_updated)


def delete_directly(context: Context, target: WriteTarget, query: exp.Select) -> AffectedRows:
    """Args:
    query: anything of the rows that go.
    """
    decide = DeleteFile(FileQuery.of(context, target, query.select(append=False)), lambda: context.engine)
    result = _edited(context, target, query, decide, "DELETE")
    return _affected(target, result, result.rows_deleted)


def _edited(
    context: Context, target: WriteTarget, query: exp.Select, decide: UpdateFile | DeleteFile, operation: str
) -> DirectResult:
    return target.client.direct.edit(
        decide,
        operation=operation,
        predicate=query.args["where"].this.sql("duckdb"),
        bounds=wanted_by(context, query, target.table).bounds,
        within=within_of(context, target, query) or "",
        spread=_spread(context, decide),
    )


def _spread(context: Context, decide: UpdateFile | DeleteFile) -> Spread | None:
    """Tasks of Spark for the operator's statements. Texts of others never run in an executor (docs/decisions/0029)."""
    warehouse, services = context.warehouse, context.services
    if not services.trusts(context.principal):
        return None
    one = msgspec.structs.replace(warehouse.settings.sql, threads=1)
    there = replace(decide, engine=partial(engine_of_process, one))

    def run(work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]:
        return services.operator().engine.run_large(work, items, 0)

    return Spread(run, warehouse.settings.flush.large_scope_bytes, there, warehouse.clock(), warehouse.clock)


def _affected(target: WriteTarget, result: DirectResult, rows: int) -> AffectedRows:
    return target.affected(rows, result.version if result.committed else None)
