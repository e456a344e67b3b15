"""Whether an eventual query on one table is fanned out over its partitions: rules, of which the first that fits counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakewarden.base.strategies import QueryStrategy, ServedBy
from lakewarden.sql.queries.answer import AnswerPlan


@dataclass(frozen=True)
class FederationFacts:
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
class FederationRule:
    holds: Callable[[FederationFacts], bool]
    strategy: QueryStrategy
    reason: str = ""
    """Filled in from what was looked at."""


RULES: tuple[FederationRule, ...] = (
    FederationRule(lambda it: not it.partitioned and it.bytes < it.min_bytes, QueryStrategy.UNARY_WAREHOUSE),
    FederationRule(lambda it: not it.partitioned, QueryStrategy.FEDERATED_TO_SINGLE, "the table is not partitioned"),
    FederationRule(
        lambda it: it.bytes < it.min_bytes,
        QueryStrategy.FEDERATED_TO_SINGLE,
        "it reads {it.bytes:,} bytes, fewer than {it.min_bytes:,} (federation.min_bytes)",
    ),
    FederationRule(lambda it: it.partitions < 2, QueryStrategy.FEDERATED_TO_SINGLE, "it reads one partition"),
    FederationRule(
        lambda it: not it.plain, QueryStrategy.FEDERATED_TO_SINGLE, "another writer left deletion vectors or column mapping"
    ),
    FederationRule(lambda it: bool(it.reason), QueryStrategy.FEDERATED_TO_SINGLE, "{it.reason}"),
    FederationRule(lambda it: it.aggregate, QueryStrategy.FEDERATED_AGGREGATE),
    FederationRule(lambda _: True, QueryStrategy.FEDERATED_SCAN),
)


def decided(it: FederationFacts) -> AnswerPlan:
    rule = next(rule for rule in RULES if rule.holds(it))
    return AnswerPlan(rule.strategy, ServedBy.WAREHOUSE, rule.reason.format(it=it))
