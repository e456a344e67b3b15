"""The second port of `lakewarden serve`: accepts connections, and ends them in order."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import ssl
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field

from lakewarden.serve.common import Common, Listening
from lakewarden.serve.postgres.connection import ClientConnection, Service
from lakewarden.serve.postgres.peers import Key, Peers

_LOG = logging.getLogger("lakewarden.serve")


@dataclass
class PostgresServer:
    """Serves the warehouse on a running event loop, until `close`."""

    common: Common
    _connections: dict[Key, ClientConnection] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _listening: asyncio.Server | None = None
    _tls: ssl.SSLContext | None = None
    _peers: Peers | None = None
    _heard: ExitStack = field(default_factory=ExitStack)

    async def open(self, at: Listening) -> int:
        """Begins to listen; returns the port. With a certificate, only connections over TLS are served.

        Raises:
            OSError: the port is taken, or a file of TLS cannot be read, or the socket among `peers` cannot be made.
        """
        if at.tls_certificate is not None:
            self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            self._tls.load_cert_chain(at.tls_certificate, at.tls_key)
        if at.peers is not None:
            self._peers = Peers(at.peers, os.getpid())
            self._heard.enter_context(self._peers.heard(self._cancel_own))
        self._listening = await asyncio.start_server(
            self._accept, at.host, at.postgres_port, reuse_port=at.peers is not None or None
        )
        port: int = self._listening.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Accepts no more; each statement that was begun gets its answer, for up to `serve.stop_seconds`."""
        if self._listening is None:
            return
        self._listening.close()
        self._heard.close()
        for connection in self._connections.values():
            connection.stop()
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=self.common.lake.warehouse.settings.serve.stop_seconds)
            for task in left:
                task.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("a connection ended by a fault of Lakewarden's", exc_info=error)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # What a request to cancel has to name: PostgreSQL's process id and secret.
        while (key := (secrets.randbelow(1 << 31), secrets.randbelow(1 << 31))) in self._connections:
            pass
        most = self.common.lake.warehouse.settings.serve.postgres_connections
        service = Service(self.common, self._tls, self._cancel)
        connection = ClientConnection(service, reader, writer, key, full=len(self._connections) >= most)
        self._connections[key] = connection
        try:
            await connection.serve()
        finally:
            del self._connections[key]

    def _cancel(self, key: Key) -> None:
        if not self._cancel_own(key) and self._peers is not None:
            self._peers.send(key)

    def _cancel_own(self, key: Key) -> bool:
        """Whether the connection is of this process."""
        found = self._connections.get(key)
        if found is not None:
            found.cancel()
        return found is not None


@asynccontextmanager
async def postgres_clients(common: Common, at: Listening) -> AsyncIterator[None]:
    """Serves them during the block, if they have a port."""
    server = PostgresServer(common)
    try:
        if at.postgres_port is not None:
            await server.open(at)
        yield
    finally:
        await server.close()
