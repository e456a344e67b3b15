"""Is every storage reachable, every scope readable, log and table consistent? Looks, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow.compute as pc

from lakewarden.delta.rows import read_rows
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Corrupt, LakewardenError
from lakewarden.log.view import LogView
from lakewarden.operations.fanout import fault_of
from lakewarden.report import ScopeTarget


@dataclass(frozen=True)
class Finding:
    """One check of one subject (a storage, or a scope). `code` and `message` are empty where it passed."""

    subject: str
    check: str
    passed: bool
    code: str = ""
    message: str = ""


@dataclass(frozen=True)
class CheckTask:
    """The check of one scope; `log_end` is the last `_seq` that its log partition has given out, -1 for none."""

    target: ScopeTarget
    log_end: int


def check_scope(task: CheckTask) -> list[Finding]:
    """Readable, one row per key, and no watermark beyond the log: the checks of one scope's table."""
    subject = str(task.target.scope)
    try:
        table = ScopeTable.open(task.target.uri)
        if table is None:
            return [Finding(subject, "readable", True)]
        return [Finding(subject, name, not message, "CORRUPT" if message else "", message) for name, message in _look(task, table)]
    except LakewardenError as error:
        fault = fault_of(error)
        return [Finding(subject, "readable", False, fault.code, fault.message)]


def _look(task: CheckTask, table: ScopeTable) -> Iterable[tuple[str, str]]:
    keys = list(task.target.schema.primary_key)
    rows = read_rows(table, task.target.schemas)
    yield "readable", ""
    twice = rows.num_rows - rows.group_by(keys).aggregate([]).num_rows
    yield "one_row_per_key", f"{twice} rows repeat a key; the next flush of those keys settles them" if twice else ""
    beyond = [name for name in keys if rows[name].null_count]
    yield "no_null_in_key", f"NULL in key column {', '.join(beyond)}" if beyond else ""
    yield "log_and_table_agree", _agree(task, table, -1 if rows.num_rows == 0 else pc.max(rows["_seq"]).as_py())


def _agree(task: CheckTask, table: ScopeTable, newest: int | None) -> str:
    watermark = table.watermark(task.target.app_id)
    if watermark is not None and watermark > task.log_end:
        return f"its watermark {watermark} lies beyond the log's end {task.log_end}: the table was copied, or is another warehouse's"
    if newest is not None and watermark is not None and newest > watermark:
        return f"it has a row of _seq {newest}, beyond its watermark {watermark}"
    return ""


