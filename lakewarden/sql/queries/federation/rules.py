"""Whether an eventual query on one table is fanned out over its partitions: rules, of which the first that fits counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakewarden.base.strategies import QueryStrategy, ServedBy
from lakewarden.sql.queries.answer import Answer


@dataclass(frozen=True)
class Looked:
    """What the rules look at: what the query would read, and whether it decomposes."""

    partitioned: bool
    plain: bool
    partitions: int
    bytes: int
    min_bytes: int
    reason: str
    """Why it does not decompose; empty where it does."""
    aggregate: bool


@dataclass(frozen=True)
class Rule:
    holds: Callable[[Looked], bool]
    strategy: QueryStrategy
    reason: str = ""
    """Filled in from what was looked at."""


RULES: tuple[Rule, ...] = (
    Rule(lambda it: not it.partitioned and it.bytes < it.min_bytes, QueryStrategy.UNARY_WAREHOUSE),
    Rule(lambda it: not it.partitioned, QueryStrategy.FEDERATED_TO_SINGLE, "the table is not partitioned"),
    Rule(
        lambda it: it.bytes < it.min_bytes,
        QueryStrategy.FEDERATED_TO_SINGLE,
        "it reads {it.bytes:,} bytes, fewer than {it.min_bytes:,} (federation.min_bytes)",
    ),
    Rule(lambda it: it.partitions < 2, QueryStrategy.FEDERATED_TO_SINGLE, "it reads one partition"),
    Rule(lambda it: not it.plain, QueryStrategy.FEDERATED_TO_SINGLE, "another writer left deletion vectors or column mapping"),
    Rule(lambda it: bool(it.reason), QueryStrategy.FEDERATED_TO_SINGLE, "{it.reason}"),
    Rule(lambda it: it.aggregate, QueryStrategy.FEDERATED_AGGREGATE),
    Rule(lambda _: True, QueryStrategy.FEDERATED_SCAN),
)


def decided(it: Looked) -> Answer:
    rule = next(rule for rule in RULES if rule.holds(it))
    return Answer(rule.strategy, ServedBy.WAREHOUSE, rule.reason.format(it=it))
