"""Statements that go straight into Delta, past the write log."""

# ruff: noqa: ARG001  # until direct writes are there

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from lakewarden.errors import Unsupported
from lakewarden.rows.intake import Rows
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.target import Target
from lakewarden.sql.results import Affected
from lakewarden.sql.statements.rows import Assignment


def append(target: Target, given: Rows) -> Affected:
    raise _later(target)


def overwrite_directly(target: Target, rows: pa.Table | None) -> Affected:
    raise _later(target)


def update_directly(context: Context, target: Target, query: exp.Select, assignments: Sequence[Assignment]) -> Affected:
    raise _later(target)


def delete_directly(context: Context, target: Target, query: exp.Select) -> Affected:
    raise _later(target)


def _later(target: Target) -> Unsupported:
    return Unsupported(f"{target.table.name}: writes straight into Delta are not supported yet")
