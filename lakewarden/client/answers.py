"""A statement's result as one JSON object, for the command line and for HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

from lakewarden.base.json_values import json_rows
from lakewarden.sql.results import AffectedRows, OneLine, ResultRows, StartedJobs


class RowsAnswer(TypedDict):
    """Of a query. How it was read is known of one on a large table alone."""

    columns: list[str]
    rows: Sequence[Mapping[str, object]]
    strategy: NotRequired[str]
    served_by: NotRequired[str]
    strategy_reason: NotRequired[str | None]


class AffectedAnswer(TypedDict):
    """Of a write; `version` where it committed one, and the last two where it has RETURNING."""

    rows_affected: int
    strategy: str
    pending_drain: bool
    version: NotRequired[int]
    warnings: list[str]
    columns: NotRequired[list[str]]
    rows: NotRequired[Sequence[Mapping[str, object]]]


class JobsAnswer(TypedDict):
    """Of a statement that can start several jobs."""

    message: str
    job_ids: list[str]


class JobAnswer(TypedDict):
    """Of a statement that starts one."""

    message: str
    job_id: str


class MessageAnswer(TypedDict):
    """Of any other statement."""

    message: str


Answer = RowsAnswer | AffectedAnswer | JobsAnswer | JobAnswer | MessageAnswer


def answer(result: OneLine) -> Answer:
    """The object, as the interface has it."""
    match result:
        case ResultRows():
            return _read(result)
        case AffectedRows():
            return _written(result)
        case StartedJobs() if result.several:
            return {"message": result.message, "job_ids": [*result.job_ids]}
        case StartedJobs():
            return {"message": result.message, "job_id": result.job_ids[0]}
        case _:
            return {"message": result.message}


def _read(result: ResultRows) -> RowsAnswer:
    found: RowsAnswer = {"columns": [*result.columns], "rows": [*json_rows(result.to_pylist())]}
    if result.strategy is not None and result.served_by is not None:
        found["strategy"], found["served_by"] = result.strategy.wire, result.served_by.wire
        found["strategy_reason"] = result.strategy_reason
    return found


def _written(result: AffectedRows) -> AffectedAnswer:
    made: AffectedAnswer = {
        "rows_affected": result.rows,
        "strategy": result.strategy.wire,
        "pending_drain": result.pending_drain,
        "warnings": [*result.warnings],
    }
    if result.version is not None:
        made["version"] = result.version
    if result.returned is not None:
        made |= {"columns": [*result.returned.columns], "rows": [*json_rows(result.returned.to_pylist())]}
    return made
