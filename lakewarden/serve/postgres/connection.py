"""One connection: its messages in, their answers out. Nothing that a client sends ends more than its own connection."""

from __future__ import annotations

import asyncio
import select
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from starlette.concurrency import run_in_threadpool

from lakewarden.client import Lakehouse
from lakewarden.errors import LakewardenError
from lakewarden.serve.authority import Authority, RequestDeclined
from lakewarden.serve.common import Common
from lakewarden.serve.postgres import replies
from lakewarden.serve.postgres.dialogue import Dialogue
from lakewarden.serve.postgres.messages import Fields, MalformedMessage, message, startup_packet
from lakewarden.serve.postgres.peers import Key
from lakewarden.serve.postgres.problems import (
    IDLE_BLOCK,
    NO_DATABASE,
    PROTOCOL,
    SHUTDOWN,
    TOO_MANY,
    WRONG_USER,
    ProtocolError,
    problem_of,
)
from lakewarden.serve.postgres.state import State
from lakewarden.serve.postgres.variables import Variables
from lakewarden.serve.postgres.working import Working
from lakewarden.serve.tokens import AccessToken
from lakewarden.sql.session import SqlSession

# The beginning of a connection: TLS, what the client wants, and who it is from.
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

    key: Key = field(repr=False)


async def negotiated(reader: StreamReader, writer: StreamWriter, tls: ssl.SSLContext | None) -> StartupParameters | Cancel:
    """Raises:
    Malformed: it is not such a packet.
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
            secure = tls is not None
            writer.write(b"S" if secure else b"N")
            if tls is not None:
                await writer.start_tls(tls)
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
        Malformed: the answer is not a password.
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


_GONE = (asyncio.IncompleteReadError, ConnectionError, TimeoutError, ssl.SSLError)
_END = b"X"


@dataclass(frozen=True)
class Service:
    """What all connections of a process share."""

    common: Common
    tls: ssl.SSLContext | None
    cancel: Callable[[Key], None]


class ClientConnection:
    """`full`: whether there are as many others as the server takes."""

    def __init__(self, service: Service, reader: StreamReader, writer: StreamWriter, key: Key, *, full: bool) -> None:
        self._service = service
        self._reader = reader
        self._writer = writer
        self._key = key
        self._full = full
        self._id = service.common.new_id()
        self._dialogue: Dialogue | None = None
        self._stopping = False

    async def serve(self) -> None:
        """Serves the connection until one side ends it."""
        try:
            await self._serve()
        except ProtocolError as problem:
            self._writer.write(replies.error(problem))
        except MalformedMessage as malformed:
            self._writer.write(replies.error(ProtocolError(PROTOCOL, str(malformed), fatal=True)))
        except _GONE:
            pass  # it left without a word, or took no bytes for too long
        finally:
            await self._close()

    def cancel(self) -> None:
        """Ends the query that runs, if one does."""
        if self._dialogue is not None:
            self._dialogue.cancel()

    def stop(self) -> None:
        """Ends the connection, behind the answer to what it has begun."""
        self._stopping = True
        if self._dialogue is None or not self._dialogue.busy:
            self._say_goodbye()

    def _say_goodbye(self) -> None:
        self._writer.write(replies.error(ProtocolError(SHUTDOWN, "the server stops", fatal=True)))
        self._writer.close()

    async def _serve(self) -> None:
        async with asyncio.timeout(SECONDS):
            wanted = await negotiated(self._reader, self._writer, self._service.tls)
            if isinstance(wanted, Cancel):
                self._service.cancel(wanted.key)
                return
            if self._full:
                raise ProtocolError(TOO_MANY, "there are too many connections (serve.postgres_connections)", fatal=True)
            address = str((self._writer.get_extra_info("peername") or ("",))[0])
            token = await authenticated(self._reader, self._writer, self._service.common.authority, wanted, address)
        state = await run_in_threadpool(self._opened, token, wanted)
        self._greet(state, wanted)
        common, settings = self._service.common, self._service.common.lake.warehouse.settings
        working = Working(common, token, self._id, state, settings.sql.timeout_seconds, self._has_left)
        self._dialogue = Dialogue(self._writer, state, working)
        try:
            while not self._stopping or self._dialogue.busy:
                await self._writer.drain()
                letter, fields = await self._next_message(state, settings.serve.body_bytes)
                if letter == _END:
                    return
                await self._dialogue.answer(letter, fields)
            self._say_goodbye()
        finally:
            state.block.drop()

    async def _next_message(self, state: State, most: int) -> tuple[bytes, Fields]:
        """Raises Problem: the client left a block open for too long."""
        try:
            async with asyncio.timeout(self._idle_seconds(state)):
                return await message(self._reader, most)
        except TimeoutError as error:
            state.block.drop()
            text = "the block had no statement for too long (sql.block_idle_seconds, or idle_in_transaction_session_timeout):"
            raise ProtocolError(IDLE_BLOCK, f"{text} nothing of it was written", fatal=True) from error

    def _idle_seconds(self, state: State) -> float | None:
        """How long the client may wait with its next message."""
        if not state.block.open:
            return None
        seconds = self._service.common.lake.warehouse.settings.sql.block_idle_seconds
        return min(seconds, state.variables.idle_seconds or seconds)

    def _has_left(self) -> bool:
        """Whether the client has closed its side, behind whatever it sent before."""
        handle: int = self._writer.get_extra_info("socket").fileno()
        if handle < 0:
            return True
        looking = select.poll()
        looking.register(handle, getattr(select, "POLLRDHUP", 0))
        return bool(looking.poll(0))

    def _opened(self, token: AccessToken, wanted: StartupParameters) -> State:
        session = opened_session(self._service.common.lake, token, wanted, self._id)
        variables = Variables(token.principal.user)
        variables.begin(wanted.given)
        settings = self._service.common.lake.warehouse.settings
        return State(session, variables, settings.serve.body_bytes, settings.sql.result_bytes)

    def _greet(self, state: State, wanted: StartupParameters) -> None:
        options = [name for name in wanted.given if name.startswith("_pq_.")]
        if wanted.minor or options:
            self._writer.write(replies.newest_protocol(options))
        self._writer.write(replies.AUTHENTICATED)
        for name, value in state.variables.reported():
            self._writer.write(replies.parameter(name, value))
        self._writer.write(replies.key(*self._key) + replies.ready(b"I"))

    async def _close(self) -> None:
        try:
            self._writer.close()
            await self._writer.wait_closed()
        except _GONE:
            pass  # the other side was quicker
