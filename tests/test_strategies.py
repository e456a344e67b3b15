"""The enums have K3's names and numbers (K3-3, K3-60, K3-66, K3-93)."""

from __future__ import annotations

import pytest

from lakewarden.sql.results import Freshness, QueryStrategy, ServedBy, WireEnum, WriteStrategy

_K3 = {
    WriteStrategy: """
        WRITE_STRATEGY_UNSPECIFIED = 0; WRITE_STRATEGY_KEYED_INSERT_SINGLE = 1; WRITE_STRATEGY_KEYED_INSERT_BULK = 2;
        WRITE_STRATEGY_KEYED_INSERT_FROM_SELECT = 3; WRITE_STRATEGY_KEYED_UPDATE = 4; WRITE_STRATEGY_KEYED_RANGE = 5;
        WRITE_STRATEGY_KEYED_FROM_SUBQUERY = 6; WRITE_STRATEGY_KEYED_DELETE = 7; WRITE_STRATEGY_KEYED_RANGE_DELETE = 8;
        WRITE_STRATEGY_KEYED_DELETE_FROM_SUBQUERY = 9; WRITE_STRATEGY_NON_KEYED_UPDATE = 10;
        WRITE_STRATEGY_NON_KEYED_DELETE = 11; WRITE_STRATEGY_NON_KEYED_INSERT = 15;
        WRITE_STRATEGY_NON_KEYED_INSERT_FROM_SELECT = 16; WRITE_STRATEGY_MERGE_ROWS = 12; WRITE_STRATEGY_MERGE_QUERY = 13;
        WRITE_STRATEGY_MERGE_TABLE = 14""",
    QueryStrategy: """
        QUERY_STRATEGY_UNSPECIFIED = 0; QUERY_STRATEGY_UNARY_WAREHOUSE = 1; QUERY_STRATEGY_UNARY_MERGED_STRONG = 2;
        QUERY_STRATEGY_FEDERATED_AGGREGATE = 3; QUERY_STRATEGY_FEDERATED_SCAN = 4; QUERY_STRATEGY_FEDERATED_TO_SINGLE = 5""",
    ServedBy: "SERVED_BY_UNSPECIFIED = 0; SERVED_BY_WAREHOUSE = 1; SERVED_BY_MERGED = 2; SERVED_BY_OLTP = 3",
    Freshness: "FRESHNESS_UNSPECIFIED = 0; FRESHNESS_EVENTUAL = 1; FRESHNESS_STRONG = 2; FRESHNESS_OLTP_ONLY = 3",
}
"""The enums as the seed of K3 writes them."""


@pytest.mark.parametrize("kind", _K3)
def test_an_enum_has_the_names_and_numbers_of_k3(kind: type[WireEnum]) -> None:
    lines = (line.split(" = ") for line in _K3[kind].split(";"))
    assert {name.strip(): int(number) for name, number in lines} == dict(kind.wires())
