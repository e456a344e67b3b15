"""Statements that take memory or time out of proportion, over HTTP: each ends as an error, and others are answered."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from benchmarks.measuring.memory import peak_bytes
from lakewarden import Lakehouse
from lakewarden.serve.tokens import operator_token
from tests.serve.process import Served, served
from tests.sql.query_engine.heavy import HEAVY

pytestmark = [pytest.mark.slow, pytest.mark.disk]

_MEMORY, _RESULT, _BODY = 64 << 20, 4 << 20, 12 << 20
_OVERSHOOT = 96 << 20
"""What the server may take beyond a result and the largest body: their copies as JSON, text and tree, and threads' stacks."""
_OTHERS = 16
_BETWEEN_SECONDS = 0.5
"""Between two look-ups of one of them: without, they would take the processor that the heavy ones are to take."""

_NAMED = (
    "replace",
    "list of texts",
    "list_concat",
    "to_json",
    "CTEs that double",
    "cross joins",
    "a result without end",
)
_LONG = {
    "a 10 MB INSERT": "INSERT INTO app.t VALUES " + ", ".join(f"({n}, '{'x' * 1000}')" for n in range(10_000)),
    "an IN list of a million": f"SELECT 1 WHERE 1 IN ({', '.join(map(str, range(1_000_000)))})",
    "20,000 statements": "SELECT 1; " * 20_000,
}
_ENVIRONMENT = {
    "LAKEWARDEN_SQL__MEMORY_BYTES": str(_MEMORY),
    "LAKEWARDEN_SQL__RESULT_BYTES": str(_RESULT),
    "LAKEWARDEN_SQL__TIMEOUT_SECONDS": "1.0",
    "LAKEWARDEN_SQL__THREADS": "1",
    "LAKEWARDEN_SQL__WORKERS": "3",
    "LAKEWARDEN_SERVE__BODY_BYTES": str(_BODY),
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    place = str(tmp_path / "w")
    with Lakehouse.open(place) as lake:
        lake.sql("CREATE NAMESPACE app; CREATE TABLE app.t (id BIGINT PRIMARY KEY, body TEXT) WITH (TYPE = 'USER')")
        users = ("heavy", *(f"u{number}" for number in range(_OTHERS)))
        tokens = {user: operator_token(lake.warehouse, user, "user", timedelta(hours=1)) for user in users}
        lake.table("app.t").write([{"user": user, "id": 1, "body": user} for user in users], user_column="user")
    with served(place, tokens, environment={**os.environ, **_ENVIRONMENT}) as started:
        yield started


def test_each_ends_as_an_error_with_a_code_and_others_are_answered(server: Served) -> None:
    over = threading.Event()

    def look_up(user: str) -> int:
        answered = 0
        with server.client(user) as client:
            while not over.wait(_BETWEEN_SECONDS) or not answered:
                answer = client.post("/v1/api/sql", json={"sql": "SELECT body FROM app.t WHERE id = ?", "params": [1]})
                if answer.status_code == 200:
                    assert answer.json()["results"][0]["rows"] == [{"body": user}]
                    answered += 1
                else:  # a machine that is busy enough leaves a worker no processor for as long as a query may take
                    assert "sql.timeout_seconds" in answer.text
        return answered

    with server.client("heavy") as client, ThreadPoolExecutor(_OTHERS) as pool:
        assert client.post("/v1/api/sql", json={"sql": "SELECT * FROM app.t"}).status_code == 200
        before = peak_bytes(server.pid)
        others = [pool.submit(look_up, f"u{number}") for number in range(_OTHERS)]
        try:
            ended = {name: client.post("/v1/api/sql", json={"sql": text}) for name, text in _statements().items()}
        finally:
            over.set()
        assert all(other.result() for other in others)
    assert {name: _outcome(answer) for name, answer in ended.items()} == {
        **dict.fromkeys(_NAMED, (422, "UNSUPPORTED")),
        **dict.fromkeys(_LONG, (400, "INVALID_ARGUMENT")),
    }
    assert peak_bytes(server.pid) - before <= 2 * _RESULT + _BODY + _OVERSHOOT


@pytest.mark.night
def test_a_large_answer_is_sent_without_being_held_as_objects(tmp_path: Path) -> None:
    """3 million rows are 24 MB as Arrow, 36 MB as JSON, and 700 MB as Python's objects."""
    place = str(tmp_path / "w")
    with Lakehouse.open(place) as lake:
        tokens = {"ann": operator_token(lake.warehouse, "ann", "user", timedelta(hours=1))}
    with served(place, tokens, environment=os.environ) as server, server.client("ann") as client:
        query = {"sql": "SELECT 1 AS one; SELECT range AS n FROM range(3000000)"}
        assert client.post("/v1/api/sql", json={"sql": "SELECT range AS n FROM range(10)"}).status_code == 200
        before = peak_bytes(server.pid)
        answer = client.post("/v1/api/sql", json=query)
        after = peak_bytes(server.pid)
    one, many = answer.json()["results"]
    assert one == {"columns": ["one"], "rows": [{"one": 1}]}
    assert [row["n"] for row in many["rows"]] == list(range(3_000_000))
    assert after - before <= 3 * (24 << 20) + _OVERSHOOT


def _statements() -> dict[str, str]:
    return {**{name: HEAVY[name] for name in _NAMED}, **_LONG}


def _outcome(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]
