"""The beginning of a connection: TLS, what the client wants, and who it is from."""

from __future__ import annotations

import asyncio
import ssl
from asyncio import StreamReader, StreamWriter
from dataclasses import dataclass, replace

from starlette.concurrency import run_in_threadpool

from lakewarden.client import Lakehouse
from lakewarden.errors import LakewardenError
from lakewarden.serve.authority import Authority
from lakewarden.serve.postgres.peers import Key
from lakewarden.serve.postgres.wire import replies
from lakewarden.serve.postgres.wire.messages import Fields, MalformedMessage, message, startup_packet
from lakewarden.serve.postgres.wire.problems import NO_DATABASE, PROTOCOL, WRONG_USER, ProtocolError, problem_of
from lakewarden.serve.refusal import RequestDeclined
from lakewarden.serve.tokens import AccessToken
from lakewarden.sql.session import SqlSession

SECONDS = 30
"""For a client to say who it is."""

_VERSION_3 = 3 << 16
_CANCEL, _TLS, _GSS = 80877102, 80877103, 80877104
_PASSWORD_BYTES = 1 << 16
_QUOTE = '"'
_NO_NAMESPACE = "postgres"
"""The database that tools connect to before there is another: no namespace is in use."""


@dataclass(frozen=True)
class StartupParameters:
    """What a startup packet says: the parameters by name, among them `user` and `database`."""

    given: dict[str, str]
    minor: int

    @property
    def user(self) -> str:
        return self.given.get("user", "")

    @property
    def database(self) -> str:
        return self.given.get("database") or self.user


@dataclass(frozen=True)
class Cancel:
    """A request to end what another connection runs."""

    key: Key


async def negotiated(reader: StreamReader, writer: StreamWriter, tls: ssl.SSLContext | None) -> StartupParameters | Cancel:
    """Raises:
    Malformed: it is no such packet.
    Problem: another version of the protocol, or no TLS where the server has a certificate.
    """
    secure = False
    for _ in range(3):  # GSS is asked for before TLS, and TLS before the rest
        packet = await startup_packet(reader)
        code = packet.int32()
        if code == _CANCEL:
            return Cancel((packet.int32(), packet.int32()))
        if code == _TLS and not secure:
            await _check_nothing_follows(reader)
            secure = await _secured(writer, tls)
        elif code == _GSS:
            writer.write(b"N")
        elif code in (_TLS, _GSS):
            break
        elif code >> 16 != 3:
            raise ProtocolError(
                PROTOCOL, f"version {code >> 16}.{code & 0xFFFF} of the protocol is not served: 3.0 is", fatal=True
            )
        else:
            if tls is not None and not secure:
                raise ProtocolError(WRONG_USER, "this server takes connections over TLS alone: sslmode=require", fatal=True)
            wanted = StartupParameters(_given(packet), code - _VERSION_3)
            if not wanted.user:
                raise ProtocolError(WRONG_USER, "the startup packet names no user", fatal=True)
            return wanted
    raise MalformedMessage("encryption is requested again and again")


async def _check_nothing_follows(reader: StreamReader) -> None:
    """What somebody else put behind a request for TLS would count as said by the client."""
    try:
        async with asyncio.timeout(0):
            sent = await reader.read(1)
    except TimeoutError:
        return
    if sent:
        raise MalformedMessage("something follows a request for TLS before its answer")


async def _secured(writer: StreamWriter, tls: ssl.SSLContext | None) -> bool:
    writer.write(b"N" if tls is None else b"S")
    if tls is not None:
        await writer.start_tls(tls)
    return tls is not None


def _given(packet: Fields) -> dict[str, str]:
    found: dict[str, str] = {}
    while name := packet.text():
        found[name] = packet.text()
    return found


async def authenticated(
    reader: StreamReader, writer: StreamWriter, authority: Authority, wanted: StartupParameters, address: str
) -> AccessToken:
    """Asks for the password, or for a token in its place.

    Raises:
        Problem: the user, the password or the token is wrong, or too many were.
        Malformed: the answer is no password.
    """
    writer.write(replies.PASSWORD_WANTED)
    await writer.drain()
    letter, answer = await message(reader, _PASSWORD_BYTES)
    if letter != b"p":
        raise MalformedMessage("a password was expected")
    try:
        return await run_in_threadpool(authority.enter, wanted.user, answer.text(), address)
    except RequestDeclined as declined:
        raise problem_of(declined, fatal=True) from declined


def opened_session(lake: Lakehouse, token: AccessToken, wanted: StartupParameters, connection_id: str) -> SqlSession:
    """The connection's SQL session, with the database as the namespace in use.

    Raises:
        Problem: there is no such namespace.
    """
    session = lake.sessions.served(replace(token.principal, request_id=connection_id), connected=True)
    name = wanted.database
    if name == _NO_NAMESPACE and name not in lake.warehouse.catalog.recent().namespaces:
        return session
    try:
        session.sql(f'USE "{name.replace(_QUOTE, 2 * _QUOTE)}"')
    except LakewardenError as error:
        text = f"there is no namespace {name!r}, which a database is here; {_NO_NAMESPACE!r} is none of them"
        raise ProtocolError(NO_DATABASE, text, fatal=True) from error
    return session
