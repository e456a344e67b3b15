"""`/v1/ws`, in front of a stock client."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from urllib.parse import urlencode

import httpx
import pytest
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from lakewarden import Lakehouse
from lakewarden.base.json_values import Json
from lakewarden.serve.tokens import operator_token
from tests.fixtures.patience import PATIENCE
from tests.serve.conftest import Moving, bearer, login

ALL = "SELECT id FROM app.notes"


def following(url: str, token: str | None, **given: str | int) -> ClientConnection:
    headers = None if token is None else bearer(token)
    address = f"{url.replace('http', 'ws', 1)}/v1/ws?{urlencode(given)}"
    return connect(address, additional_headers=headers, open_timeout=PATIENCE)


def heard(socket: ClientConnection) -> dict[str, Json]:
    """The next message that is no heartbeat."""
    while True:
        found = json.loads(socket.recv(timeout=PATIENCE))
        assert isinstance(found, dict)
        if found["kind"] != "heartbeat":
            return found


def token_of(lake: Lakehouse, user: str) -> str:
    return operator_token(lake.warehouse, user, "user", timedelta(hours=1))


def test_messages_are_the_events_and_any_seq_continues_behind_it(url: str, lake: Lakehouse) -> None:
    notes, token = lake.table("app.notes"), token_of(lake, "w1")
    notes.write([{"id": 1, "body": ""}], user="w1")
    with following(url, token, sql=ALL) as socket:
        first = heard(socket)
        assert first == {"kind": "initial", "seq": first["seq"], "row": {"id": 1}}
        notes.write([{"id": 2, "body": ""}, {"id": 3, "body": ""}], user="w1")
        second = heard(socket)
        assert (second["kind"], second["row"]) == ("insert", {"id": 2})
    with following(url, token, sql=ALL, from_seq=str(second["seq"])) as socket:
        third = heard(socket)
        assert (third["kind"], third["row"]) == ("insert", {"id": 3})
        beat = json.loads(socket.recv(timeout=PATIENCE))
        assert beat["kind"] == "heartbeat"
        assert beat["seq"] >= third["seq"]


@pytest.mark.parametrize(
    ("sql", "with_token", "status", "code"),
    [
        (ALL, False, 401, "PERMISSION_DENIED"),
        ("SELECT 1 FROM app.absent", True, 404, "NOT_FOUND"),
        ("", True, 400, "INVALID_ARGUMENT"),
    ],
)
def test_a_refusal_is_an_answer_of_http(url: str, lake: Lakehouse, sql: str, with_token: bool, status: int, code: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        following(url, token_of(lake, "w2") if with_token else None, sql=sql)
    answer = refused.value.response
    assert answer.status_code == status
    error = json.loads(answer.body)["error"]
    assert error["code"] == code
    assert error["request_id"] == answer.headers["X-Request-Id"]


def test_a_browser_names_its_token_as_a_subprotocol(url: str, lake: Lakehouse) -> None:
    lake.table("app.notes").write([{"id": 5, "body": ""}], user="w3")
    protocols = [Subprotocol("bearer"), Subprotocol(token_of(lake, "w3"))]
    address = f"{url.replace('http', 'ws', 1)}/v1/ws?{urlencode({'sql': ALL})}"
    with connect(address, subprotocols=protocols, open_timeout=PATIENCE) as socket:
        assert socket.subprotocol == "bearer"
        assert heard(socket)["row"] == {"id": 5}


@pytest.mark.usefixtures("looks_often")
def test_a_token_that_is_revoked_ends_the_socket_with_its_code(
    client: httpx.Client, url: str, lake: Lakehouse, clock: Moving
) -> None:
    clock.moved += timedelta(minutes=2)
    token = login(client, "bob")["access_token"]
    with following(url, token, sql=ALL) as socket:
        assert client.post("/v1/auth/logout", headers=bearer(token)).status_code == 200
        last = heard(socket)
        with pytest.raises(ConnectionClosedError) as closed:
            socket.recv(timeout=PATIENCE)
    error = last["error"]
    assert isinstance(error, dict)
    assert (last["kind"], error["code"]) == ("error", "PERMISSION_DENIED")
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4401
    while "bob" in {one.user for one in lake.live_queries()}:
        time.sleep(0.05)  # the socket is closed first
