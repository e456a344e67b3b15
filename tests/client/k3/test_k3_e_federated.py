"""K3.E: queries that are fanned out over partitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import FederationSettings
from lakewarden.base.settings import Settings
from lakewarden.client.k3 import K3
from tests.client.k3.tables import BUCKET, event, make, run


@pytest.fixture(scope="module")
def k3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[K3]:
    """Where every table is large."""
    settings = Settings(federation=FederationSettings(min_bytes=1, part_bytes=1))
    with Lakehouse.open(str(tmp_path_factory.mktemp("warehouse") / "w"), settings=settings) as opened:
        made = opened.k3
        made.create_bucket(BUCKET)
        for name, parted in (("parted", True), ("whole", False)):
            make(made, name, parted=parted)
            made.insert(BUCKET, name, [event(number, f"kind {number % 3}") for number in range(9)])
            made.compact(BUCKET, name)
        yield made


def eventual(k3: K3, sql: str) -> tuple[str, str, list[Any]]:
    """The strategy, its reason, and the rows, which are those of a strong read."""
    answer = run(k3, sql, "FRESHNESS_EVENTUAL")
    assert answer["servedBy"] == "SERVED_BY_WAREHOUSE"
    rows = answer["rows"]
    assert sorted(map(repr, rows)) == sorted(map(repr, run(k3, sql)["rows"]))
    return answer["strategy"].removeprefix("QUERY_STRATEGY_"), answer["strategyReason"], rows


def test_k3_070_an_aggregate_is_computed_by_partition(k3: K3) -> None:
    sql = "SELECT event_type, count(*) AS n, sum(id) AS s, avg(id) AS a FROM parted GROUP BY event_type"
    assert eventual(k3, sql)[:2] == ("FEDERATED_AGGREGATE", "")


def test_k3_071_a_scan_is_concatenated_in_the_right_order(k3: K3) -> None:
    assert eventual(k3, "SELECT id, user_id FROM parted WHERE id > 2")[:2] == ("FEDERATED_SCAN", "")
    strategy, _, rows = eventual(k3, "SELECT id FROM parted ORDER BY id DESC LIMIT 3")
    assert (strategy, rows) == ("FEDERATED_SCAN", [{"id": 8}, {"id": 7}, {"id": 6}])


def test_k3_072_what_is_not_fanned_out_says_why(k3: K3) -> None:
    assert eventual(k3, "SELECT count(*) AS n FROM whole")[:2] == ("FEDERATED_TO_SINGLE", "the table is not partitioned")
    strategy, reason, _ = eventual(k3, "SELECT quantile_cont(id, 0.5) AS q FROM parted")
    assert strategy == "FEDERATED_TO_SINGLE"
    assert reason
