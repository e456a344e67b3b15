"""The shapes of statements that write, each with its strategy: data for the planner and for docs/reference/writes.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lakewarden.base.strategies import WriteStrategy as To
from lakewarden.sql.shapes.condition import OnKey

Rules = Literal["native", "k3"]
"""Whose rules a session follows: those of Lakewarden's SQL, or those of K3's calls (k3.md)."""

TableKind = Literal["keyed", "user's", "keyless", "stream"]
"""SHARED tables with a primary key; USER tables, which have one too; SHARED tables without one; STREAM tables."""

Verb = Literal["INSERT", "INSERT OVERWRITE", "UPDATE", "DELETE", "TRUNCATE", "MERGE"]
Form = Literal["one row", "rows", "query", "table", "any"] | OnKey
"""What rows come from, or what the WHERE says of the key."""

_PAST = "this went straight into Delta, past the write log"
BYPASS = (
    f"{_PAST}: rows that wait in the log for the same keys will replace what it wrote."
    " To be safe, flush the table first (K3: Compact)"
)
"""The warning of K3-96."""
NO_BYPASS = f"{_PAST}, in which a table without a primary key has no rows"
"""The same where nothing can wait (K3-86)."""

_LOG = "through the write log, by key"
_EACH = "the keys are read, then written in one call through the write log"
_DELTA = "straight into Delta"
_NO_KEY = "the table has no primary key: straight into Delta"
_SCOPE = "the rows of the session's user are read, then replaced in one call through the write log"
_STREAM = "the rows of a STREAM table are in the write log alone"


@dataclass(frozen=True)
class Shape:
    """Statements of one shape, and how they are carried out. The first shape that fits counts."""

    verb: Verb
    kind: TableKind | Literal["any"]
    """A keyed one is of USER tables too, where they have none of their own."""
    form: Form
    strategy: To
    why: str
    rules: Rules | Literal["any"] = "any"
    """Whose rules it follows."""
    warns: bool = False
    """Whether rows that wait in the log may undo it (K3-96)."""


SHAPES: tuple[Shape, ...] = (
    Shape("INSERT", "keyed", "one row", To.KEYED_INSERT_SINGLE, _LOG),
    Shape("INSERT", "keyed", "rows", To.KEYED_INSERT_BULK, _LOG),
    Shape("INSERT", "keyed", "query", To.KEYED_INSERT_FROM_SELECT, f"the query's rows are computed, then go {_LOG}"),
    Shape("INSERT", "stream", "one row", To.KEYED_INSERT_SINGLE, _STREAM),
    Shape("INSERT", "stream", "rows", To.KEYED_INSERT_BULK, _STREAM),
    Shape("INSERT", "stream", "query", To.KEYED_INSERT_FROM_SELECT, _STREAM),
    Shape("INSERT", "keyless", "query", To.NON_KEYED_INSERT_FROM_SELECT, _NO_KEY),
    Shape("INSERT", "keyless", "any", To.NON_KEYED_INSERT, _NO_KEY),
    Shape("INSERT OVERWRITE", "user's", "query", To.KEYED_INSERT_FROM_SELECT, _SCOPE),
    Shape("INSERT OVERWRITE", "user's", "any", To.KEYED_INSERT_BULK, _SCOPE),
    Shape("INSERT OVERWRITE", "any", "query", To.NON_KEYED_INSERT_FROM_SELECT, f"what waits is flushed, then {_DELTA}"),
    Shape("INSERT OVERWRITE", "any", "any", To.NON_KEYED_INSERT, f"what waits is flushed, then {_DELTA}"),
    Shape("UPDATE", "keyed", "one key", To.KEYED_UPDATE, _LOG),
    Shape("UPDATE", "keyed", "keys", To.KEYED_RANGE, _EACH),
    Shape("UPDATE", "keyed", "keys of a query", To.KEYED_FROM_SUBQUERY, _EACH),
    Shape("UPDATE", "keyed", "other columns", To.KEYED_RANGE, _EACH, rules="native"),
    Shape("UPDATE", "keyed", "other columns", To.NON_KEYED_UPDATE, _DELTA, rules="k3", warns=True),
    Shape("UPDATE", "keyless", "any", To.NON_KEYED_UPDATE, _NO_KEY, warns=True),
    Shape("DELETE", "keyed", "one key", To.KEYED_DELETE, _LOG),
    Shape("DELETE", "keyed", "keys", To.KEYED_RANGE_DELETE, _EACH),
    Shape("DELETE", "keyed", "keys of a query", To.KEYED_DELETE_FROM_SUBQUERY, _EACH),
    Shape("DELETE", "keyed", "other columns", To.KEYED_RANGE_DELETE, _EACH, rules="native"),
    Shape("DELETE", "keyed", "other columns", To.NON_KEYED_DELETE, _DELTA, rules="k3", warns=True),
    Shape("DELETE", "keyless", "any", To.NON_KEYED_DELETE, _NO_KEY, warns=True),
    Shape("DELETE", "stream", "any", To.KEYED_RANGE_DELETE, _STREAM),
    Shape("TRUNCATE", "user's", "any", To.KEYED_RANGE_DELETE, _SCOPE),
    Shape("TRUNCATE", "any", "any", To.NON_KEYED_DELETE, f"what waits is flushed, then {_DELTA}"),
    Shape("MERGE", "keyed", "rows", To.MERGE_ROWS, _LOG),
    Shape("MERGE", "keyed", "query", To.MERGE_QUERY, _LOG),
    Shape("MERGE", "keyed", "table", To.MERGE_TABLE, _LOG),
)
