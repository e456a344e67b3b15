"""K3.E: two tiers, and how they are read."""

from __future__ import annotations

from typing import Any, cast

import pytest

from lakewarden import Lakehouse
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.report import ScopeReport
from lakewarden.client.k3 import K3
from lakewarden.client.k3.messages import QueryAnswer
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.maintenance.flush.due import Only
from lakewarden.maintenance.flush.run import flush_scopes
from lakewarden.maintenance.flush_task import FlushTask
from lakewarden.sql.results import Freshness, QueryStrategy, ServedBy
from lakewarden.tables.fanout import Run, in_process
from tests.client.k3.tables import BUCKET, event, kinds, make, run, version

WAREHOUSE = ("QUERY_STRATEGY_UNARY_WAREHOUSE", "SERVED_BY_WAREHOUSE", "")


def how(k3: K3, sql: str, freshness: str) -> tuple[str, str, str]:
    answer = run(k3, sql, f"FRESHNESS_{freshness}")
    return str(answer["strategy"]), str(answer["servedBy"]), str(answer["strategyReason"])


@pytest.fixture(scope="module")
def table(k3: K3) -> str:
    """Two drained rows; then one of them is deleted, the other updated, and a third added, all pending."""
    make(k3, "tiers")
    k3.insert(BUCKET, "tiers", [event(1, "drained"), event(2, "drained")])
    k3.compact(BUCKET, "tiers")
    k3.delete_rows(BUCKET, "tiers", "id = 1 AND user_id = 'u'")
    k3.update(BUCKET, "tiers", {"event_type": "hot"}, "id = 2 AND user_id = 'u'")
    k3.insert(BUCKET, "tiers", [event(3, "hot")])
    return "tiers"


def test_k3_057_a_keyed_write_is_in_the_log_and_not_in_delta(k3: K3, lake: Lakehouse) -> None:
    make(k3, "logged")
    answer = k3.insert(BUCKET, "logged", [event(1)])
    assert (answer["pendingDrain"], answer["version"], version(k3, "logged")) == (True, "0", 0)
    assert [(str(one.table), one.rows) for one in lake.pending() if one.table.name == "logged"] == [(f"{BUCKET}.logged", 1)]


def test_k3_058_a_drain_is_one_commit_and_empties_the_log(k3: K3, lake: Lakehouse) -> None:
    make(k3, "drained")
    for number in range(3):
        k3.insert(BUCKET, "drained", [event(number)])
    lake.flush(f"{BUCKET}.drained")
    assert version(k3, "drained") == 1
    assert kinds(k3, "drained", "EVENTUAL") == dict.fromkeys(range(3), "click")
    assert kinds(k3, "drained", "OLTP_ONLY") == {}


def test_k3_059_maintenance_leaves_the_log_alone(k3: K3) -> None:
    make(k3, "kept")
    for number in range(3):
        k3.insert(BUCKET, "kept", [event(number)])
        k3.compact(BUCKET, "kept")
    k3.insert(BUCKET, "kept", [event(9, "pending")])
    k3.optimize(BUCKET, "kept")
    k3.vacuum(BUCKET, "kept")
    k3.history(BUCKET, "kept")
    assert kinds(k3, "kept", "OLTP_ONLY") == {9: "pending"}


def test_k3_060_freshness_is_eventual_unless_it_is_said(k3: K3, table: str) -> None:
    assert {each.name: each.value for each in Freshness} == {"UNSPECIFIED": 0, "EVENTUAL": 1, "STRONG": 2, "OLTP_ONLY": 3}
    sql = f"SELECT count(*) AS n FROM {table}"
    answers = [k3.execute(BUCKET, sql), *(k3.execute(BUCKET, sql, freshness=f) for f in ("FRESHNESS_UNSPECIFIED", 0, 1))]
    assert all(answer == k3.execute(BUCKET, sql, freshness="FRESHNESS_EVENTUAL") for answer in answers)
    with pytest.raises(InvalidArgument, match="FRESHNESS_STRONG"):
        k3.execute(BUCKET, sql, freshness="FRESH")


def test_k3_061_eventual_is_delta_alone(k3: K3, table: str) -> None:
    assert kinds(k3, table, "EVENTUAL") == {1: "drained", 2: "drained"}


def test_k3_062_strong_reads_what_was_written(k3: K3, table: str) -> None:
    assert kinds(k3, table, "STRONG") == {2: "hot", 3: "hot"}


def test_k3_063_oltp_only_is_the_log_alone(k3: K3, table: str) -> None:
    assert kinds(k3, table, "OLTP_ONLY") == {2: "hot", 3: "hot"}
    make(k3, "two_tiers")
    k3.insert(BUCKET, "two_tiers", [event(1)])
    k3.compact(BUCKET, "two_tiers")
    k3.insert(BUCKET, "two_tiers", [event(2)])
    assert kinds(k3, "two_tiers", "OLTP_ONLY") == {2: "click"}


def test_k3_064_strong_hides_what_was_deleted_and_has_one_row_a_key(k3: K3, table: str) -> None:
    assert kinds(k3, table, "EVENTUAL").keys() >= {1, 2}
    assert kinds(k3, table, "STRONG") == {2: "hot", 3: "hot"}


@pytest.mark.slow
def test_k3_065_strong_has_each_row_once_while_a_drain_commits(lake: Lakehouse) -> None:
    k3 = lake.k3
    make(k3, "draining")
    k3.insert(BUCKET, "draining", [event(1, "old")])
    k3.compact(BUCKET, "draining")
    k3.insert(BUCKET, "draining", [event(1, "new"), event(2, "new")])
    seen: list[dict[int, str]] = []

    def look(_step: str) -> None:
        seen.append(kinds(k3, "draining"))

    run_all: Run = lambda work, items: in_process(work, items, lambda _: None)  # noqa: E731
    scope = Scope(TableName(BUCKET, "draining"))
    flush_scopes(lake.warehouse, run_all, _too_large, Only({scope}), reach=look)
    look("after")
    assert len(seen) > 3
    assert seen == [{1: "new", 2: "new"}] * len(seen)


def _too_large(task: FlushTask) -> ScopeReport:
    raise AssertionError(f"{task.target.scope} is small")


def test_k3_066_the_enums_have_k3s_numbers() -> None:
    strategies = ("UNSPECIFIED", "UNARY_WAREHOUSE", "UNARY_MERGED_STRONG", "FEDERATED_AGGREGATE", "FEDERATED_SCAN")
    assert [each.name for each in QueryStrategy] == [*strategies, "FEDERATED_TO_SINGLE"]
    assert [each.name for each in ServedBy] == ["UNSPECIFIED", "WAREHOUSE", "MERGED", "OLTP"]
    assert [[each.value for each in kind] for kind in (QueryStrategy, ServedBy)] == [list(range(6)), list(range(4))]


def test_k3_067_eventual_is_one_scan_of_the_warehouse(k3: K3, table: str) -> None:
    assert how(k3, f"SELECT * FROM {table}", "EVENTUAL") == WAREHOUSE


def test_k3_068_strong_is_never_fanned_out(k3: K3, table: str) -> None:
    strong = ("QUERY_STRATEGY_UNARY_MERGED_STRONG", "SERVED_BY_MERGED", "")
    assert how(k3, f"SELECT * FROM {table}", "STRONG") == strong
    make(k3, "strong_parted", parted=True)
    k3.insert(BUCKET, "strong_parted", [event(1, "a"), event(2, "b")])
    assert how(k3, "SELECT event_type, count(*) FROM strong_parted GROUP BY 1", "STRONG") == strong


def test_k3_069_the_log_alone_has_no_strategy_and_says_so(k3: K3, table: str) -> None:
    oltp = ("QUERY_STRATEGY_UNSPECIFIED", "SERVED_BY_OLTP", "write-log scan")
    assert how(k3, f"SELECT * FROM {table}", "OLTP_ONLY") == oltp


def test_k3_073_every_read_says_how_it_was_answered(k3: K3, table: str) -> None:
    for sql in (f"SELECT 1 FROM {table} a, {table} b", "SELECT 1", f"WITH x AS (FROM {table}) SELECT count(*) FROM x"):
        assert how(k3, sql, "EVENTUAL") == WAREHOUSE


def test_k3_074_strong_on_a_table_without_keys_works(k3: K3) -> None:
    make(k3, "keyless", keyed=False)
    k3.insert(BUCKET, "keyless", [event(1)])
    assert kinds(k3, "keyless", "STRONG") == {1: "click"}
    assert how(k3, "SELECT * FROM keyless", "STRONG")[1] == "SERVED_BY_MERGED"
    assert kinds(k3, "keyless", "OLTP_ONLY") == {}


def test_k3_075_a_write_ignores_freshness(k3: K3) -> None:
    make(k3, "fresh_writes")
    k3.insert(BUCKET, "fresh_writes", [event(1, "hot")])
    answer = run(k3, "UPDATE fresh_writes SET event_type = 'x' WHERE id > 0", "FRESHNESS_EVENTUAL")
    assert answer["rowsWritten"] == "1"
    run(k3, "INSERT INTO fresh_writes SELECT id + 1, user_id, event_type, NULL FROM fresh_writes", "FRESHNESS_EVENTUAL")
    assert kinds(k3, "fresh_writes") == {1: "x", 2: "x"}


def test_k3_076_one_statement_with_a_limit_and_a_placeholder(k3: K3, table: str) -> None:
    def rows(sql: str, **named: Any) -> Any:
        return cast("QueryAnswer", k3.execute(BUCKET, sql, **named))["rows"]

    assert len(rows("SELECT * FROM range(20000)")) == 10_000
    assert rows("SELECT range AS n FROM range(9) ORDER BY n DESC", limit="2") == [{"n": 8}, {"n": 7}]
    assert rows("SELECT range AS n FROM range(9) ORDER BY n LIMIT 5", limit=1) == [{"n": 0}]
    counted = rows("SELECT count(*) AS n FROM {table}", table=table)
    assert counted == [{"n": 2}]
    joined = "SELECT count(*) AS n FROM {table} a JOIN users USING (id) WHERE users.event_type = 'drained'"
    assert rows(joined, table=table, lookup_tables={"users": table}) == [{"n": 2}]
    with pytest.raises(InvalidArgument, match=r"\{table\}"):
        k3.execute(BUCKET, "SELECT * FROM {table}")
    with pytest.raises(InvalidArgument, match="one statement, and this text has 2"):
        k3.execute(BUCKET, "SELECT 1; SELECT 2")
    with pytest.raises(Unsupported, match="SHOW TABLES"):
        k3.execute(BUCKET, "SHOW TABLES")
    for transaction in ("BEGIN", "COMMIT"):
        with pytest.raises(Unsupported, match=transaction):
            k3.execute(BUCKET, transaction)
    with pytest.raises(InvalidArgument, match="limit 'many'"):
        k3.execute(BUCKET, "SELECT 1", limit="many")
