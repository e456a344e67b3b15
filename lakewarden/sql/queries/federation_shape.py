"""Whether a query can be computed partition by partition: rules, the first that holds says why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlglot import exp

_AGGREGATES = frozenset(
    word
    for line in (
        "any_value arbitrary arg_max_null arg_max_nulls_last arg_min_null arg_min_nulls_last bitstring_agg combine_aggr",
        "count_star decimal_average entropy favg fsum histogram histogram_exact kahan_sum kurtosis_pop list lttb mad mean",
        "product reservoir_quantile sem sum_no_overflow sumkahan variant_group_object",
    )
    for word in line.split()
)
"""DuckDB's aggregates that sqlglot does not know as such."""

_DECOMPOSED = (exp.Count, exp.Sum, exp.Min, exp.Max, exp.Avg, exp.LogicalAnd, exp.LogicalOr)
_CLAUSES = {
    "with_": "it has a WITH",
    "joins": "it joins tables",
    "laterals": "it has a lateral join",
    "distinct": "its DISTINCT compares rows of all partitions",
    "windows": "a window spans partitions",
    "qualify": "a window spans partitions",
    "sample": "a sample is of the whole table",
    "pivots": "a pivot needs all rows",
}


@dataclass(frozen=True)
class ShapeRule:
    """A reason against, and what shows it."""

    holds: Callable[[exp.Select], object]
    reason: str


def is_aggregate(node: exp.Expr) -> bool:
    """Whether the node is a call of an aggregate function."""
    if isinstance(node, (exp.AggFunc, exp.IgnoreNulls, exp.RespectNulls, exp.List)):
        return True
    return isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc)) and str(node.this).lower() in _AGGREGATES


def aggregates(node: exp.Expr) -> Iterator[exp.Expr]:
    """The outermost aggregates in a tree; one with a FILTER is the filter."""
    if isinstance(node, exp.Filter) or is_aggregate(node):
        yield node
        return
    for child in node.iter_expressions():
        yield from aggregates(child)


def aggregates_rows(select: exp.Select) -> bool:
    """Whether the query has one row for a group of rows."""
    parts = (*select.expressions, select.args.get("having"), select.args.get("order"))
    return bool(select.args.get("group")) or any(next(aggregates(part), None) for part in parts if part is not None)


def reason_against(query: exp.Query) -> str:
    """Why the query does not decompose; empty where it does."""
    if not isinstance(query, exp.Select):
        return "it is not one SELECT"
    return next((rule.reason for rule in _RULES if rule.holds(query)), "")


def _from_one_table(select: exp.Select) -> bool:
    source = select.args.get("from_")
    table = source.this if isinstance(source, exp.From) else None
    known = ("this", "db", "catalog", "alias")
    return isinstance(table, exp.Table) and not any(value for name, value in table.args.items() if name not in known)


def _inner(select: exp.Select) -> exp.Expr | None:
    return next((node for node in select.find_all(exp.Query, exp.Subquery) if node is not select), None)


def _other_aggregate(select: exp.Select) -> bool:
    for node in aggregates(select):
        call = node.this if isinstance(node, exp.Filter) else node
        one = not call.args.get("expressions") and not isinstance(call.this, (exp.Distinct, exp.Order, exp.HavingMax, exp.Limit))
        plain = type(call) in _DECOMPOSED and one
        if not plain or any(is_aggregate(inner) for inner in call.walk() if inner is not call):
            return True
    return False


def _groups_in_sets(select: exp.Select) -> bool:
    group = select.args.get("group")
    return group is not None and group.find(exp.GroupingSets, exp.Cube, exp.Rollup) is not None


def _moving_end(select: exp.Select) -> bool:
    """A LIMIT or OFFSET that is not a number, or one in percent."""
    ends = [select.args[name] for name in ("limit", "offset") if select.args.get(name)]
    plain = (isinstance(end, (exp.Limit, exp.Offset)) and not end.args.get("limit_options") for end in ends)
    return not all(plain) or any(not (isinstance(end.expression, exp.Literal) and end.expression.is_int) for end in ends)


_RULES: tuple[ShapeRule, ...] = (
    *(ShapeRule(lambda select, name=name: select.args.get(name), reason) for name, reason in _CLAUSES.items()),  # type: ignore[misc]
    ShapeRule(_inner, "it has a subquery"),
    ShapeRule(lambda select: not _from_one_table(select), "it reads more than one table"),
    ShapeRule(lambda select: select.find(exp.Window), "a window spans partitions"),
    ShapeRule(_other_aggregate, "an aggregate does not come from those of partitions"),
    ShapeRule(_groups_in_sets, "it groups by several sets"),
    ShapeRule(lambda select: select.find(exp.Collate), "it sorts or compares by a collation"),
    ShapeRule(_moving_end, "its LIMIT is not a number"),
    ShapeRule(lambda select: select.find(exp.Explode, exp.Unnest), "it unnests rows"),
    ShapeRule(lambda select: select.find(exp.Columns), "COLUMNS(…) names columns by a pattern"),
)
