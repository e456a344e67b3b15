"""One connection: its messages in, their answers out. Nothing that a client sends ends more than its own connection."""

from __future__ import annotations

import asyncio
import select
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool

from lakewarden.serve.common import Common
from lakewarden.serve.postgres import startup
from lakewarden.serve.postgres.dialogue import Dialogue
from lakewarden.serve.postgres.peers import Key
from lakewarden.serve.postgres.startup import Cancel, StartupParameters
from lakewarden.serve.postgres.state import State
from lakewarden.serve.postgres.variables import Variables
from lakewarden.serve.postgres.wire import replies
from lakewarden.serve.postgres.wire.messages import Fields, MalformedMessage, message
from lakewarden.serve.postgres.wire.problems import IDLE_BLOCK, PROTOCOL, SHUTDOWN, TOO_MANY, ProtocolError
from lakewarden.serve.postgres.working import Working
from lakewarden.serve.tokens import AccessToken

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
        async with asyncio.timeout(startup.SECONDS):
            wanted = await startup.negotiated(self._reader, self._writer, self._service.tls)
            if isinstance(wanted, Cancel):
                self._service.cancel(wanted.key)
                return
            if self._full:
                raise ProtocolError(TOO_MANY, "there are too many connections (serve.postgres_connections)", fatal=True)
            address = str((self._writer.get_extra_info("peername") or ("",))[0])
            token = await startup.authenticated(self._reader, self._writer, self._service.common.authority, wanted, address)
        state = await run_in_threadpool(self._opened, token, wanted)
        self._greet(state, wanted)
        self._dialogue = Dialogue(self._writer, state, self._working(token))
        most = self._service.common.lake.warehouse.settings.serve.body_bytes
        try:
            while not self._stopping or self._dialogue.busy:
                await self._writer.drain()
                letter, fields = await self._next_message(state, most)
                if letter == _END:
                    return
                await self._dialogue.answer(letter, fields)
            self._say_goodbye()
        finally:
            state.block.drop()

    async def _next_message(self, state: State, most: int) -> tuple[bytes, Fields]:
        """Raises:
        Problem: the client left a block open for too long.
        """
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

    def _working(self, token: AccessToken) -> Working:
        common = self._service.common
        return Working(common, token, self._id, common.lake.warehouse.settings.sql.timeout_seconds, self._has_left)

    def _has_left(self) -> bool:
        """Whether the client has closed its side, behind whatever it sent before."""
        handle: int = self._writer.get_extra_info("socket").fileno()
        if handle < 0:
            return True
        looking = select.poll()
        looking.register(handle, getattr(select, "POLLRDHUP", 0))
        return bool(looking.poll(0))

    def _opened(self, token: AccessToken, wanted: StartupParameters) -> State:
        session = startup.opened_session(self._service.common.lake, token, wanted, self._id)
        variables = Variables(token.principal.user)
        variables.begin(wanted.given)
        settings = self._service.common.lake.warehouse.settings
        return State(session, variables, settings.serve.body_bytes, settings.sql.result_bytes)

    def _greet(self, state: State, wanted: StartupParameters) -> None:
        options = [name for name in wanted.given if name.startswith("_pq_.")]
        if wanted.minor or options:
            self._writer.write(replies.newest_protocol(options))
        self._writer.write(replies.AUTHENTICATED)
        for name, value in state.variables.told():
            self._writer.write(replies.parameter(name, value))
        self._writer.write(replies.key(*self._key) + replies.ready(b"I"))

    async def _close(self) -> None:
        try:
            self._writer.close()
            await self._writer.wait_closed()
        except _GONE:
            pass  # the other side was quicker
