"""Each of K3's calls over HTTP, named by a line that it is about: by a stock client, and by a generated one (`k3`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakewarden import Lakehouse
from lakewarden.serve.http.k3_calls import CALLS
from tests.client.k3.lines import call_tests
from tests.ingest.pipelines.uploads import upload_to
from tests.serve.http.clients import Call
from tests.serve.http.test_k3_wire import LONG, STRING, done, refused


def make(k3: Call, bucket: str) -> dict[str, Any]:
    columns = [{"name": "id", "type": LONG}, {"name": "body", "type": STRING, "nullable": True}]
    done(k3, "createTable", bucket=bucket, name="t", columns=columns, mergeKeys=["id"])
    return {"bucket": bucket, "table": "t"}


def filled(k3: Call, bucket: str) -> dict[str, Any]:
    """A table with two rows, one drained and one pending."""
    at = make(k3, bucket)
    done(k3, "insert", **at, rows=[{"id": 1, "body": "a"}])
    done(k3, "compact", **at)
    done(k3, "insert", **at, rows=[{"id": 2, "body": "b"}])
    return at


def rows(k3: Call, bucket: str, freshness: str = "FRESHNESS_STRONG") -> Any:
    found = done(k3, "execute", bucket=bucket, sql="SELECT id, body FROM t ORDER BY id", freshness=freshness)["rows"]
    return [(row["id"], row["body"]) for row in found]


def test_each_call_has_a_test() -> None:
    assert call_tests().keys() == {*CALLS}


def test_k3_009_create_bucket_makes_its_engine(k3: Call, bucket: str) -> None:
    made = done(k3, "createBucket", bucket=f"{bucket}-new", settings='{"x": 1}')
    assert (made["bucket"], made["settings"], made["tableCount"]) == (f"{bucket}-new", '{"x": 1}', 0)
    assert done(k3, "getEngine", bucket=f"{bucket}-new") == made


def test_k3_010_get_engine_shows_all_of_its_fields(k3: Call, bucket: str) -> None:
    found = done(k3, "getEngine", bucket=bucket)
    assert found.keys() == {"engineId", "bucket", "status", "settings", "tableCount", "createdAt", "updatedAt"}
    assert found["engineId"].startswith("eng_")


def test_k3_012_get_engine_of_an_unknown_bucket_is_not_found(k3: Call) -> None:
    assert refused(k3, "getEngine", bucket="nowhere")[:2] == (404, "NOT_FOUND")


def test_k3_011_enable_engine_keeps_the_engine(k3: Call, bucket: str) -> None:
    first = done(k3, "getEngine", bucket=bucket)
    again = done(k3, "enableEngine", bucket=bucket, settings='{"a": "b"}')
    assert (again["engineId"], again["settings"]) == (first["engineId"], '{"a": "b"}')


def test_k3_015_disable_engine_refuses_calls_of_tables(k3: Call, bucket: str) -> None:
    at = make(k3, bucket)
    assert done(k3, "disableEngine", bucket=bucket)["status"] == "ENGINE_STATUS_DISABLED"
    assert refused(k3, "insert", **at, rows=[{"id": 3}])[:2] == (412, "FAILED_PRECONDITION")
    assert done(k3, "enableEngine", bucket=bucket)["status"] == "ENGINE_STATUS_ACTIVE"
    done(k3, "insert", **at, rows=[{"id": 3}])


def test_k3_019_create_table_makes_a_manual_one_at_version_0(k3: Call, bucket: str) -> None:
    columns = [{"name": "id", "type": LONG}, {"name": "kind", "type": STRING, "nullable": True}]
    keys: dict[str, object] = {"mergeKeys": ["id"], "partitionColumns": ["kind"], "description": "what happened"}
    made = done(k3, "createTable", bucket=bucket, name="t", columns=columns, **keys)
    assert {name: made[name] for name in keys} == keys
    assert (made["source"], made["deltaVersion"], made["pipelineId"]) == ("TABLE_SOURCE_MANUAL", "0", "")
    assert refused(k3, "createTable", bucket=bucket, name="t", columns=columns)[:2] == (409, "ALREADY_EXISTS")


def test_k3_022_create_table_pipeline_has_no_columns_yet(k3: Call, bucket: str) -> None:
    made = done(k3, "createTablePipeline", bucket=bucket, name="p", template="csv")
    assert (made["columns"], made["source"], made["deltaVersion"]) == ([], "TABLE_SOURCE_PIPELINE_GENERATED", "")


def test_k3_018_get_table_shows_what_create_table_made(k3: Call, bucket: str) -> None:
    at = make(k3, bucket)
    found = done(k3, "getTable", **at)
    assert found["columns"][1] == {"name": "body", "type": STRING, "nullable": True, "defaultExpression": ""}
    assert found["tableId"].startswith("tbl_")


def test_k3_024_list_tables_shows_manual_and_pipeline_tables(k3: Call, bucket: str) -> None:
    make(k3, bucket)
    done(k3, "createTablePipeline", bucket=bucket, name="p", template="json")
    found = {one["name"]: one["pipelineId"] for one in done(k3, "listTables", bucket=bucket)}
    assert found["t"] == ""
    assert found["p"] != ""


def test_k3_017_delete_table_is_counted(k3: Call, bucket: str) -> None:
    at = make(k3, bucket)
    assert done(k3, "getEngine", bucket=bucket)["tableCount"] == 1
    assert done(k3, "deleteTable", **at)["deleted"] is True
    assert done(k3, "getEngine", bucket=bucket)["tableCount"] == 0
    assert refused(k3, "getTable", **at)[:2] == (404, "NOT_FOUND")


def test_k3_078_insert_is_of_the_call_always_bulk(k3: Call, bucket: str) -> None:
    written = done(k3, "insert", **make(k3, bucket), rows=[{"id": 1, "body": "é"}], mode="append")
    assert (written["strategy"], written["rowsWritten"]) == ("WRITE_STRATEGY_KEYED_INSERT_BULK", "1")
    assert (written["pendingDrain"], written["version"]) == (True, "0")
    assert rows(k3, bucket) == [(1, "é")]


def test_k3_100_insert_overwrites_by_one_commit(k3: Call, bucket: str) -> None:
    written = done(k3, "insert", **filled(k3, bucket), rows=[{"id": 9, "body": "z"}], mode="overwrite")
    assert int(written["version"]) > 0
    assert rows(k3, bucket) == [(9, "z")]


def test_k3_090_merge_counts_the_given_rows(k3: Call, bucket: str) -> None:
    at = filled(k3, bucket)
    given = [{"id": 2, "body": "c"}, {"id": 3, "body": "d"}]
    written = done(k3, "merge", **at, rows=given, whenMatched="update", whenNotMatched="ignore")
    assert (written["strategy"], written["rowsWritten"]) == ("WRITE_STRATEGY_MERGE_ROWS", "2")
    assert rows(k3, bucket) == [(1, "a"), (2, "c")]


def test_k3_080_update_by_the_key(k3: Call, bucket: str) -> None:
    written = done(k3, "update", **filled(k3, bucket), set={"body": "x"}, where="id = 1")
    assert written["strategy"] == "WRITE_STRATEGY_KEYED_UPDATE"
    assert rows(k3, bucket) == [(1, "x"), (2, "b")]


def test_k3_083_delete_rows_by_the_key(k3: Call, bucket: str) -> None:
    written = done(k3, "deleteRows", **filled(k3, bucket), where="id = 2")
    assert written["strategy"] == "WRITE_STRATEGY_KEYED_DELETE"
    assert rows(k3, bucket) == [(1, "a")]


def test_k3_076_execute_takes_a_limit_a_placeholder_and_other_tables(k3: Call, bucket: str) -> None:
    filled(k3, bucket)
    strong = {"bucket": bucket, "freshness": "FRESHNESS_STRONG"}
    found = done(k3, "execute", **strong, sql="SELECT id FROM {table} ORDER BY id", table="t", limit="1")
    assert (found["rows"], found["rowCount"], found["columns"]) == ([{"id": 1}], "1", ["id"])
    joined = done(k3, "execute", **strong, sql="SELECT count(*) AS n FROM t JOIN other USING (id)", lookupTables={"other": "t"})
    assert joined["rows"] == [{"n": 2}]


def test_a_server_bounds_the_rows_of_an_answer(k3: Call, bucket: str) -> None:
    assert refused(k3, "execute", bucket=bucket, sql="SELECT 1", limit=1_000_001)[:2] == (400, "INVALID_ARGUMENT")


def test_k3_061_execute_is_eventual_unless_it_says_otherwise(k3: Call, bucket: str) -> None:
    filled(k3, bucket)
    assert rows(k3, bucket, "FRESHNESS_EVENTUAL") == [(1, "a")]
    assert rows(k3, bucket, "FRESHNESS_OLTP_ONLY") == [(2, "b")]
    assert rows(k3, bucket) == [(1, "a"), (2, "b")]


def test_k3_101_execute_defines_tables(k3: Call, bucket: str) -> None:
    made = done(k3, "execute", bucket=bucket, sql="CREATE TABLE d (id BIGINT PRIMARY KEY)")
    assert (made["op"], made["targetTable"], made["version"]) == ("create_table", "d", "0")
    assert "version" not in done(k3, "execute", bucket=bucket, sql="DROP TABLE d")


def test_k3_107_history_goes_back_in_pages(k3: Call, bucket: str) -> None:
    at = filled(k3, bucket)
    (newest,) = done(k3, "history", **at, limit=1)
    (before,) = done(k3, "history", **at, limit=1, beforeVersion=newest["version"])
    assert (newest["version"], before["version"], before["operation"]) == ("1", "0", "CREATE TABLE")
    assert newest["timestamp"].isdecimal()


def test_k3_110_history_shows_what_was_attached(k3: Call, bucket: str) -> None:
    at = filled(k3, bucket)
    done(k3, "compact", **at, userMetadata={"by": "hand"})
    done(k3, "update", **at, set={"body": "z"}, where="body = 'a'", userMetadata={"job": "x", "n": [1, None]})
    done(k3, "compact", **at)
    found = [entry["userMetadata"] for entry in done(k3, "history", **at, limit=2)]
    assert found == [{"job": "x", "n": [1, None]}, {"by": "hand"}]
    assert refused(k3, "compact", **at, userMetadata=["by hand"])[:2] == (400, "INVALID_ARGUMENT")


def test_k3_114_optimize_packs_to_a_size(k3: Call, bucket: str) -> None:
    at = filled(k3, bucket)
    done(k3, "compact", **at)
    packed = done(k3, "optimize", **at, targetFileSizeMb="64")
    assert (packed["optimizeType"], packed["filesAdded"], packed["filesRemoved"]) == ("compact", "1", "2")


def test_k3_115_optimize_by_columns(k3: Call, bucket: str) -> None:
    at = filled(k3, bucket)
    assert done(k3, "optimize", **at, zOrderColumns=["body"])["optimizeType"] == "z_order"
    assert refused(k3, "optimize", **at, zOrderColumns=["none"])[:2] == (400, "INVALID_ARGUMENT")


def test_k3_116_vacuum_dry_run_deletes_nothing(k3: Call, bucket: str) -> None:
    at = filled(k3, bucket)
    found = done(k3, "vacuum", **at, retentionHours="168", dryRun=True)
    assert (found["dryRun"], found["filesDeleted"]) == (True, "0")
    assert refused(k3, "vacuum", **at, retentionHours=1)[:2] == (400, "INVALID_ARGUMENT")
    assert done(k3, "vacuum", **at, retentionHours=1, force=True)["dryRun"] is False


def test_k3_117_compact_drains_the_log(k3: Call, bucket: str) -> None:
    at = filled(k3, bucket)
    assert [done(k3, "compact", **at)["rowsDrained"] for _ in range(2)] == ["1", "0"]


def test_k3_111_restore_is_a_new_version(k3: Call, bucket: str) -> None:
    at = filled(k3, bucket)
    found = done(k3, "restore", **at, version=1)
    assert (found["restoredVersion"], found["version"]) == ("1", "3")
    assert rows(k3, bucket) == [(1, "a")]
    assert refused(k3, "restore", **at, version="99")[:2] == (404, "NOT_FOUND")


def test_k3_025_list_rules_has_one_for_each_pipeline(k3: Call, bucket: str) -> None:
    assert done(k3, "listRules", bucket=bucket) == []
    done(k3, "createTablePipeline", bucket=bucket, name="p", template="csv")
    (rule,) = done(k3, "listRules", bucket=bucket)
    assert "**/*.csv" in rule["globs"]


def test_k3_123_get_rule_shows_one(k3: Call, bucket: str) -> None:
    done(k3, "createTablePipeline", bucket=bucket, name="p", template="csv", options={"GLOBS": ["in/*.txt"]})
    (rule,) = done(k3, "listRules", bucket=bucket)
    assert done(k3, "getRule", bucket=bucket, ruleId=rule["ruleId"]) == rule
    assert refused(k3, "getRule", bucket=bucket, ruleId="none")[:2] == (404, "NOT_FOUND")


def test_k3_123_update_rule_changes_what_is_given(k3: Call, bucket: str) -> None:
    done(k3, "createTablePipeline", bucket=bucket, name="p", template="csv")
    (rule,) = done(k3, "listRules", bucket=bucket)
    changed = done(k3, "updateRule", bucket=bucket, ruleId=rule["ruleId"], globs=["a/*"], maxSize="1000", enabled=False)
    assert (changed["globs"], changed["maxSize"], changed["enabled"]) == (["a/*"], "1000", False)
    assert changed["excludes"] == rule["excludes"]


def test_k3_122_trigger_ingest_takes_one_object(k3: Call, bucket: str, lake: Lakehouse) -> None:
    done(k3, "createTablePipeline", bucket=bucket, name="t", template="csv")
    upload_to(Path(lake.warehouse.uri) / "uploads" / bucket, {"a.csv": "id,body\n1,a\n2,b\n"})
    taken = done(k3, "triggerIngest", bucket=bucket, table="t", object="a.csv")
    assert (taken["status"], taken["rowsWritten"], taken["version"]) == ("INGEST_STATUS_INGESTED", "2", "0")
    assert rows(k3, bucket) == [(1, "a"), (2, "b")]
    assert refused(k3, "triggerIngest", bucket=bucket, table="t", object="b.csv")[:2] == (404, "NOT_FOUND")
