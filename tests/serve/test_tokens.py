"""Logins and tokens: what works, and what is refused and audited."""

from __future__ import annotations

from datetime import timedelta

import httpx
import jwt
import pytest

from lakewarden import Lakehouse
from lakewarden.serve.tokens import operator_token
from tests.serve.conftest import PASSWORD, Moving, bearer, login

ONE = {"sql": "SELECT current_user() AS u"}


def ask(client: httpx.Client, token: str) -> httpx.Response:
    return client.post("/v1/api/sql", json=ONE, headers=bearer(token))


def newest(lake: Lakehouse) -> tuple[str, str]:
    found = lake.sql("SELECT action, target FROM system.audit_log ORDER BY timestamp DESC, audit_id LIMIT 1")[0]
    row = found.to_pylist()[0]  # type: ignore[union-attr]  # a SELECT has rows
    return str(row["action"]), str(row["target"])


def test_a_login_gives_a_token_that_works_as_its_user(client: httpx.Client) -> None:
    found = login(client, "ann")
    assert ask(client, found["access_token"]).json()["results"][0]["rows"] == [{"u": "ann"}]


def test_an_operators_token_works_for_a_user_that_the_catalog_lacks(client: httpx.Client, lake: Lakehouse) -> None:
    token = operator_token(lake.warehouse, "carol", "user", timedelta(minutes=1))
    assert ask(client, token).json()["results"][0]["rows"] == [{"u": "carol"}]


@pytest.mark.parametrize("user", ["ann", "unknown", "x" * 300])
def test_a_wrong_password_is_refused_and_audited(client: httpx.Client, lake: Lakehouse, user: str) -> None:
    answer = client.post("/v1/auth/login", json={"user": user, "password": "wrong"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "PERMISSION_DENIED")
    assert newest(lake) == ("LOGIN_REFUSED", f"user:{user if len(user) < 300 else 'anonymous'}")


def forged(token: str, lake: Lakehouse, how: str) -> str:
    claims = jwt.decode(token, options={"verify_signature": False})
    key_id = jwt.get_unverified_header(token)["kid"]
    match how:
        case "none":
            return jwt.encode(claims, "", "none", headers={"kid": key_id})
        case "other key":
            return jwt.encode(claims, "x" * 32, "HS256", headers={"kid": key_id})
        case "other algorithm":
            secret = lake.warehouse.state.get(f"serve/keys/{key_id}")
            return jwt.encode(claims, secret + secret, "HS512", headers={"kid": key_id})
        case "path as key id":
            return jwt.encode(claims, "x" * 32, "HS256", headers={"kid": "../../warehouse.json"})
        case "another user":
            head, _, rest = token.partition(".")
            other = jwt.encode(claims | {"sub": "bob"}, "x" * 32, "HS256").split(".")[1]
            return f"{head}.{other}.{rest.partition('.')[2]}"
        case "another warehouse":
            secret = lake.warehouse.state.get(f"serve/keys/{key_id}")
            return jwt.encode(claims | {"aud": "other"}, secret, "HS256", headers={"kid": key_id})
        case _:
            return how


@pytest.mark.parametrize(
    "how", ["none", "other key", "other algorithm", "path as key id", "another user", "another warehouse", "no.token.é"]
)
def test_a_forged_token_is_refused_and_audited(client: httpx.Client, lake: Lakehouse, clock: Moving, how: str) -> None:
    clock.moved += timedelta(minutes=2)  # refusals of the tests before count no longer
    token = forged(login(client, "ann")["access_token"], lake, how)
    answer = client.post("/v1/api/sql", json=ONE, headers={b"Authorization": f"Bearer {token}".encode()})
    assert answer.status_code == 401, answer.text
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert newest(lake)[0] == "TOKEN_REFUSED"


def test_refused_tokens_delay_no_login_and_no_token_that_works(client: httpx.Client, clock: Moving) -> None:
    clock.moved += timedelta(minutes=2)
    token = login(client, "ann")["access_token"]
    assert [ask(client, "no.token").status_code for _ in range(11)] == [401] * 10 + [429]
    assert ask(client, token).status_code == 200
    assert ask(client, login(client, "ann")["access_token"]).status_code == 200


def test_a_token_expires_and_its_key_is_removed_in_time(client: httpx.Client, lake: Lakehouse, clock: Moving) -> None:
    clock.moved += timedelta(minutes=2)
    token = login(client, "ann")["access_token"]
    clock.moved += timedelta(minutes=15)
    assert "expired" in ask(client, token).json()["error"]["message"]
    clock.moved += timedelta(days=2)
    assert ask(client, login(client, "ann")["access_token"]).status_code == 200
    assert len(lake.warehouse.state.keys("serve/keys")) == 1


def test_a_logout_ends_all_tokens_of_its_login_and_no_others(client: httpx.Client, clock: Moving) -> None:
    clock.moved += timedelta(minutes=2)
    one, other = login(client, "ann"), login(client, "ann")
    assert client.post("/v1/auth/logout", headers=bearer(one["access_token"])).status_code == 200
    assert ask(client, one["access_token"]).status_code == 401
    assert client.post("/v1/auth/refresh", json={"refresh_token": one["refresh_token"]}).status_code == 401
    assert ask(client, other["access_token"]).status_code == 200


def test_a_replayed_refresh_token_ends_its_login(client: httpx.Client, lake: Lakehouse, clock: Moving) -> None:
    clock.moved += timedelta(minutes=2)
    first = login(client, "bob")
    second = client.post("/v1/auth/refresh", json={"refresh_token": first["refresh_token"]}).json()
    assert ask(client, second["access_token"]).status_code == 200
    assert client.post("/v1/auth/refresh", json={"refresh_token": first["refresh_token"]}).status_code == 401
    assert newest(lake) == ("REFRESH_REPLAYED", "user:bob")
    assert ask(client, second["access_token"]).status_code == 401
    assert client.post("/v1/auth/refresh", json={"refresh_token": second["refresh_token"]}).status_code == 401


def test_a_changed_user_loses_every_token(client: httpx.Client, lake: Lakehouse, clock: Moving) -> None:
    clock.moved += timedelta(minutes=2)
    found = login(client, "bob")
    by_operator = operator_token(lake.warehouse, "bob", "dba", timedelta(minutes=5))
    clock.moved += timedelta(seconds=1)
    lake.sql("ALTER USER bob SET ROLE service")
    assert [ask(client, token).status_code for token in (found["access_token"], by_operator)] == [401, 401]
    assert client.post("/v1/auth/refresh", json={"refresh_token": found["refresh_token"]}).status_code == 401
    assert ask(client, login(client, "bob")["access_token"]).status_code == 200


@pytest.mark.parametrize("hours", [-9_000, -0.02, 0.02, 9_000])
def test_it_loses_them_whatever_the_clock_of_who_changes_it_says(
    client: httpx.Client, lake: Lakehouse, clock: Moving, hours: float
) -> None:
    clock.moved += timedelta(minutes=2)
    user = f"carl{hours:g}".replace(".", "_")
    lake.sql(f"CREATE USER \"{user}\" WITH PASSWORD '{PASSWORD}' ROLE user")
    with Lakehouse.open(lake.warehouse.uri, clock=lambda: clock() + timedelta(hours=hours)) as elsewhere:
        for role in ("service", "user"):
            found = login(client, user)
            assert ask(client, found["access_token"]).status_code == 200
            elsewhere.sql(f'ALTER USER "{user}" SET ROLE {role}')
            lake.warehouse.catalog.read()  # a server may know it as of a second ago
            assert ask(client, found["access_token"]).status_code == 401
            assert client.post("/v1/auth/refresh", json={"refresh_token": found["refresh_token"]}).status_code == 401
    found = login(client, user)
    assert (
        ask(
            client, client.post("/v1/auth/refresh", json={"refresh_token": found["refresh_token"]}).json()["access_token"]
        ).status_code
        == 200
    )


def test_a_token_of_an_earlier_release_says_when_it_was_issued_alone(
    client: httpx.Client, lake: Lakehouse, clock: Moving
) -> None:
    clock.moved += timedelta(minutes=2)
    made = login(client, "ann")["access_token"]
    key = jwt.get_unverified_header(made)["kid"]
    claims = jwt.decode(made, options={"verify_signature": False})
    del claims["changed"]
    older = jwt.encode(claims, lake.warehouse.state.get(f"serve/keys/{key}"), "HS256", headers={"kid": key})
    assert ask(client, older).status_code == 200
    clock.moved += timedelta(seconds=1)
    lake.sql("ALTER USER ann SET ROLE user")
    assert ask(client, older).status_code == 401


def test_guessing_a_password_is_limited_even_for_who_then_knows_it(client: httpx.Client, clock: Moving) -> None:
    clock.moved += timedelta(minutes=2)
    for _ in range(10):
        assert client.post("/v1/auth/login", json={"user": "ann", "password": "wrong"}).status_code == 401
    right = {"user": "ann", "password": PASSWORD}
    assert client.post("/v1/auth/login", json=right).status_code == 429
    clock.moved += timedelta(minutes=1, seconds=1)
    assert client.post("/v1/auth/login", json=right).status_code == 200


def test_no_object_holds_a_refresh_token_or_a_users_name(client: httpx.Client, lake: Lakehouse, clock: Moving) -> None:
    clock.moved += timedelta(minutes=2)
    token = login(client, "ann")["refresh_token"]
    state = lake.warehouse.state
    held = [state.get(key) for key in state.keys("serve/logins")]
    assert held
    assert not [text for text in held if b"ann" in text or token.encode() in text]
