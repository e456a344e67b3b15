"""`Idempotency-Key`: a write that is sent again is answered, and not done again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import count

import httpx
import pytest

from lakewarden import Lakehouse
from lakewarden.errors import Conflict, StorageUnavailable
from lakewarden.log.objects.gather import Gathering
from lakewarden.log.objects.put import Puts, Segment
from lakewarden.tables.direct.run import DirectRun
from tests.serve.conftest import Moving, bearer, login

_NUMBERS = count()


@pytest.fixture(scope="module", autouse=True)
def table(lake: Lakehouse) -> None:
    lake.k3.create_bucket("keyed")
    lake.k3.create_table("keyed", "plain", columns=[{"name": "id", "type": "COLUMN_TYPE_LONG", "nullable": True}])
    lake.sql("CREATE TABLE keyed.by_key (id BIGINT PRIMARY KEY, text TEXT) WITH (TYPE = 'SHARED')")
    lake.sql("CREATE TABLE keyed.own (id BIGINT PRIMARY KEY) WITH (TYPE = 'USER')")


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


def test_another_call_with_the_same_body_is_another_request(operator: httpx.Client, number: int) -> None:
    body, headers = {"bucket": "keyed", "settings": "{}"}, {"Idempotency-Key": f"e{number}"}
    answers = [operator.post(f"/k3/v1/{name}", json=body, headers=headers) for name in ("createBucket", "enableEngine")]
    assert [answer.status_code for answer in answers] == [200, 400]
    assert "another request" in answers[1].json()["error"]["message"]


def test_a_key_is_a_users_own(client: httpx.Client) -> None:
    for user in ("ann", "bob"):
        client.headers.update(bearer(login(client, user)["access_token"]))
        body = {"sql": "INSERT INTO app.notes VALUES (70, 'x')"}
        assert client.post("/v1/api/sql", json=body, headers={"Idempotency-Key": "same"}).status_code == 200
        assert client.post("/v1/api/sql", json=body, headers={"Idempotency-Key": "same"}).status_code == 200
        assert client.post("/v1/api/sql", json=body).json()["error"]["code"] == "CONSTRAINT_VIOLATION"


def forget_answers(lake: Lakehouse) -> None:
    """As if each server had died before it answered."""
    state = lake.warehouse.state
    state.delete([key for key in state.keys("serve/keyed") if key.endswith(".answer")])


@pytest.mark.parametrize("flushed", [False, True])
def test_a_write_whose_answer_was_lost_is_found_and_answered(
    operator: httpx.Client, lake: Lakehouse, number: int, flushed: bool
) -> None:
    texts = {
        "INSERT INTO keyed.plain VALUES (?)": "SELECT count(*) AS n FROM keyed.plain WHERE id = ?",
        "INSERT INTO keyed.by_key VALUES (?, 'x')": "SELECT count(*) AS n FROM keyed.by_key WHERE id = ?",
        "UPDATE keyed.plain SET id = -1 - id WHERE id = ?": "SELECT count(*) AS n FROM keyed.plain WHERE id = -1 - ?",
    }
    for at, (text, counted) in enumerate(texts.items()):
        body = {"sql": text, "params": [number]}
        headers = {"Idempotency-Key": f"f{number}-{at}"}
        first = operator.post("/v1/api/sql", json=body, headers=headers)
        assert first.status_code == 200, first.text
        if flushed:
            lake.flush()
        forget_answers(lake)
        second = operator.post("/v1/api/sql", json=body, headers=headers)
        assert second.status_code == 200, second.text
        (mine,), (theirs,) = second.json()["results"], first.json()["results"]
        assert mine["rows_affected"] == theirs["rows_affected"] == 1
        assert second.content == operator.post("/v1/api/sql", json=body, headers=headers).content, "it is kept"
        assert lake.sql(counted.replace("?", str(number)))[0].to_pylist() == [{"n": 1}]  # type: ignore[union-attr]


def test_an_answer_of_503_behind_the_commit_does_not_double(
    operator: httpx.Client, lake: Lakehouse, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, finish = Gathering.append, DirectRun._finish

    def lost(run: Callable[..., object]) -> Callable[..., object]:
        def losing(*given: object, **more: object) -> object:
            run(*given, **more)
            raise StorageUnavailable("the answer was lost")

        return losing

    for table in ("plain", "by_key"):
        body = {"bucket": "keyed", "table": table, "rows": [{"id": number}]}
        headers = {"Idempotency-Key": f"l{number}{table}"}
        with monkeypatch.context() as patch:
            patch.setattr(Gathering, "append", lost(append))
            patch.setattr(DirectRun, "_finish", lost(finish))
            assert operator.post("/k3/v1/insert", json=body, headers=headers).status_code == 503
        with Lakehouse.open(lake.warehouse.uri) as other:  # another process is asked
            assert other.sql(f"SELECT count(*) AS n FROM keyed.{table} WHERE id = {number}")[0].to_pylist() == [{"n": 1}]  # type: ignore[union-attr]
        answer = operator.post("/k3/v1/insert", json=body, headers=headers)
        assert (answer.status_code, answer.json().get("rowsWritten")) == (200, "1"), answer.text
        assert lake.sql(f"SELECT count(*) AS n FROM keyed.{table} WHERE id = {number}")[0].to_pylist() == [{"n": 1}]  # type: ignore[union-attr]


def test_a_request_that_died_before_it_wrote_is_decided_when_its_time_is_over(
    operator: httpx.Client, lake: Lakehouse, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then its own put can come no more."""
    body = {"sql": f"INSERT INTO keyed.own VALUES ({number})"}
    headers = {"Idempotency-Key": f"n{number}"}
    put, late = Puts.put, list[Callable[[], int]]()

    def sleeps(puts: Puts, segment: Segment, after: int | None = None) -> int:
        late.append(lambda: put(puts, segment._replace(until=0.0), after))
        raise StorageUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(Puts, "put", sleeps)
        assert operator.post("/v1/api/sql", json=body, headers=headers).status_code == 503
    answer = operator.post("/v1/api/sql", json=body, headers=headers)
    assert (answer.status_code, "same key" in answer.text, "new key" in answer.text) == (409, True, False)
    with monkeypatch.context() as patch:
        patch.setattr("lakewarden.serve.idempotency._OVER", timedelta(0))
        answer = operator.post("/v1/api/sql", json=body, headers=headers)
    assert (answer.status_code, "was not done; a new key may try again" in answer.text) == (409, True)
    with pytest.raises(Conflict, match="was not done"):
        late[0]()
    assert operator.post("/v1/api/sql", json=body, headers={"Idempotency-Key": f"m{number}"}).status_code == 200
    assert lake.sql(f"SELECT count(*) AS n FROM keyed.own WHERE id = {number}", user="root")[0].to_pylist() == [{"n": 1}]  # type: ignore[union-attr]


def test_of_several_statements_it_says_how_many_are_done(operator: httpx.Client, lake: Lakehouse, number: int) -> None:
    texts = [f"INSERT INTO keyed.plain VALUES ({number})", "SELECT 1", f"INSERT INTO keyed.plain VALUES ({number})"]
    for wrong, says in (
        (f"INSERT INTO keyed.by_key VALUES ({number}, 'x', 'y')", "INVALID_ARGUMENT"),
        ("", "3 of its 3 statements"),
    ):
        body = {"sql": "; ".join([*texts, wrong] if wrong else texts)}
        headers = {"Idempotency-Key": f"s{number}{len(wrong)}"}
        operator.post("/v1/api/sql", json=body, headers=headers)
        if not wrong:
            forget_answers(lake)
        answer = operator.post("/v1/api/sql", json=body, headers=headers)
        assert answer.status_code == 409
        assert says in answer.text
    headers = {"Idempotency-Key": f"t{number}"}
    body = {"sql": f"INSERT INTO keyed.plain VALUES ({number}); INSERT INTO keyed.by_key VALUES (NULL, 'x')"}
    assert operator.post("/v1/api/sql", json=body, headers=headers).status_code == 400
    assert "1 of its statements are done" in operator.post("/v1/api/sql", json=body, headers=headers).text


def test_of_what_leaves_no_trace_it_says_to_look(operator: httpx.Client, lake: Lakehouse, number: int) -> None:
    body = {"sql": f"CREATE NAMESPACE traceless{number}"}
    headers = {"Idempotency-Key": f"u{number}"}
    assert operator.post("/v1/api/sql", json=body, headers=headers).status_code == 200
    forget_answers(lake)
    answer = operator.post("/v1/api/sql", json=body, headers=headers)
    assert answer.status_code == 409
    assert "look whether" in answer.text


def test_a_key_is_known_on_servers_whose_clocks_are_days_ahead(
    operator: httpx.Client, lake: Lakehouse, clock: Moving, number: int
) -> None:
    insert(operator, f"d{number}", number)
    clock.moved += timedelta(minutes=10)
    for moved, found in ((timedelta(0), 1), (timedelta(hours=23), 1), (timedelta(hours=48), 1)):
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
    assert not [key for key in state.keys("serve/keyed") if b"confidential" in state.get(key)]


def lake_token(lake: Lakehouse) -> str:
    from lakewarden.serve.tokens import operator_token

    return operator_token(lake.warehouse, "root", "system", timedelta(hours=1))


def insert_as(client: httpx.Client, token: str, key: str, number: int) -> httpx.Response:
    client.headers["Authorization"] = f"Bearer {token}"
    return insert(client, key, number)
