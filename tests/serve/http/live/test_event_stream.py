"""`GET /v1/subscribe`."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import count

import httpx
import pytest

from lakewarden import Lakehouse
from lakewarden.serve.tokens import operator_token
from lakewarden.tables.client import TableClient
from tests.fixtures.patience import PATIENCE
from tests.serve.conftest import Moving, bearer, login
from tests.serve.http.live.events import Told, changes, subscribed

ALL = "SELECT id, body FROM app.notes"
_numbers = count()


@pytest.fixture
def notes(lake: Lakehouse) -> TableClient:
    return lake.table("app.notes")


@pytest.fixture
def user(client: httpx.Client, lake: Lakehouse) -> str:
    """Whose token the client has: another one for each test."""
    name = f"u{next(_numbers)}"
    client.headers.update(bearer(operator_token(lake.warehouse, name, "user", timedelta(hours=1))))
    return name


def test_rows_come_first_and_then_each_change_of_them(
    client: httpx.Client, notes: TableClient, user: str, lake: Lakehouse
) -> None:
    notes.write([{"id": 1, "body": "a"}, {"id": 2, "body": ""}], user=user)
    with subscribed(client, f"{ALL} WHERE body <> ''") as events:
        (first,) = changes(events, 1)
        assert first.data == {"kind": "initial", "seq": first.data["seq"], "row": {"id": 1, "body": "a"}}
        assert first.kind == "initial"
        notes.write([{"id": 1, "body": "b"}, {"id": 3, "body": "c"}], user=user)
        lake.flush("app.notes")
        notes.delete([{"id": 1}], user=user)
        found = changes(events, 3)
    assert [(one.kind, one.data["kind"], one.id) for one in found] == [
        ("update", "update", 1),
        ("insert", "insert", 3),
        ("delete", "delete", 1),
    ]
    assert [one.place for one in found] == [str(one.data["seq"]) for one in found]


def test_the_id_of_any_event_continues_behind_it(client: httpx.Client, notes: TableClient, user: str) -> None:
    notes.write([{"id": 0, "body": ""}], user=user)
    with subscribed(client, ALL) as events:
        (first,) = changes(events, 1)
        assert first.place is not None, "the last initial row tells where the initial rows end"
        notes.write([{"id": number, "body": "x"} for number in range(1, 6)], user=user)
        places = [first.place, *(one.place for one in changes(events, 5))]
    for number, place in enumerate(places[:-1]):
        assert place is not None
        with subscribed(client, ALL, from_seq=place) as events:
            assert [one.id for one in changes(events, 5 - number)] == [*range(number + 1, 6)]
        with subscribed(client, f"SUBSCRIBE TO app.notes OPTIONS (from = {places[0]})", last=place, from_seq=-1) as events:
            assert changes(events, 1)[0].id == number + 1, "the last event's id is newer than what the address says"


def test_a_part_of_the_initial_rows_has_no_place(client: httpx.Client, notes: TableClient, user: str) -> None:
    notes.write([{"id": number, "body": ""} for number in range(3)], user=user)
    with subscribed(client, "SELECT id FROM notes", namespace="app") as events:
        assert [one.place is None for one in changes(events, 3)] == [True, True, False]


@pytest.mark.parametrize(
    ("given", "status", "code"),
    [
        ({}, 400, "INVALID_ARGUMENT"),
        ({"sql": ALL, "x": "1"}, 400, "INVALID_ARGUMENT"),
        ({"sql": [ALL, ALL]}, 400, "INVALID_ARGUMENT"),
        ({"sql": ALL, "from_seq": "one"}, 400, "INVALID_ARGUMENT"),
        ({"sql": ALL, "from_seq": str(1 << 60)}, 400, "INVALID_ARGUMENT"),
        ({"sql": "SELEC 1"}, 400, "SYNTAX_ERROR"),
        ({"sql": "DROP TABLE app.notes"}, 400, "INVALID_ARGUMENT"),
        ({"sql": "SELECT count(*) FROM app.notes"}, 400, "INVALID_ARGUMENT"),
        ({"sql": "SELECT * FROM app.absent"}, 404, "NOT_FOUND"),
        ({"sql": "SELECT * FROM system.users"}, 403, "PERMISSION_DENIED"),
        ({"sql": f"EXECUTE AS USER 'bob' (SUBSCRIBE TO ({ALL}))"}, 400, "SYNTAX_ERROR"),
        ({"sql": "EXECUTE AS USER 'bob' (SUBSCRIBE TO app.notes)"}, 403, "PERMISSION_DENIED"),
    ],
)
@pytest.mark.usefixtures("user")
def test_what_cannot_be_followed_is_an_answer_with_its_code(
    client: httpx.Client, given: dict[str, str | list[str]], status: int, code: str
) -> None:
    answer = client.get("/v1/subscribe", params=given)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text


def test_without_a_token_nothing_is_followed(client: httpx.Client) -> None:
    assert client.get("/v1/subscribe", params={"sql": ALL}).status_code == 401
    assert client.post("/v1/subscribe", params={"sql": ALL}).status_code == 405


def test_users_are_sent_their_own_rows_alone(client: httpx.Client, url: str, notes: TableClient) -> None:
    with httpx.Client(base_url=url, timeout=PATIENCE) as other:
        for one, name in ((client, "ann"), (other, "bob")):
            one.headers.update(bearer(login(one, name)["access_token"]))
        with subscribed(client, ALL) as hers, subscribed(other, ALL) as his:
            for number in range(3):
                notes.write([{"user": name, "id": number, "body": f"{name}'s"} for name in ("ann", "bob")], user_column="user")
            for events, name in ((hers, "ann"), (his, "bob")):
                assert {str(one.data["row"]) for one in changes(events, 3)} == {
                    str({"id": number, "body": f"{name}'s"}) for number in range(3)
                }


def test_a_heartbeat_moves_the_place_past_rows_of_others(client: httpx.Client, notes: TableClient, user: str) -> None:
    with subscribed(client, ALL) as events:
        before = next(events)
        assert before.place is not None
        assert not before.data
        notes.write([{"id": 1, "body": "someone else's"}], user="bob")
        after = next(event for event in events if event.place != before.place)
        assert not after.data
        assert after.place is not None
    with subscribed(client, ALL, last=after.place) as events:
        notes.write([{"id": 7, "body": ""}], user=user)
        assert changes(events, 1)[0].id == 7


@pytest.mark.usefixtures("looks_often")
@pytest.mark.parametrize("how", ["logged out", "changed", "expired"])
def test_a_token_that_ends_ends_its_stream(client: httpx.Client, lake: Lakehouse, clock: Moving, how: str) -> None:
    clock.moved += timedelta(minutes=2)
    token = bearer(login(client, "eve")["access_token"])
    client.headers.update(token)
    with subscribed(client, ALL) as events:
        next(events)
        match how:
            case "logged out":
                assert client.post("/v1/auth/logout").status_code == 200
            case "changed":
                clock.moved += timedelta(seconds=2)
                lake.sql("ALTER USER eve SET EMAIL 'e@example.org'")
            case "expired":
                clock.moved += timedelta(minutes=15)
        *_, last = events
    assert (last.kind, last.data["kind"]) == ("error", "error")
    error = last.data["error"]
    assert isinstance(error, dict)
    assert error["code"] == "PERMISSION_DENIED"
    assert error["message"] == ("the token has expired" if how == "expired" else "the token was revoked: log in again")
    assert client.get("/v1/subscribe", params={"sql": ALL}).status_code == 401
    if how != "expired":  # an end that everyone could foresee is no refusal
        found = lake.sql(
            "SELECT actor_user_id AS u FROM system.audit_log WHERE action = 'TOKEN_REFUSED' AND details NOT LIKE '%from%'"
        )
        assert {"u": "eve"} in found[0].to_pylist()  # type: ignore[union-attr]  # a SELECT has rows


@pytest.mark.parametrize(
    ("statement", "code"), [("DROP TABLE app.brief", "NOT_FOUND"), ("KILL LIVE QUERY '{}'", "CONFLICT")], ids=["drop", "kill"]
)
def test_what_ends_a_subscription_is_its_last_event(
    client: httpx.Client, lake: Lakehouse, user: str, statement: str, code: str
) -> None:
    lake.sql("CREATE TABLE IF NOT EXISTS app.brief (id BIGINT PRIMARY KEY) WITH (TYPE = 'USER')")
    with subscribed(client, "SELECT id FROM app.brief") as events:
        next(events)
        (live,) = (one for one in lake.live_queries() if one.user == user)
        lake.sql(statement.format(live.live_id))
        *_, last = events
    error = last.data["error"]
    assert isinstance(error, dict)
    assert (last.kind, error["code"]) == ("error", code)
    assert user not in {one.user for one in lake.live_queries()}


@pytest.mark.usefixtures("user")
def test_a_user_follows_a_limited_number_at_a_time(client: httpx.Client) -> None:
    with subscribed(client, ALL), subscribed(client, ALL):
        with subscribed(client, ALL):
            refused = client.get("/v1/subscribe", params={"sql": ALL})
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "CONFLICT")
            assert "serve.subscriptions_per_user" in refused.text
            assert refused.headers["Retry-After"] == "1"
        while client.get("/v1/subscribe", params={"sql": "SELECT 1 FROM app.notes, app.notes"}).status_code == 429:
            pass  # until the server has noticed that the third one left


def test_rows_beyond_the_bound_are_refused(client: httpx.Client, notes: TableClient, user: str) -> None:
    notes.write([{"id": number, "body": ""} for number in range(20_001)], user=user)
    answer = client.get("/v1/subscribe", params={"sql": ALL})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "UNSUPPORTED")
    assert "sql.subscription_rows" in answer.json()["error"]["message"]
    with subscribed(client, f"{ALL} WHERE id < 20000") as events:
        assert {one.id for one in changes(events, 20_000)} == {*range(20_000)}


def test_a_client_that_does_not_read_is_ended_and_misses_nothing_later(
    client: httpx.Client, url: str, lake: Lakehouse, notes: TableClient, user: str
) -> None:
    batches, rows = 10, 30
    small = httpx.HTTPTransport(socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)])
    with (
        httpx.Client(base_url=url, headers=client.headers, transport=small, timeout=PATIENCE) as deaf,
        subscribed(deaf, ALL) as events,
    ):
        next(events)
        for batch in range(batches):
            notes.write([{"id": batch * rows + number, "body": "x" * 30_000} for number in range(rows)], user=user)
        while user in {one.user for one in lake.live_queries()}:
            time.sleep(0.1)
        got = [one for one in _until_cut(events) if one.data]
    ids = [one.id for one in got if one.kind != "error"]
    assert ids == [*range(len(ids))]
    assert len(ids) < rows * batches, "what was not read did not wait in memory"
    with subscribed(client, ALL, from_seq=str(got[len(ids) - 1].data["seq"])) as events:
        assert [one.id for one in changes(events, rows * batches - len(ids))] == [*range(len(ids), rows * batches)]


def _until_cut(events: Iterator[Told]) -> Iterator[Told]:
    with suppress(httpx.RemoteProtocolError):
        yield from events
