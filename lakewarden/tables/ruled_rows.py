"""Refuses rows that do not keep what other writers ask of their table, at the write: a flush is too late for that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.delta.row_rules import RuledTable, check_known
from lakewarden.delta.scope import open_scope
from lakewarden.errors import ConstraintViolation


def check_ruled(ruled: Mapping[str, RuledTable], rows: pa.Table, users: pa.Array[Any]) -> None:
    """
    Args:
        ruled: by user.
        users: each row's user.

    Raises:
        ConstraintViolation: a row does not keep a rule that its table has still; it is looked at again before that.
    """
    for user, table in ruled.items():
        theirs = rows.filter(pc.equal(users, pa.scalar(user)))
        try:
            check_known(table.head, table.target.schema, theirs, str(table.target.scope))
        except ConstraintViolation:
            newest = open_scope(table.target)
            if newest is not None:
                check_known(newest.head, table.target.schema, theirs, str(table.target.scope))
