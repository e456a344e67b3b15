"""How a query on one large table is carried out, and which tiers answer it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakewarden.catalog.model import Table
from lakewarden.sql.context import Context
from lakewarden.sql.relations import Relation
from lakewarden.sql.results import QueryStrategy, ResultRows, ServedBy
from lakewarden.tables.freshness import Freshness

if TYPE_CHECKING:
    from lakewarden.tables.partitions import Apart


@dataclass(frozen=True)
class AnswerPlan:
    """How a query is carried out, which tiers answer it, and why, where that is not what was requested."""

    strategy: QueryStrategy
    served_by: ServedBy
    reason: str = ""

    def shown(self, rows: ResultRows) -> ResultRows:
        """The rows that were answered so."""
        return replace(rows, strategy=self.strategy, served_by=self.served_by, strategy_reason=self.reason)


_OF_PAST = AnswerPlan(QueryStrategy.UNARY_WAREHOUSE, ServedBy.WAREHOUSE, "a version of the past is in Delta alone")
_ANSWERS: Mapping[Freshness, AnswerPlan] = {
    "oltp_only": AnswerPlan(QueryStrategy.UNSPECIFIED, ServedBy.OLTP, "write-log scan"),  # K3 has no name for it (K3-69)
    "strong": AnswerPlan(QueryStrategy.UNARY_MERGED_STRONG, ServedBy.MERGED),
    "eventual": AnswerPlan(QueryStrategy.UNARY_WAREHOUSE, ServedBy.WAREHOUSE),
}
"""Strong queries are never fanned out (K3-68). Whether eventual ones are is for `decided`."""


def answer_of(context: Context, relations: Collection[Relation]) -> AnswerPlan | None:
    """Returns how the query is answered; by Lakewarden's own rules, None unless it is on one large table."""
    if context.rules == "native" and not _is_large(context, relations):
        return None
    past = context.freshness != "eventual" and any(relation.as_of is not None for relation in relations)
    return _OF_PAST if past else _ANSWERS[context.freshness]


def several_tables(number: int) -> AnswerPlan:
    """Of a query that joins a partitioned table with others."""
    return AnswerPlan(QueryStrategy.FEDERATED_TO_SINGLE, ServedBy.WAREHOUSE, f"it reads {number} tables")


def _is_large(context: Context, relations: Collection[Relation]) -> bool:
    """Whether the query reads one SHARED table, once, that has partitions or no key."""
    if len(relations) != 1:
        return False
    table = context.readable.get(next(iter(relations)).table)
    return isinstance(table, Table) and table.type == "SHARED" and bool(table.schema.partition_by or not table.schema.keyed)


# Whether an eventual query on one table is fanned out over its partitions: rules, of which the first that fits counts.
@dataclass(frozen=True)
class FederationFacts:
    """What the rules look at: what the query would read, and whether it decomposes."""

    apart: Apart
    min_bytes: int
    reason: str = ""
    """Why it does not decompose; empty where it does."""
    aggregate: bool = False


@dataclass(frozen=True)
class FederationRule:
    holds: Callable[[FederationFacts], bool]
    strategy: QueryStrategy
    reason: str = ""
    """Filled in from what was looked at."""


FEDERATION_RULES: tuple[FederationRule, ...] = (
    FederationRule(lambda it: not it.apart.partitioned and it.apart.bytes < it.min_bytes, QueryStrategy.UNARY_WAREHOUSE),
    FederationRule(lambda it: not it.apart.partitioned, QueryStrategy.FEDERATED_TO_SINGLE, "the table is not partitioned"),
    FederationRule(
        lambda it: it.apart.bytes < it.min_bytes,
        QueryStrategy.FEDERATED_TO_SINGLE,
        "it reads {it.apart.bytes:,} bytes, fewer than {it.min_bytes:,} (federation.min_bytes)",
    ),
    FederationRule(lambda it: it.apart.partitions < 2, QueryStrategy.FEDERATED_TO_SINGLE, "it reads one partition"),
    FederationRule(
        lambda it: not it.apart.plain, QueryStrategy.FEDERATED_TO_SINGLE, "another writer left deletion vectors or column mapping"
    ),
    FederationRule(lambda it: bool(it.reason), QueryStrategy.FEDERATED_TO_SINGLE, "{it.reason}"),
    FederationRule(lambda it: it.aggregate, QueryStrategy.FEDERATED_AGGREGATE),
    FederationRule(lambda _: True, QueryStrategy.FEDERATED_SCAN),
)


def decided(it: FederationFacts) -> AnswerPlan:
    rule = next(rule for rule in FEDERATION_RULES if rule.holds(it))
    return AnswerPlan(rule.strategy, ServedBy.WAREHOUSE, rule.reason.format(it=it))
