"""`POST /v1/api/sql`."""

from __future__ import annotations

import httpx
import pyarrow as pa
import pytest

from lakewarden.serve.http.statements import ARROW
from tests.serve.conftest import bearer, login
from tests.sql.query_engine.heavy import HEAVY


def run(client: httpx.Client, sql: str, **more: object) -> httpx.Response:
    return client.post("/v1/api/sql", json={"sql": sql, **more})


def test_statements_answer_as_the_command_line_does(operator: httpx.Client) -> None:
    answer = run(operator, "INSERT INTO notes VALUES (1, 'a'), (2, 'b'); SELECT id FROM notes ORDER BY id", namespace="app")
    assert answer.status_code == 200, answer.text
    written, read = answer.json()["results"]
    assert written["rows_affected"] == 2
    assert read == {"columns": ["id"], "rows": [{"id": 1}, {"id": 2}]}
    assert answer.json()["took_ms"] > 0


OWN_ID = "0a1b2c3d-0000-4000-8000-123456789abc"

HOSTILE = [
    "'); DROP TABLE app.notes; --",
    "x' OR '1'='1",
    "?",
    "$1",
    "",
    "é\n\t'\"",
    "/*",
    -5,
    2**62,
    -(2**63),
    1.5,
    -0.25,
    1e300,
    True,
    None,
]


@pytest.mark.parametrize(
    "text", ["?::INT + 1", "(?)::INT + 1", "?::BIGINT::INT + 1", "CAST(? AS INT) + 1", "$1::INT + 1", "1+?::INT"]
)
def test_a_cast_behind_a_parameter_leaves_it_one(operator: httpx.Client, text: str) -> None:
    answer = run(operator, f"SELECT {text} AS v", params=["41"])
    assert answer.json()["results"][0]["rows"] == [{"v": 42}], answer.text


@pytest.mark.parametrize("value", HOSTILE, ids=str)
@pytest.mark.parametrize("mark", ["?", "$1"])
def test_a_parameter_is_a_value_whatever_it_holds(operator: httpx.Client, value: object, mark: str) -> None:
    answer = run(operator, f"SELECT {mark} AS v", params=[value])
    assert answer.status_code == 200, answer.text
    got = answer.json()["results"][0]["rows"][0]["v"]
    assert (type(got), got) == (type(value), value)


def test_parameters_run_on_over_the_statements_and_into_a_write(operator: httpx.Client) -> None:
    text = "INSERT INTO app.notes VALUES (?, ?); SELECT body FROM app.notes WHERE id = ?; DELETE FROM app.notes WHERE id = ?"
    answer = run(operator, text, params=[-7, "it's", -7, -7])
    assert [one.get("rows", one.get("rows_affected")) for one in answer.json()["results"]] == [1, [{"body": "it's"}], 1]


@pytest.mark.parametrize(
    ("text", "params"),
    [("SELECT ?", []), ("SELECT 1", [1]), ("SELECT $2", [1]), ("SELECT ?, $1", [1, 2]), ("SELECT $0", [1])],
)
def test_parameters_that_do_not_fit_are_refused(operator: httpx.Client, text: str, params: list[object]) -> None:
    answer = run(operator, text, params=params)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(("values", "found"), [([1, 3, 9], [1, 3]), ([], []), ([None, 2], [2]), (["x'"], [])])
def test_an_array_is_a_list(operator: httpx.Client, values: list[object], found: list[int]) -> None:
    kind = "TEXT" if "x'" in values else "BIGINT"
    text = f"SELECT x FROM range(1, 5) t(x) WHERE x::{kind} = ANY(?) AND x < ? ORDER BY x"
    answer = run(operator, text, params=[values, 5])
    assert [row["x"] for row in answer.json()["results"][0]["rows"]] == found, answer.text
    nested = run(operator, text, params=[[[1]], 5])
    assert (nested.status_code, nested.json()["error"]["code"]) == (400, "INVALID_ARGUMENT")


def test_numbers_of_bodies_keep_their_digits(operator: httpx.Client) -> None:
    body = b"""{"sql": "CREATE SHARED TABLE app.exact (id BIGINT PRIMARY KEY, d DECIMAL(18,2), w DECIMAL(38,20), x DOUBLE);
        INSERT INTO app.exact VALUES (?, ?, ?, ?); UPDATE app.exact SET w = ? WHERE d = ?; SELECT * FROM app.exact",
        "params": [1, 999999999999999.99, 1.5, 0.30000000000000004, 123456789012345678.5, 999999999999999.99]}"""
    answer = operator.post("/v1/api/sql", content=body.replace(b"\n", b" "))
    row = {"id": 1, "d": "999999999999999.99", "w": "123456789012345678.50000000000000000000", "x": 0.30000000000000004}
    assert answer.json()["results"][3]["rows"] == [row], answer.text
    rows = b'{"bucket": "app", "table": "exact", "rows": [{"id": 2, "d": 999999999999999.99, "w": 0.30000000000000000001}]}'
    again = [operator.post("/k3/v1/insert", content=rows, headers={"idempotency-key": "exact"}) for _ in range(2)]
    assert [one.status_code for one in again] == [200, 200], again[0].text
    found = run(operator, "SELECT d, w FROM app.exact WHERE id = 2").json()["results"][0]["rows"]
    assert found == [{"d": "999999999999999.99", "w": "0.30000000000000000001"}]
    refused = operator.post("/k3/v1/insert", content=rows.replace(b".99", b".999").replace(b"2", b"3", 1))
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "CONSTRAINT_VIOLATION")
    for number in (b"1e400", b"1E99999999999999999999"):
        wide = operator.post("/v1/api/sql", content=b'{"sql": "SELECT ?", "params": [%s]}' % number)
        assert (wide.status_code, wide.json()["error"]["code"]) == (400, "INVALID_ARGUMENT")


def test_a_parameter_is_no_name(operator: httpx.Client) -> None:
    assert run(operator, "DROP TABLE ?", params=["app.notes"]).json()["error"]["code"] == "SYNTAX_ERROR"


def test_a_query_streams_as_arrow(operator: httpx.Client) -> None:
    answer = operator.post("/v1/api/sql", json={"sql": "SELECT range AS n FROM range(200000)"}, headers={"Accept": ARROW})
    assert answer.headers["content-type"] == ARROW
    found = pa.ipc.open_stream(answer.content).read_all()
    assert found.column("n").to_pylist() == list(range(200_000))


def test_only_one_query_is_an_arrow_stream(operator: httpx.Client) -> None:
    for text in ("SELECT 1; SELECT 2", "CREATE NAMESPACE arrow", "INSERT INTO app.notes VALUES (400, 'a')", ""):
        answer = operator.post("/v1/api/sql", json={"sql": text}, headers={"Accept": ARROW})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_ARGUMENT")
    found = run(operator, "SHOW NAMESPACES; SELECT id FROM app.notes WHERE id = 400").json()["results"]
    assert "arrow" not in str(found[0]["rows"]), "what is refused did nothing"
    assert found[1]["rows"] == []


def test_a_namespace_that_is_not_there_is_not_found(operator: httpx.Client) -> None:
    answer = run(operator, "SELECT 1", namespace="absent")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        ("SELEC 1", 400, "SYNTAX_ERROR"),
        ("CREATE NAMESPACE app", 409, "ALREADY_EXISTS"),
        ("SELECT * FROM app.absent", 404, "NOT_FOUND"),
        ("INSERT INTO system.users VALUES (1)", 403, "PERMISSION_DENIED"),
        ("INSERT INTO app.notes VALUES (NULL, 'a')", 400, "CONSTRAINT_VIOLATION"),
        ("BEGIN", 422, "UNSUPPORTED"),
        ("SUBSCRIBE TO app.notes", 422, "UNSUPPORTED"),
    ],
)
def test_an_error_has_its_status_code_and_request_id(operator: httpx.Client, text: str, status: int, code: str) -> None:
    answer = operator.post("/v1/api/sql", json={"sql": text}, headers={"X-Request-Id": OWN_ID})
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
    assert answer.json()["error"]["request_id"] == answer.headers["X-Request-Id"] == OWN_ID


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"sql": 1}', b'{"sql": "SELECT 1", "x": 1}', b'{"sql": "\xff"}'])
def test_a_body_that_is_not_the_calls_is_an_invalid_argument(operator: httpx.Client, body: bytes) -> None:
    answer = operator.post("/v1/api/sql", content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_ARGUMENT")


def test_the_bounds_on_texts_hold_for_root_as_system_too(operator: httpx.Client) -> None:
    answer = run(operator, f"SELECT '{'x' * (1 << 20)}'")
    assert "text_bytes" in answer.json()["error"]["message"]


def test_a_query_beyond_the_memory_ends_as_an_error_also_of_the_operator(operator: httpx.Client) -> None:
    answer = run(operator, HEAVY["replace"])
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "UNSUPPORTED")
    assert "sql.memory_bytes" in answer.json()["error"]["message"]
    assert run(operator, "SELECT 1 AS one").json()["results"][0]["rows"] == [{"one": 1}]


def test_a_body_beyond_the_bound_is_refused(operator: httpx.Client) -> None:
    assert operator.post("/v1/api/sql", content=b" " * (16 * 1024 * 1024 + 1)).status_code == 413


def test_users_see_their_own_rows_alone(client: httpx.Client) -> None:
    for user in ("ann", "bob"):
        client.headers.update(bearer(login(client, user)["access_token"]))
        assert run(client, "INSERT INTO app.notes VALUES (1, ?)", params=[f"secret of {user}"]).status_code == 200
        answer = run(client, "SELECT body FROM app.notes")
        assert answer.json()["results"][0]["rows"] == [{"body": f"secret of {user}"}]
        assert run(client, "EXECUTE AS USER 'bo' (SELECT 1)").status_code == 403


def test_without_a_token_only_what_tells_nothing_answers(client: httpx.Client) -> None:
    assert run(client, "SELECT 1").status_code == 401
    assert client.post("/k3/v1/listTables", json={"bucket": "app"}).status_code == 401
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json() == {"status": "ready"}
    assert client.get("/absent").json()["error"]["code"] == "NOT_FOUND"
    assert client.get("/v1/api/sql").status_code == 405


def test_audit_log_and_jobs_name_the_request(operator: httpx.Client) -> None:
    text = "CREATE NAMESPACE traced; CREATE TABLE traced.t (id BIGINT PRIMARY KEY) WITH (TYPE = 'SHARED');"
    text += "INSERT INTO traced.t VALUES (1); STORAGE FLUSH TABLE traced.t"
    answer = operator.post("/v1/api/sql", json={"sql": text}, headers={"X-Request-Id": OWN_ID})
    assert answer.status_code == 200, answer.text
    ids = f"SELECT action AS what FROM system.audit_log WHERE request_id = '{OWN_ID}' AND target LIKE '%traced%'"
    ids += f" UNION ALL SELECT job_type FROM system.jobs WHERE request_id = '{OWN_ID}' ORDER BY what"
    assert [row["what"] for row in run(operator, ids).json()["results"][0]["rows"]] == [
        "CREATE_NAMESPACE",
        "CREATE_TABLE",
        "flush",
    ]


@pytest.mark.parametrize("given", ["ann", "x" * 65, "a b", "no-hex-at-all"])
def test_a_request_id_that_could_be_a_name_is_replaced(client: httpx.Client, given: str) -> None:
    assert client.get("/health", headers={"X-Request-Id": given}).headers["X-Request-Id"] != given


def test_a_body_with_a_key_twice_is_refused(operator: httpx.Client) -> None:
    body = '{"sql": "SELECT 1", "sql": "SELECT 2"}'
    answer = operator.post("/v1/api/sql", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert "twice" in answer.json()["error"]["message"]
