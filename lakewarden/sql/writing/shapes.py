"""The write planner: which of K3's sixteen strategies carries out a statement, and why. The table of shapes decides."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import ClassVar, Literal

from sqlglot import exp

from lakewarden.catalog.model import Table
from lakewarden.errors import Unsupported
from lakewarden.sql.ref import Ref
from lakewarden.sql.results import Rules, WriteStrategy
from lakewarden.sql.results import WriteStrategy as To
from lakewarden.sql.statement import Effect, OnTable

# Finds the columns of one table that an expression depends on, those included that its subqueries take from outside.
ColumnsOf = Callable[[exp.Table], Container[str] | None]
"""The columns, in lower case, of a table that a subquery reads; None where they are not known."""


def columns_in(part: exp.Expr, names: Container[str], columns: Container[str], columns_of: ColumnsOf) -> Iterator[str]:
    """Returns names in lower case. What is not a known column of the table is returned as it is written.

    Args:
        part: an expression that is not part of another one.
        names: those of the table, by which it may be qualified.
        columns: the table's.
    """
    ctes = frozenset(each.alias.lower() for each in part.find_all(exp.CTE))
    for star in part.find_all(exp.Star, exp.Columns):
        if star.find_ancestor(exp.Query) is None and not isinstance(star.parent, exp.Count):
            yield star.sql()
    for column in part.find_all(exp.Column):
        if _is_inner(column, ctes, columns_of):
            continue
        table, name = column.table.lower(), column.name.lower()
        if table and table not in names:  # the field of a column, unless it is unknown
            yield table
        else:
            yield name if name in columns else column.sql()


def _is_inner(column: exp.Column, ctes: Container[str], columns_of: ColumnsOf) -> bool:
    """Whether it is a column of a subquery around it."""
    query = column.find_ancestor(exp.Query)
    while query is not None:
        if any(_has(source, column, ctes, columns_of) for source in _sources(query)):
            return True
        query = query.find_ancestor(exp.Query)
    return False


def _sources(query: exp.Query) -> Iterator[exp.Expr]:
    from_ = query.args.get("from_")
    if from_ is not None:
        yield from_.this
        yield from (join.this for join in from_.this.args.get("joins") or ())
    yield from (join.this for join in query.args.get("joins") or ())
    yield from query.args.get("laterals") or ()


def _has(source: exp.Expr, column: exp.Column, ctes: Container[str], columns_of: ColumnsOf) -> bool:
    """Whether the source has this column, or may have it."""
    if column.table:
        apart = isinstance(source, exp.Table) and source.db and column.args.get("db") and _place(source) != _place(column)
        return source.alias_or_name.lower() == column.table.lower() and not apart
    if not (isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier)):
        return True
    if not source.db and source.name.lower() in ctes:
        return True
    known = columns_of(source)
    return known is None or column.name.lower() in known


def _place(node: exp.Table | exp.Column) -> str:
    """The namespace that it names."""
    return node.text("db").lower()


# Tells what the WHERE of an UPDATE or DELETE says of its table's key (K3-80 to K3-87, K3-94, K3-95).
#
# A condition on key columns alone means the same rows whatever else is in them: its keys can be read first and written later.
# In doubt, a condition is not on the key.

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


# The shapes of statements that write, each with its strategy: data for the planner and for docs/reference/writes.md.
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

    @cached_property
    def plan(self) -> WritePlan:
        """That of a statement whose condition does not count."""
        return WritePlan(self.strategy, self.why, self.warnings)

    @property
    def warnings(self) -> tuple[str, ...]:
        return (NO_BYPASS if self.kind == "keyless" else BYPASS,) if self.warns else ()


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


@dataclass(frozen=True)
class RowWrite(OnTable):
    """A statement that changes rows, as the planner sees it."""

    effect: ClassVar[Effect] = "rows"
    verb: ClassVar[Verb]
    returning: tuple[exp.Expr, ...] = field(default=(), kw_only=True)
    """What it answers with of its rows, beside their number."""

    @property
    def alias(self) -> str | None:
        return None

    @property
    def known_as(self) -> str:
        """The name by which the statement calls its table."""
        return self.alias or self.table.name

    @property
    def form(self) -> Form | None:
        """What its rows come from; None where its WHERE decides."""
        return "any"

    @property
    def condition(self) -> exp.Expr | None:
        """Its WHERE."""
        return None

    def sets(self) -> Iterator[Ref | None]:
        """The tables that it names before the columns that it sets; None where it names none."""
        return iter(())

    @property
    def reads_own_table(self) -> bool:
        return True


@dataclass(frozen=True)
class WritePlan:
    """How a statement is carried out."""

    strategy: WriteStrategy
    why: str
    warnings: tuple[str, ...] = ()

    @cached_property
    def in_log(self) -> bool:
        """Whether the rows go through the write log; else straight into Delta."""
        return not self.strategy.name.startswith("NON_KEYED")


def plan_of(statement: RowWrite, table: Table, rules: Rules, columns_of: ColumnsOf) -> WritePlan:
    """Args:
        rules: those of the session. K3's are for SHARED tables.
        columns_of: what subqueries of the condition read.

    Raises:
        Unsupported: tables of this kind take no such statement.
    """
    kind = kind_of(table)
    form, condition = statement.form, None
    if form is None and kind not in ("keyless", "stream"):
        condition = _condition(statement, table, columns_of)
        form = condition.on_key
    shape = _shape(statement.verb, kind, form or "any", rules if kind == "keyed" else "native")
    if shape is None:
        raise Unsupported(f"{table.name} has no primary key, by which {statement.verb} would find its rows")
    if condition is None:
        return shape.plan
    why = f"{condition.why}: {shape.why}"
    return WritePlan(shape.strategy, why, shape.warnings or ((why,) if condition.partly else ()))


def kind_of(table: Table) -> TableKind:
    """What tells a table's rows apart, and whose they are."""
    if table.schema.append_only:
        return "stream"
    if not table.schema.primary_key:
        return "keyless"
    return "user's" if table.type == "USER" else "keyed"


@cache
def _shape(verb: Verb, kind: TableKind, form: Form, rules: Rules) -> Shape | None:
    kinds = ("user's", "keyed") if kind == "user's" else (kind,)
    fitting = (
        shape
        for shape in SHAPES
        if shape.verb == verb and shape.kind in (*kinds, "any") and shape.form in (form, "any") and shape.rules in (rules, "any")
    )
    return next(fitting, None)


def _condition(statement: RowWrite, table: Table, columns_of: ColumnsOf) -> Condition:
    schema = table.schema
    columns = frozenset(name.lower() for name in schema.names)
    key, names = tuple(name.lower() for name in schema.primary_key), frozenset({statement.known_as.lower()})
    return condition_of(statement.condition, ConditionTarget(key, columns, names), columns_of)
