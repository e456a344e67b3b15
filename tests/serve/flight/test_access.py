"""Who may, over Flight SQL: passwords, tokens and tickets; and what is refused and audited."""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import timedelta
from typing import TypeAlias

import grpc
import pytest
from adbc_driver_flightsql import DatabaseOptions, dbapi
from adbc_driver_manager import Error

from lakewarden import Lakehouse
from lakewarden.catalog.access import Principal
from lakewarden.errors import InvalidArgument
from lakewarden.serve.common import Common, Listening
from lakewarden.serve.flight.messages import decoded, packed
from lakewarden.serve.flight.messages_pb2 import CommandStatementQuery, FlightDescriptor, FlightInfo, Ticket
from lakewarden.serve.flight.service import served
from lakewarden.serve.flight.tickets import StatementTicket, Tickets
from lakewarden.serve.tokens import SigningKeys
from tests.serve.conftest import PASSWORD, Moving
from tests.serve.flight.conftest import Connect

pytestmark = pytest.mark.xdist_group("flight")

SERVICE = "/arrow.flight.protocol.FlightService"
Tokens = Callable[[str], str]
Unary: TypeAlias = "grpc.UnaryUnaryMultiCallable[bytes, bytes]"


def by_password(flight: str, user: str, password: str) -> dbapi.Connection:
    return dbapi.connect(flight, db_kwargs={"username": user, "password": password}, autocommit=True)


def by_header(flight: str, value: str) -> dbapi.Connection:
    return dbapi.connect(flight, db_kwargs={DatabaseOptions.AUTHORIZATION_HEADER.value: value}, autocommit=True)


def ask(connection: dbapi.Connection) -> object:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user()")
        return cursor.fetchone()


def actions(lake: Lakehouse) -> list[str]:
    found = lake.sql("SELECT action FROM system.audit_log ORDER BY timestamp, audit_id")[0]
    return [str(row["action"]) for row in found.to_pylist()]  # type: ignore[union-attr]  # a SELECT has rows


def info_of(channel: grpc.Channel, token: str, query: str) -> FlightInfo:
    command = FlightDescriptor(type="CMD", cmd=packed(CommandStatementQuery(query=query))).SerializeToString()
    call: Unary = channel.unary_unary(f"{SERVICE}/GetFlightInfo")
    return decoded(FlightInfo, call(command, metadata=(("authorization", f"Bearer {token}"),)))


def fetched(channel: grpc.Channel, token: str, ticket: bytes) -> list[bytes]:
    call: grpc.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(f"{SERVICE}/DoGet")
    return list(call(Ticket(ticket=ticket).SerializeToString(), metadata=(("authorization", f"Bearer {token}"),)))


def test_a_password_gives_a_connection_that_outlives_an_access_token(flight: str, lake: Lakehouse, clock: Moving) -> None:
    with by_password(flight, "ann", PASSWORD) as connection:
        assert ask(connection) == ("ann",)
        clock.moved += timedelta(hours=11)
        assert ask(connection) == ("ann",)
        clock.moved += timedelta(hours=2)
        with pytest.raises(Error, match="expired"):
            ask(connection)
    assert [*dict.fromkeys(actions(lake)[-3:])] == ["LOGIN", "TOKEN_REFUSED"]  # the driver tries twice


@pytest.mark.parametrize("user", ["ann", "unknown"])
def test_a_wrong_password_is_refused_audited_and_limited(flight: str, lake: Lakehouse, clock: Moving, user: str) -> None:
    clock.moved += timedelta(minutes=2)
    for _ in range(2):
        with pytest.raises(Error, match="PERMISSION_DENIED: user or password is wrong") as raised:
            by_password(flight, user, "wrong")
        assert raised.value.status_code.name == "UNAUTHENTICATED"
    assert actions(lake)[-1] == "LOGIN_REFUSED"


def test_an_address_is_limited_after_refused_tokens_and_one_that_works_is_not(flight: str, clock: Moving, tokens: Tokens) -> None:
    clock.moved += timedelta(minutes=2)
    for _ in range(10):
        with by_header(flight, "Bearer no.token") as connection, pytest.raises(Error):
            ask(connection)
    with by_header(flight, "Bearer no.token") as connection, pytest.raises(Error, match="refusals_per_minute"):
        ask(connection)
    with by_header(flight, f"Bearer {tokens('ann')}") as connection:
        ask(connection)
    clock.moved += timedelta(minutes=2)


@pytest.mark.parametrize("value", ["", "Basic bm9uZQ==", "Basic é", "Digest x", "Bearer"])
def test_without_a_token_nothing_is_told(flight: str, clock: Moving, value: str) -> None:
    clock.moved += timedelta(minutes=2)
    with grpc.insecure_channel(flight.removeprefix("grpc://")) as channel:
        for method in ("GetFlightInfo", "DoGet", "DoPut", "DoAction", "Handshake"):
            call: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(f"{SERVICE}/{method}")
            with pytest.raises(grpc.RpcError) as raised:
                list(call(iter([b""]), metadata=(("authorization", value.encode("latin-1")),) if value.isascii() else ()))
            assert raised.value.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED)


def test_a_message_beyond_the_bound_is_refused_before_its_token_is_read(flight: str, lake: Lakehouse) -> None:
    most = lake.warehouse.settings.serve.body_bytes
    with grpc.insecure_channel(flight.removeprefix("grpc://"), options=[("grpc.max_send_message_length", -1)]) as channel:
        call: Unary = channel.unary_unary(f"{SERVICE}/GetFlightInfo")
        with pytest.raises(grpc.RpcError) as raised:
            call(bytes(most + 1))
        assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_users_see_their_own_rows_alone(connected: Connect) -> None:
    for user in ("ann", "bob"):
        with connected(user).cursor() as cursor:
            cursor.execute("INSERT INTO app.notes VALUES (100, 'secret of ' || current_user())")
            cursor.execute("SELECT body FROM app.notes WHERE id = 100")
            assert cursor.fetchall() == [(f"secret of {user}",)]
            with pytest.raises(Error, match="PERMISSION_DENIED"):
                cursor.execute("EXECUTE AS USER 'bo' (SELECT 1)")


def test_a_ticket_of_another_user_is_refused_and_so_is_a_forged_one(flight: str, lake: Lakehouse, tokens: Tokens) -> None:
    ann, bob = tokens("ann"), tokens("bob")
    warehouse = lake.warehouse
    with grpc.insecure_channel(flight.removeprefix("grpc://")) as channel:
        for query in ("SELECT 1", "INSERT INTO app.notes VALUES (200, 'once')"):
            ticket = info_of(channel, ann, query).endpoint[0].ticket.ticket
            assert fetched(channel, ann, ticket) == fetched(channel, ann, ticket)  # no second write: it would fail
            elsewhere = Tickets(SigningKeys(warehouse.state), "another", warehouse.clock)
            other_role = Tickets(SigningKeys(warehouse.state), warehouse.id, warehouse.clock)
            forged = [
                ticket[:-1] + bytes([ticket[-1] ^ 1]),
                bytes(32) + ticket[32:],
                b"",
                elsewhere.sign(StatementTicket("SELECT 1"), Principal("bob", "user")),
                other_role.sign(StatementTicket("SELECT 1"), Principal("bob", "dba")),
            ]
            for each in (ticket, *forged):
                with pytest.raises(grpc.RpcError) as raised:
                    fetched(channel, bob, each)
                assert raised.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_a_ticket_that_is_signed_for_a_write_brings_no_rows(flight: str, lake: Lakehouse, tokens: Tokens) -> None:
    warehouse = lake.warehouse
    tickets = Tickets(SigningKeys(warehouse.state), warehouse.id, warehouse.clock)
    ticket = tickets.sign(StatementTicket("INSERT INTO app.notes VALUES (300, 'x')"), Principal("ann", "user"))
    with grpc.insecure_channel(flight.removeprefix("grpc://")) as channel, pytest.raises(grpc.RpcError, match="this text writes"):
        fetched(channel, tokens("ann"), ticket)


def test_a_port_in_use_is_an_error(lake: Lakehouse) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = Listening("127.0.0.1", 0, taken.getsockname()[1])
        with pytest.raises(InvalidArgument, match="cannot listen"), served(Common.of(lake), port):
            pass
