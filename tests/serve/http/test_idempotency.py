"""`Idempotency-Key`: a write that is sent again is answered, and not done again."""

from __future__ import annotations

from datetime import timedelta
from itertools import count

import httpx
import pytest

from lakewarden import Lakehouse
from tests.serve.conftest import Moving, bearer, login

_NUMBERS = count()


@pytest.fixture(scope="module", autouse=True)
def table(lake: Lakehouse) -> None:
    lake.k3.create_bucket("keyed")
    lake.k3.create_table("keyed", "plain", columns=[{"name": "id", "type": "COLUMN_TYPE_LONG", "nullable": True}])


@pytest.fixture
def number() -> int:
    return next(_NUMBERS)


def insert(client: httpx.Client, key: str, number: int) -> httpx.Response:
    body = {"bucket": "keyed", "table": "plain", "rows": [{"id": number}]}
    return client.post("/k3/v1/insert", json=body, headers={"Idempotency-Key": key})


def times(lake: Lakehouse, number: int) -> object:
    return lake.sql(f"SELECT count(*) AS n FROM keyed.plain WHERE id = {number}")[0].to_pylist()[0]["n"]  # type: ignore[union-attr]


def test_a_row_without_a_key_is_inserted_once(operator: httpx.Client, lake: Lakehouse, number: int) -> None:
    first, second = insert(operator, f"a{number}", number), insert(operator, f"a{number}", number)
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.json() == second.json()
    assert times(lake, number) == 1


def test_another_request_under_the_same_key_is_refused(operator: httpx.Client, lake: Lakehouse, number: int) -> None:
    insert(operator, f"b{number}", number)
    answer = insert(operator, f"b{number}", number + 1000)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_ARGUMENT")
    assert times(lake, number + 1000) == 0


def test_another_call_with_the_same_body_is_another_request(operator: httpx.Client, lake: Lakehouse, number: int) -> None:
    body, headers = {"bucket": "keyed", "table": "plain"}, {"Idempotency-Key": f"e{number}"}
    answers = [operator.post(f"/k3/v1/{name}", json=body, headers=headers) for name in ("compact", "deleteTable")]
    assert [answer.status_code for answer in answers] == [200, 400]
    assert "another request" in answers[1].json()["error"]["message"]
    assert times(lake, number) == 0, "the table is there"


def test_a_key_is_a_users_own(client: httpx.Client) -> None:
    for user in ("ann", "bob"):
        client.headers.update(bearer(login(client, user)["access_token"]))
        body = {"sql": "INSERT INTO app.notes VALUES (70, 'x')"}
        assert client.post("/v1/api/sql", json=body, headers={"Idempotency-Key": "same"}).status_code == 200
        assert client.post("/v1/api/sql", json=body, headers={"Idempotency-Key": "same"}).status_code == 200
        assert client.post("/v1/api/sql", json=body).json()["error"]["code"] == "CONSTRAINT_VIOLATION"


def test_a_write_whose_end_is_unknown_is_not_done_again(operator: httpx.Client, lake: Lakehouse, number: int) -> None:
    insert(operator, f"c{number}", number)
    state = lake.warehouse.state
    state.delete([key for key in state.keys("serve/writes") if key.endswith(".answer")])
    answer = insert(operator, f"c{number}", number)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "CONFLICT")
    assert times(lake, number) == 1


def test_a_key_is_known_over_midnight_and_forgotten_after_two_days(
    operator: httpx.Client, lake: Lakehouse, clock: Moving, number: int
) -> None:
    insert(operator, f"d{number}", number)
    clock.moved += timedelta(minutes=10)
    for moved, found in ((timedelta(0), 1), (timedelta(hours=23), 1), (timedelta(hours=48), 2)):
        clock.moved += moved
        token = lake_token(lake)
        assert insert_as(operator, token, f"d{number}", number).status_code == 200
        assert times(lake, number) == found


def test_queries_are_not_kept_and_values_of_errors_neither(operator: httpx.Client, lake: Lakehouse) -> None:
    for text in (
        "SELECT 'confidential' AS s",
        "SELECT CAST('confidential' AS BIGINT)",
        "CREATE NAMESPACE IF NOT EXISTS app; SELECT 'confidential' AS s",
    ):
        for _ in range(2):
            operator.post("/v1/api/sql", json={"sql": text}, headers={"Idempotency-Key": f"k{len(text)}"})
    state = lake.warehouse.state
    assert not [key for key in state.keys("serve/writes") if b"confidential" in state.get(key)]


def lake_token(lake: Lakehouse) -> str:
    from lakewarden.serve.operator import operator_token

    return operator_token(lake.warehouse, "root", "system", timedelta(hours=1))


def insert_as(client: httpx.Client, token: str, key: str, number: int) -> httpx.Response:
    client.headers["Authorization"] = f"Bearer {token}"
    return insert(client, key, number)
