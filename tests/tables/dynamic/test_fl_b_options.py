"""FL.B: options, and FL.F's rules on which of them go together."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.clock import system_clock
from lakewarden.base.scope import TableName
from lakewarden.catalog.dynamic_declaration import check_session_option, enriched, parse_dynamic
from lakewarden.catalog.dynamic_options import DynamicOptions
from lakewarden.catalog.schema import declare
from lakewarden.catalog.store import CatalogStore
from lakewarden.errors import InvalidArgument
from lakewarden.sql.results import Result, ResultRows

Sql = Callable[[str], list[Result]]

KEYED = declare([Column("id", "INT"), Column("v", "INT")], ["id"], "SHARED")
KEYLESS = declare([Column("id", "INT"), Column("v", "INT")], [], "SHARED")


def parsed(**given: str) -> DynamicOptions:
    return parse_dynamic({key.replace("__", "-").replace("_", "."): value for key, value in given.items()}, KEYED)


def refusal(given: dict[str, str], schema: object = KEYED) -> str:
    with pytest.raises(InvalidArgument) as refused:
        parse_dynamic(given, schema)  # type: ignore[arg-type]
    return str(refused.value)


def options(lake: Lakehouse, name: str) -> DynamicOptions:
    found = lake.warehouse.catalog.read().tables[TableName("n", name)].dynamic
    assert found is not None
    return found


def test_fl_017_session_options_apply_to_new_tables(lake: Lakehouse, sql: Sql) -> None:
    sql("SET 'table-storage.log.retention' = '24 h'; CREATE DYNAMIC TABLE o17 (a INT); CREATE DYNAMIC TABLE o17b (a INT)")
    assert [options(lake, name).log_retention for name in ("o17", "o17b")] == [86_400, 86_400]


def test_fl_018_the_tables_own_option_wins() -> None:
    assert enriched({"log.consistency": "transactional", "kind": "dynamic"}, {"log.consistency": "eventual"}) == {
        "log.consistency": "eventual"
    }


def test_fl_019_options_are_frozen_at_creation(lake: Lakehouse, sql: Sql) -> None:
    sql("SET 'table-storage.bucket' = '3'; CREATE DYNAMIC TABLE o19 (a INT); SET 'table-storage.bucket' = '5'; SELECT 1")
    assert options(lake, "o19").bucket == 3


@pytest.mark.parametrize("option", ["log.consistency", "BUCKET", "log.scan.timestamp-millis", "log.kafka.acks"])
@pytest.mark.parametrize("kind", ["TABLE", "SHARED TABLE", "STREAM TABLE"])
def test_fl_018_a_table_of_another_kind_says_what_to_write(lake: Lakehouse, sql: Sql, kind: str, option: str) -> None:
    ttl = ", 'TTL_SECONDS' = '60'" if kind.startswith("STREAM") else ""
    with pytest.raises(InvalidArgument, match=r"CREATE DYNAMIC TABLE n\.plain .*SET 'table-storage.kind' = 'dynamic'"):
        sql(f"CREATE {kind} plain (a INT PRIMARY KEY) WITH ('{option}' = '1'{ttl})")
    with pytest.raises(InvalidArgument, match="CREATE DYNAMIC TABLE"):
        sql(f"CREATE SHARED TABLE plain WITH ('{option}' = '1') AS SELECT 1 AS a")
    with pytest.raises(InvalidArgument, match="CREATE DYNAMIC TABLE"):
        lake.create_table("n.plain", type="SHARED", columns=[Column("a", "INT")], primary_key=["a"], options={option: "1"})
    with pytest.raises(InvalidArgument, match="unknown table option"):
        sql("CREATE TABLE plain (a INT PRIMARY KEY) WITH ('log.consistensy' = 'eventual')")
    assert TableName("n", "plain") not in lake.warehouse.catalog.read().tables


def test_fl_020_log_system() -> None:
    assert DynamicOptions().log_system == "object"
    assert parsed(log_system="none").log_system == "none"
    assert "object, kafka or none" in refusal({"log.system": "pulsar"})


def test_fl_021_kafka_needs_its_servers() -> None:
    assert "log.kafka.bootstrap.servers" in refusal({"log.system": "kafka"})
    given = {"log.system": "kafka", "log.kafka.bootstrap.servers": "localhost:9092", "log.kafka.linger.ms": "5"}
    assert parse_dynamic(given, KEYED).kafka == {"bootstrap.servers": "localhost:9092", "linger.ms": "5"}


@pytest.mark.parametrize(
    ("text", "seconds"), [("7 d", 604_800), ("24 h", 86_400), ("30 min", 1_800), ("90s", 90), ("500 ms", 0.5), ("2000millis", 2)]
)
def test_fl_022_retention_is_a_length_of_time(text: str, seconds: float) -> None:
    assert parsed(log_retention=text).log_retention == seconds
    assert "'7 d'" in refusal({"log.retention": "soon"})
    assert parsed().log_retention is None


@pytest.mark.parametrize(
    ("text", "shown"), [("500 ms", "500 ms"), ("1500 milliseconds", "1500 ms"), ("3000 ms", "3 s"), ("1 min", "60 s")]
)
def test_fl_022_milliseconds_are_kept(lake: Lakehouse, sql: Sql, text: str, shown: str) -> None:
    made = sql(
        f"CREATE DYNAMIC TABLE o22 (a INT) WITH ('log.retention' = '{text}'); DESCRIBE TABLE EXTENDED o22;"
        f" CREATE SHARED TABLE p22 (a INT PRIMARY KEY) WITH (LOG_RETENTION = '{text}')"
    )
    assert isinstance(made[1], ResultRows)
    (described,) = made[1].to_pylist()
    assert described["log.retention"] == shown
    seconds = options(lake, "o22").log_retention
    again = CatalogStore(lake.warehouse.state, system_clock).read()  # from its object
    assert [again.tables[TableName("n", name)].kept_seconds(9.0) for name in ("o22", "p22")] == [seconds, seconds]
    sql("DROP TABLE o22; DROP TABLE p22")


def test_fl_023_log_scan() -> None:
    assert parsed().log_scan == "full"
    assert "full, latest or from-timestamp" in refusal({"log.scan": "earliest"})
    with pytest.raises(InvalidArgument, match="of a table"):
        check_session_option("log.scan", "latest")


def test_fl_024_timestamp_of_the_scan() -> None:
    given = {"log.scan": "from-timestamp", "log.scan.timestamp-mills": "1700000000000"}
    assert parse_dynamic(given, KEYED).log_scan_timestamp == 1_700_000_000_000
    assert "needs log.scan.timestamp-mills" in refusal({"log.scan": "from-timestamp"})
    assert "is for log.scan 'from-timestamp'" in refusal({"log.scan.timestamp-mills": "1"})
    later = {"log.scan": "from-timestamp", "log.scan.timestamp-millis": "5"}
    assert parse_dynamic(later, KEYED).log_scan_timestamp == 5
    assert "two spellings" in refusal({**later, "log.scan.timestamp-mills": "5"})


def test_fl_025_consistency() -> None:
    assert parsed().log_consistency == "transactional"
    assert parsed(log_consistency="eventual").log_consistency == "eventual"
    assert "transactional or eventual" in refusal({"log.consistency": "strong"})


def test_fl_026_changelog_mode() -> None:
    assert parsed().log_changelog_mode == "auto"
    assert parsed(log_changelog__mode="all").log_changelog_mode == "all"
    assert "auto, upsert or all" in refusal({"log.changelog-mode": "some"})


def test_fl_027_key_format() -> None:
    assert parsed().log_key_format == "json"
    assert "json" in refusal({"log.key-format": "avro"})


def test_fl_028_value_format() -> None:
    assert parsed().log_format == "debezium-json"
    assert "debezium-json" in refusal({"log.format": "canal-json"})


def test_fl_029_file_path_is_the_root_of_a_storage(lake: Lakehouse, sql: Sql) -> None:
    warehouse = lake.warehouse
    local = warehouse.base(warehouse.catalog.read().storages["local"])
    sql(f"CREATE DYNAMIC TABLE o29 (a INT) WITH ('file.path' = '{local}')")
    assert options(lake, "o29").file_path == local
    with pytest.raises(InvalidArgument) as refused:
        sql("CREATE DYNAMIC TABLE o29b (a INT) WITH ('file.path' = '/nowhere')")
    assert "SET 'table-storage.file.path'" in str(refused.value)
    assert "WITH ('file.path'" in str(refused.value)


def test_fl_030_file_format() -> None:
    assert parsed().file_format == "parquet"
    assert "must be parquet" in refusal({"file.format": "orc"})


def test_fl_031_bucket() -> None:
    assert parsed().bucket == 1
    for wrong in ("0", "-1", "two", "1.5", ""):
        assert "whole number" in refusal({"bucket": wrong})


def test_fl_032_change_tracking() -> None:
    assert parsed().change_tracking is True
    assert parsed(change__tracking="false").change_tracking is False
    with pytest.raises(InvalidArgument, match="of a table"):
        check_session_option("change-tracking", "false")


def test_fl_033_unknown_and_retired_names(sql: Sql) -> None:
    assert "'colour'" in refusal({"colour": "red"})
    for old, new in (
        ("log.pk.consistency", "log.consistency"),
        ("log.pk.changelog-mode", "log.changelog-mode"),
        ("log.pkkey.key-format", "log.key-format"),
    ):
        assert f"'{new}'" in refusal({old: "x"})
    with pytest.raises(InvalidArgument, match="colour"):
        sql("SET 'table-storage.colour' = 'red'")


def test_fl_063_eventual_needs_a_key() -> None:
    assert "needs a primary key" in refusal({"log.consistency": "eventual"}, KEYLESS)


def test_fl_067_upsert_needs_a_key() -> None:
    assert "needs a primary key" in refusal({"log.changelog-mode": "upsert"}, KEYLESS)


def test_fl_073_without_a_log_system() -> None:
    wrong = (
        {"log.changelog-mode": "upsert"},
        {"log.consistency": "eventual"},
        {"log.scan": "from-timestamp", "log.scan.timestamp-mills": "0"},
    )
    messages = {refusal({"log.system": "none", **given}) for given in wrong}
    assert len(messages) == 3
    for scan in ("full", "latest"):
        assert parse_dynamic({"log.system": "none", "log.scan": scan}, KEYED).log_scan == scan


def test_fl_072_all_changes_need_transactions() -> None:
    assert "'transactional'" in refusal({"log.changelog-mode": "all", "log.consistency": "eventual"})


def test_auto_means_upsert_with_a_key_and_all_without() -> None:
    assert (DynamicOptions().changes_of(keyed=True), DynamicOptions().changes_of(keyed=False)) == ("upsert", "all")
