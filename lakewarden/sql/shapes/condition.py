"""Tells what the WHERE of an UPDATE or DELETE says of its table's key (K3-80 to K3-87, K3-94, K3-95).

A condition on key columns alone means the same rows whatever else is in them: its keys can be read first and written later. In
doubt, a condition is not on the key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from lakewarden.sql.shapes.columns import ColumnsOf, columns_in

OnKey = Literal["one key", "keys", "keys of a query", "other columns"]

_CONSTANT = (exp.Literal, exp.Neg, exp.Boolean, exp.Cast, exp.DataType, exp.DataTypeParam, exp.Paren)
_SHOWN = 60


@dataclass(frozen=True)
class ConditionTarget:
    """The table that is written to: its key and columns, and the names by which a condition may qualify them, in lower case."""

    key: tuple[str, ...]
    columns: frozenset[str]
    names: frozenset[str]


@dataclass(frozen=True)
class Condition:
    """What a WHERE says of the key, and why that is so."""

    on_key: OnKey
    why: str
    partly: bool = False
    """Whether it is on key columns alone, but not on all of them."""


def condition_of(where: exp.Expr | None, target: ConditionTarget, columns_of: ColumnsOf) -> Condition:
    """`where` is None where the statement has none; `target` has a key."""
    key = ", ".join(target.key)
    if where is None:
        return Condition("other columns", "it has no WHERE")
    parts = list(_parts(where.copy()))
    found = [frozenset(columns_in(part, target.names, target.columns, columns_of)) for part in parts]
    for part, columns in zip(parts, found, strict=True):
        strange = sorted(columns - frozenset(target.key))
        if strange:
            return Condition("other columns", f"{_shown(part)} is on {strange[0]}, which is not in the key ({key})")
        if not columns:
            return Condition("other columns", f"{_shown(part)} is on no column of the key ({key})")
    if not parts:
        return Condition("other columns", "its WHERE is true of every row")
    if any(_takes_whole_keys(part, target) for part in parts):
        return Condition("keys of a query", f"its WHERE takes whole keys ({key}) from a query")
    if all(_pins(part) for part in parts) and frozenset().union(*found) == frozenset(target.key):
        return Condition("one key", f"its WHERE gives one value to each column of the key ({key})")
    named = [name for name in target.key if any(name in columns for columns in found)]
    partly = len(named) < len(target.key)
    only = f"on {', '.join(named)} of the key ({key}) and nothing else" if partly else f"on the key ({key}) and nothing else"
    return Condition("keys", f"its WHERE is {only}", partly)


def _parts(where: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions that all have to hold, without those that always do; a comparison of tuples is one of each pair."""
    node = where.unnest()
    if isinstance(node, exp.And):
        for side in (node.this, node.expression):
            yield from _parts(side)
    elif isinstance(node, exp.EQ) and (pairs := _pairs(node)):
        for pair in pairs:
            yield from _parts(pair)
    elif not (isinstance(node, exp.Boolean) and node.this):
        yield node


def _pairs(node: exp.EQ) -> list[exp.EQ]:
    """`(a, b) = (1, 2)` → `a = 1`, `b = 2`."""
    left, right = node.this.unnest(), node.expression.unnest()
    if not (isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple) and len(left.expressions) == len(right.expressions)):
        return []
    return [exp.EQ(this=one, expression=other) for one, other in zip(left.expressions, right.expressions, strict=True)]


def _pins(part: exp.Expr) -> bool:
    """`column = constant`, either way round."""
    if not isinstance(part, exp.EQ):
        return False
    one, other = part.this.unnest(), part.expression.unnest()
    column, value = (one, other) if isinstance(one, exp.Column) else (other, one)
    return isinstance(column, exp.Column) and all(isinstance(node, _CONSTANT) for node in value.walk())


def _takes_whole_keys(part: exp.Expr, target: ConditionTarget) -> bool:
    """`(a, b) IN (SELECT …)` with all columns of the key."""
    if not isinstance(part, exp.In) or part.args.get("query") is None:
        return False
    left = part.this.unnest()
    columns = left.expressions if isinstance(left, exp.Tuple) else [left]
    names = [each.name.lower() for each in columns if isinstance(each, exp.Column)]
    return len(names) == len(columns) and sorted(names) == sorted(target.key)


def _shown(part: exp.Expr) -> str:
    text = part.sql("duckdb")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
