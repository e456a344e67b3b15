"""K3.A, the wire form, over HTTP: by a stock client, and by one that is generated from the OpenAPI document."""

from __future__ import annotations

from typing import Any

import httpx
import pyarrow.compute as pc
import pytest

from lakewarden import Lakehouse
from lakewarden.serve.http.k3_calls import CALLS
from tests.serve.http.clients import Call, stock

LONG, STRING = "COLUMN_TYPE_LONG", "COLUMN_TYPE_STRING"
EVENTS = {"bucket": "kb", "table": "events"}


@pytest.fixture(scope="module", autouse=True)
def table(lake: Lakehouse) -> None:
    lake.k3.create_bucket("kb")
    columns: list[dict[str, object]] = [{"name": "id", "type": LONG}, {"name": "event_type", "type": STRING, "nullable": True}]
    lake.k3.create_table("kb", "events", columns=columns, merge_keys=["id"])


def done(k3: Call, name: str, /, **body: object) -> Any:
    status, answer = k3(name, **body)
    assert status == 200, answer
    return answer


def refused(k3: Call, name: str, /, **body: object) -> tuple[int, str, str]:
    status, answer = k3(name, **body)
    return status, answer["error"]["code"], answer["error"]["message"]


def test_k3_001_int64_is_text(k3: Call) -> None:
    found = done(k3, "getTable", **EVENTS)
    assert [type(found[name]) for name in ("deltaVersion", "rowCount", "sizeBytes")] == [str, str, str]
    assert found["deltaVersion"] == "0"


def test_k3_002_fields_are_camel_case(k3: Call, bucket: str) -> None:
    columns = [{"name": "id", "type": LONG}, {"name": "state", "type": STRING, "nullable": True, "defaultExpression": "'new'"}]
    found = done(k3, "createTable", bucket=bucket, name="camel", columns=columns, mergeKeys=["id"], partitionColumns=["state"])
    assert found["mergeKeys"] == ["id"]
    assert found["partitionColumns"] == ["state"]
    assert found["columns"][1]["defaultExpression"] == "'new'"
    assert {"tableId", "engineId", "createdAt", "updatedAt"} <= found.keys()
    assert not [name for name in found if "_" in name]


def test_k3_003_enums_have_their_full_names(k3: Call) -> None:
    found = done(k3, "getTable", **EVENTS)
    assert (found["source"], found["status"]) == ("TABLE_SOURCE_MANUAL", "TABLE_STATUS_ACTIVE")
    assert found["columns"][0]["type"] == LONG
    assert done(k3, "getEngine", bucket="kb")["status"] == "ENGINE_STATUS_ACTIVE"
    written = done(k3, "insert", **EVENTS, rows=[{"id": 1, "event_type": "click"}])
    assert written["strategy"] == "WRITE_STRATEGY_KEYED_INSERT_BULK"
    strong = done(k3, "execute", bucket="kb", sql="SELECT id FROM events WHERE id = 1", freshness="FRESHNESS_STRONG")
    assert (strong["rows"], strong["strategy"]) == ([{"id": 1}], "QUERY_STRATEGY_UNARY_MERGED_STRONG")


def test_k3_004_int64_of_a_request_is_text_or_a_number(k3: Call) -> None:
    for limit in ("1", 1):
        assert len(done(k3, "history", **EVENTS, limit=limit)) == 1
    status, code, message = refused(k3, "history", **EVENTS, limit="abc")
    assert (status, code) == (400, "INVALID_ARGUMENT")
    assert "limit" in message


def test_k3_005_an_unknown_enum_lists_the_legal_names(k3: Call) -> None:
    status, code, message = refused(k3, "execute", bucket="kb", sql="SELECT 1", freshness="FRESHNESS_SOON")
    assert (status, code) == (400, "INVALID_ARGUMENT")
    assert "FRESHNESS_STRONG" in message


def test_k3_006_int32_is_a_number(k3: Call) -> None:
    assert type(done(k3, "getEngine", bucket="kb")["tableCount"]) is int


def test_k3_007_times_are_milliseconds_as_text(k3: Call) -> None:
    found = done(k3, "getEngine", bucket="kb")
    assert [len(found[name]) for name in ("createdAt", "updatedAt") if found[name].isdecimal()] == [13, 13]


def test_k3_008_every_field_is_there(k3: Call) -> None:
    found = done(k3, "getTable", **EVENTS)
    assert (found["description"], found["partitionColumns"], found["pipelineId"]) == ("", [], "")
    assert found["columns"][0]["nullable"] is False


def test_an_unknown_call_lists_the_calls(operator: httpx.Client) -> None:
    answer = operator.post("/k3/v1/dropEverything", json={"bucket": "kb"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize("name", CALLS)
def test_every_call_checks_its_fields(operator: httpx.Client, name: str) -> None:
    assert refused(stock(operator), name, nothing="of it")[:2] == (400, "INVALID_ARGUMENT")


def test_the_openapi_document_has_every_call_and_no_dangling_reference(client: httpx.Client) -> None:
    found = client.get("/openapi.json")
    assert {f"/k3/v1/{name}" for name in CALLS} < found.json()["paths"].keys()
    names = {text.split('"')[0] for text in found.text.split("#/components/schemas/")[1:]}
    assert names == found.json()["components"]["schemas"].keys()


@pytest.mark.parametrize(
    "rows",
    ['[{"id": 71, "id": 72, "event_type": "x"}]', '["{\\"id\\": 71, \\"id\\": 72}"]'],
)
def test_a_row_with_a_key_twice_is_refused(operator: httpx.Client, lake: Lakehouse, rows: str) -> None:
    body = f'{{"bucket": "kb", "table": "events", "rows": {rows}}}'
    answer = operator.post("/k3/v1/insert", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, "twice" in answer.json()["error"]["message"]) == (400, True)
    assert lake.table("kb.events").read().filter(pc.field("id") > 70).num_rows == 0
