"""A statement's result as one JSON object, for the command line and for HTTP."""

from __future__ import annotations

from lakewarden.json_values import Json, json_rows
from lakewarden.sql.results import Affected, OneLine, Rows, Started


def answer(result: OneLine) -> dict[str, Json]:
    """The object, as the interface has it."""
    match result:
        case Rows():
            rows: list[Json] = [dict(row) for row in json_rows(result.to_pylist())]
            return {"columns": [*result.columns], "rows": rows, **_how_read(result)}
        case Affected():
            return {"rows_affected": result.rows, **_how_written(result)}
        case Started() if result.several:
            return {"message": result.message, "job_ids": [*result.job_ids]}
        case Started():
            return {"message": result.message, "job_id": result.job_ids[0]}
        case _:
            return {"message": result.message}


def _how_read(result: Rows) -> dict[str, Json]:
    """Empty for a query on anything but one large table."""
    if result.strategy is None or result.served_by is None:
        return {}
    return {"strategy": result.strategy.wire, "served_by": result.served_by.wire, "strategy_reason": result.strategy_reason}


def _how_written(result: Affected) -> dict[str, Json]:
    made: dict[str, Json] = {"strategy": result.strategy.wire, "pending_drain": result.pending_drain}
    if result.version is not None:
        made["version"] = result.version
    return made | {"warnings": [*result.warnings]}
