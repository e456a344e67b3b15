"""What other programs ask of the rows of a table: Delta's CHECK constraints, invariants and generated columns.

A commit that adds rows is refused unless each rule is understood and each of its rows keeps it (`ScopeTable.commit`). As in
Spark, a rule is kept only where it is true: NULL does not keep it.

Sources: Delta's protocol, "CHECK Constraints", "Column Invariants" and "Generated Columns"; Delta's `CheckDeltaInvariant`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.model import TableSchema
from lakewarden.delta.parquet.schema import rows_schema
from lakewarden.errors import ConstraintViolation, Unsupported

if TYPE_CHECKING:
    from lakewarden.catalog.target import ScopeTarget
    from lakewarden.delta.commit_log.actions import TableHead
    from lakewarden.delta.row_condition import Holds

_CONSTRAINT = "delta.constraints."
_INVARIANT, _GENERATED = "delta.invariants", "delta.generationExpression"


@dataclass(frozen=True)
class RowRule:
    """One of them. `what` names it for people, as `the CHECK constraint positive`; `text` is its condition."""

    what: str
    text: str
    is_condition: bool = True


def rules_of(head: TableHead) -> tuple[RowRule, ...]:
    """The rules of a table, in the order of their names."""
    checks = [name for name in sorted(head.configuration) if name.startswith(_CONSTRAINT)]
    named = [RowRule(f"the CHECK constraint {name.removeprefix(_CONSTRAINT)}", head.configuration[name]) for name in checks]
    return (*named, *_of_columns(head.schema))


@lru_cache(maxsize=1024)
def _of_columns(schema_json: str) -> tuple[RowRule, ...]:
    if _INVARIANT not in schema_json and _GENERATED not in schema_json:
        return ()
    found = []
    for field in json.loads(schema_json)["fields"]:
        metadata = field.get("metadata") or {}
        if _INVARIANT in metadata:
            found.append(RowRule(f"the invariant of column {field['name']}", _invariant(metadata[_INVARIANT])))
        if _GENERATED in metadata:
            found.append(RowRule(f"the generated column {field['name']}", str(metadata[_GENERATED]), is_condition=False))
    return tuple(found)


def _invariant(text: object) -> str:
    try:
        return str(json.loads(str(text))["expression"]["expression"])
    except (ValueError, KeyError, TypeError):
        return str(text)


def _condition(rule: RowRule, schema: TableSchema) -> Holds | None:
    from lakewarden.delta.row_condition import condition_of  # the parser: not for tables without rules

    return condition_of(rule.text, rows_schema(schema)) if rule.is_condition else None


def check_understood(rules: Iterable[RowRule], schema: TableSchema, where: str) -> list[tuple[RowRule, Holds]]:
    """Call this before rows are written for a table with these rules. Returns the condition of each.

    Raises:
        Unsupported: one cannot be evaluated here.
    """
    conditions = []
    for rule in rules:
        holds = _condition(rule, schema)
        if holds is None:
            raise Unsupported(
                f"{where} has {rule.what} ({rule.text}) of another writer, which is not evaluated here: comparisons of a column"
                " with a literal, IS NULL, AND and OR are. No row is added until that writer drops it; rows in the log stay there"
            )
        conditions.append((rule, holds))
    return conditions


def check_known(head: TableHead, schema: TableSchema, rows: pa.Table, where: str) -> None:
    """As `check_rows`, by the rules that are understood: of the others, an acknowledged write decides nothing.

    Raises:
        ConstraintViolation: a row does not keep a rule.
    """
    for rule in rules_of(head):
        holds = _condition(rule, schema)
        if holds is not None:
            _check(rule, holds, rows, where)


def check_rows(rules: Sequence[RowRule], schema: TableSchema, parts: Iterable[pa.Table], where: str) -> None:
    """
    Args:
        parts: rows with the columns of `schema`.

    Raises:
        Unsupported: as `check_understood`.
        ConstraintViolation: a row does not keep a rule.
    """
    conditions = check_understood(rules, schema, where)
    for part in parts:
        for rule, holds in conditions:
            _check(rule, holds, part, where)


def _check(rule: RowRule, holds: Holds, rows: pa.Table, where: str) -> None:
    broken = rows.num_rows - (pc.sum(pc.fill_null(holds(rows), False)).as_py() or 0)
    if broken:
        raise ConstraintViolation(f"{broken} rows for {where} do not keep {rule.what} of another writer: {rule.text}")


# Of which scopes this process has seen that they have rules.


@dataclass(frozen=True)
class RuledTable:
    """A scope's table with rules, as it was opened last in this process."""

    target: ScopeTarget
    head: TableHead


class KnownRules:
    """What was seen of the tables that were opened, for writes, which open none; safe for threads."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._found: dict[str, dict[str, RuledTable]] = {}
        self._lock = Lock()

    def of(self, log_id: str) -> Mapping[str, RuledTable]:
        """Those of a table's scopes by user, empty text for a SHARED table's."""
        return self._found.get(log_id, {}) if self._found else {}

    def see(self, target: ScopeTarget, head: TableHead, *, has: bool) -> None:
        """Call this where a scope's newest table was opened. `has`: whether it has rules."""
        if not (has or self._found):
            return
        log_id, user = target.log_id, target.scope.user or ""
        with self._lock:
            of_table = {name: each for name, each in self._found.get(log_id, {}).items() if name != user}
            if has and sum(map(len, self._found.values())) < self._most:
                of_table[user] = RuledTable(target, head)
            self._found = {name: each for name, each in self._found.items() if name != log_id}
            if of_table:
                self._found[log_id] = of_table


KNOWN_RULES = KnownRules()
