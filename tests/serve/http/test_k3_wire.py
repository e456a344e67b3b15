"""K3.A of the specification over HTTP, and every call."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from lakewarden import Lakehouse
from lakewarden.serve.http.k3_calls import CALLS

LONG, STRING = "COLUMN_TYPE_LONG", "COLUMN_TYPE_STRING"


@pytest.fixture(scope="module", autouse=True)
def table(lake: Lakehouse) -> None:
    lake.k3.create_bucket("kb")
    columns: list[dict[str, object]] = [{"name": "id", "type": LONG}, {"name": "event_type", "type": STRING, "nullable": True}]
    lake.k3.create_table("kb", "events", columns=columns, merge_keys=["id"])


def call(client: httpx.Client, name: str, /, **body: object) -> Any:
    answer = client.post(f"/k3/v1/{name}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client: httpx.Client, name: str, /, **body: object) -> tuple[int, str, str]:
    answer = client.post(f"/k3/v1/{name}", json=body)
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["message"]


def test_k3_001_int64_is_text(operator: httpx.Client) -> None:
    found = call(operator, "getTable", bucket="kb", table="events")
    assert [type(found[name]) for name in ("deltaVersion", "rowCount", "sizeBytes")] == [str, str, str]
    assert found["deltaVersion"] == "0"


def test_k3_002_fields_are_camel_case(operator: httpx.Client) -> None:
    columns = [{"name": "id", "type": LONG}, {"name": "state", "type": STRING, "nullable": True, "defaultExpression": "'new'"}]
    found = call(
        operator, "createTable", bucket="kb", name="camel", columns=columns, mergeKeys=["id"], partitionColumns=["state"]
    )
    assert found["mergeKeys"] == ["id"]
    assert found["partitionColumns"] == ["state"]
    assert found["columns"][1]["defaultExpression"] == "'new'"
    assert {"tableId", "engineId", "createdAt", "updatedAt"} <= found.keys()
    assert not [name for name in found if "_" in name]
    assert refused(operator, "getTable", bucket="kb", table_name="camel")[:2] == (400, "INVALID_ARGUMENT")


def test_k3_003_enums_have_their_full_names(operator: httpx.Client) -> None:
    found = call(operator, "getTable", bucket="kb", table="events")
    assert (found["source"], found["status"]) == ("TABLE_SOURCE_MANUAL", "TABLE_STATUS_ACTIVE")
    assert found["columns"][0]["type"] == LONG
    assert call(operator, "getEngine", bucket="kb")["status"] == "ENGINE_STATUS_ACTIVE"
    written = call(operator, "insert", bucket="kb", table="events", rows=[{"id": 1, "event_type": "click"}])
    assert written["strategy"] == "WRITE_STRATEGY_KEYED_INSERT_BULK"
    strong = call(operator, "execute", bucket="kb", sql="SELECT id FROM events WHERE id = 1", freshness="FRESHNESS_STRONG")
    assert (strong["rows"], strong["strategy"]) == ([{"id": 1}], "QUERY_STRATEGY_UNARY_MERGED_STRONG")


@pytest.mark.parametrize("limit", ["1", 1])
def test_k3_004_int64_of_a_request_is_text_or_a_number(operator: httpx.Client, limit: object) -> None:
    assert len(call(operator, "history", bucket="kb", table="events", limit=limit)) == 1


def test_k3_004_other_text_is_an_invalid_argument_that_names_the_field(operator: httpx.Client) -> None:
    status, code, message = refused(operator, "history", bucket="kb", table="events", limit="abc")
    assert (status, code) == (400, "INVALID_ARGUMENT")
    assert "limit" in message


def test_k3_005_an_unknown_enum_lists_the_legal_names(operator: httpx.Client) -> None:
    status, code, message = refused(operator, "execute", bucket="kb", sql="SELECT 1", freshness="FRESHNESS_SOON")
    assert (status, code) == (400, "INVALID_ARGUMENT")
    assert "FRESHNESS_STRONG" in message


def test_k3_006_int32_is_a_number(operator: httpx.Client) -> None:
    assert type(call(operator, "getEngine", bucket="kb")["tableCount"]) is int


def test_k3_007_times_are_milliseconds_as_text(operator: httpx.Client) -> None:
    assert call(operator, "getEngine", bucket="kb")["createdAt"].isdecimal()


def test_k3_008_every_field_is_there(operator: httpx.Client) -> None:
    found = call(operator, "getTable", bucket="kb", table="events")
    assert (found["description"], found["partitionColumns"], found["pipelineId"]) == ("", [], "")
    assert found["columns"][0]["nullable"] is False


def test_an_unknown_call_lists_the_calls(operator: httpx.Client) -> None:
    assert refused(operator, "dropEverything", bucket="kb")[:2] == (404, "NOT_FOUND")


@pytest.mark.parametrize("name", CALLS)
def test_every_call_is_there_and_checks_its_fields(operator: httpx.Client, name: str) -> None:
    assert refused(operator, name, nothing="of it")[:2] == (400, "INVALID_ARGUMENT")


def test_a_table_lives_through_every_call(operator: httpx.Client) -> None:
    call(operator, "createBucket", bucket="life")
    columns = [{"name": "id", "type": LONG}, {"name": "body", "type": STRING, "nullable": True}]
    call(operator, "createTable", bucket="life", name="t", columns=columns, mergeKeys=["id"])
    at = {"bucket": "life", "table": "t"}
    assert call(operator, "insert", **at, rows=[{"id": 1, "body": "a"}, {"id": 2}])["rowsWritten"] == "2"
    assert call(operator, "merge", **at, rows=[{"id": 2, "body": "b"}])["strategy"] == "WRITE_STRATEGY_MERGE_ROWS"
    assert call(operator, "update", **at, set={"body": "c"}, where="id = 1")["strategy"] == "WRITE_STRATEGY_KEYED_UPDATE"
    assert call(operator, "deleteRows", **at, where="id = 2")["strategy"] == "WRITE_STRATEGY_KEYED_DELETE"
    call(operator, "compact", **at)
    eventual = call(operator, "execute", bucket="life", sql="SELECT * FROM t")
    assert (eventual["rows"], eventual["servedBy"]) == ([{"id": 1, "body": "c"}], "SERVED_BY_WAREHOUSE")
    call(operator, "optimize", **at, targetFileSizeMb="64")
    call(operator, "vacuum", **at, dryRun=True)
    version = call(operator, "history", **at)[0]["version"]
    call(operator, "restore", **at, version=version)
    assert [one["name"] for one in call(operator, "listTables", bucket="life")] == ["t"]
    assert call(operator, "listRules", bucket="life") == []
    assert refused(operator, "getRule", bucket="life", ruleId="none")[:2] == (404, "NOT_FOUND")
    assert refused(operator, "updateRule", bucket="life", ruleId="none", enabled=False)[:2] == (404, "NOT_FOUND")
    assert refused(operator, "triggerIngest", **at, object="a.csv")[:2] == (412, "FAILED_PRECONDITION")
    assert call(operator, "disableEngine", bucket="life")["status"] == "ENGINE_STATUS_DISABLED"
    assert refused(operator, "insert", **at, rows=[{"id": 3}])[:2] == (412, "FAILED_PRECONDITION")
    call(operator, "enableEngine", bucket="life")
    call(operator, "deleteTable", **at)
    assert refused(operator, "getTable", **at)[:2] == (404, "NOT_FOUND")


def test_the_openapi_document_has_every_call_and_no_dangling_reference(client: httpx.Client) -> None:
    found = client.get("/openapi.json")
    assert {f"/k3/v1/{name}" for name in CALLS} < found.json()["paths"].keys()
    names = {text.split('"')[0] for text in found.text.split("#/components/schemas/")[1:]}
    assert names == found.json()["components"]["schemas"].keys()
