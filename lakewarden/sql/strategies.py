"""How statements are carried out, by K3's names and numbers: the strategy of a write or a query, the tiers, the freshness."""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class WireEnum(IntEnum):
    """An enum that goes over the wire by its full name: the class's name in capitals, then the member's."""

    @classmethod
    def _prefix(cls) -> str:
        return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in cls.__name__)[1:]

    @property
    def wire(self) -> str:
        """`WriteStrategy.KEYED_UPDATE` → `WRITE_STRATEGY_KEYED_UPDATE`."""
        return f"{self._prefix()}_{self.name}"

    @classmethod
    def wires(cls) -> dict[str, Self]:
        """Every member, by its full name."""
        return {each.wire: each for each in cls}


class WriteStrategy(WireEnum):
    """How rows are written: `KEYED_…` and `MERGE_…` through the write log, `NON_KEYED_…` straight into Delta."""

    UNSPECIFIED = 0
    """Of no write: a successful one has another."""
    KEYED_INSERT_SINGLE = 1
    KEYED_INSERT_BULK = 2
    KEYED_INSERT_FROM_SELECT = 3
    KEYED_UPDATE = 4
    KEYED_RANGE = 5
    KEYED_FROM_SUBQUERY = 6
    KEYED_DELETE = 7
    KEYED_RANGE_DELETE = 8
    KEYED_DELETE_FROM_SUBQUERY = 9
    NON_KEYED_UPDATE = 10
    NON_KEYED_DELETE = 11
    MERGE_ROWS = 12
    MERGE_QUERY = 13
    MERGE_TABLE = 14
    NON_KEYED_INSERT = 15
    NON_KEYED_INSERT_FROM_SELECT = 16


class QueryStrategy(WireEnum):
    """How a query is carried out: as one, or fanned out over partitions."""

    UNSPECIFIED = 0
    UNARY_WAREHOUSE = 1
    UNARY_MERGED_STRONG = 2
    FEDERATED_AGGREGATE = 3
    FEDERATED_SCAN = 4
    FEDERATED_TO_SINGLE = 5
    """A query that was to be fanned out, and is not worth it or does not decompose."""


class ServedBy(WireEnum):
    """The tiers that answered a query."""

    UNSPECIFIED = 0
    WAREHOUSE = 1
    """Delta alone."""
    MERGED = 2
    """The write log over Delta."""
    OLTP = 3
    """The write log alone."""


class Freshness(WireEnum):
    """The rows that a query sees."""

    UNSPECIFIED = 0
    """As EVENTUAL."""
    EVENTUAL = 1
    """Those in Delta."""
    STRONG = 2
    """Every acknowledged one."""
    OLTP_ONLY = 3
    """Those that are in the write log and not in Delta yet."""
