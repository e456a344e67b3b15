"""Results of statements in K3's wire form."""

from __future__ import annotations

from lakewarden.base.json_values import json_rows
from lakewarden.client.k3.messages import QueryAnswer, WriteAnswer
from lakewarden.client.k3.values import exact_row
from lakewarden.client.k3.wire import int64
from lakewarden.errors import Internal
from lakewarden.sql.results import AffectedRows, QueryStrategy, Result, ResultRows, ServedBy, WriteStrategy


def written(table: str, result: Result, strategy: WriteStrategy | None = None) -> WriteAnswer:
    """Args:
    strategy: the call's, where it has one of its own.
    """
    if not isinstance(result, AffectedRows):
        raise Internal(f"a write of {table} answered {type(result).__name__}")
    return wrote(
        table,
        result.rows,
        strategy or result.strategy,
        pending=result.pending_drain,
        version=result.version,
        warnings=result.warnings,
    )


def wrote(
    table: str,
    rows: int,
    strategy: WriteStrategy,
    *,
    pending: bool,
    version: int | None = None,
    warnings: tuple[str, ...] = (),
) -> WriteAnswer:
    """Version 0 stands for none: what went through the write log has none yet. An overwrite by no rows is a commit, too."""
    return {
        "strategy": strategy.wire,
        "rowsWritten": int64(rows),
        "noop": rows == 0 and version is None,
        "pendingDrain": pending,
        "version": int64(version or 0),
        "targetTable": table,
        "warnings": list(warnings),
    }


def queried(result: ResultRows, limit: int) -> QueryAnswer:
    shown = result if result.table.num_rows <= limit else result.first(limit)
    rows = [exact_row(row) for row in json_rows(shown.to_pylist())]
    return {
        "columns": list(shown.columns),
        "rows": rows,
        "rowCount": int64(len(rows)),
        "strategy": (result.strategy or QueryStrategy.UNSPECIFIED).wire,
        "servedBy": (result.served_by or ServedBy.UNSPECIFIED).wire,
        "strategyReason": result.strategy_reason or "",
        "warnings": [],
    }
