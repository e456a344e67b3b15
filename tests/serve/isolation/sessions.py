"""Sessions of stock clients: statements over HTTP and PostgreSQL's protocol, and subscriptions by WebSocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

import httpx
import psycopg
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.fixtures.patience import PATIENCE
from tests.serve.conftest import bearer
from tests.sql.isolation.places import Person

_STATUSES = {200, 400, 403, 404, 409, 412, 422}


@dataclass(frozen=True)
class Said:
    """What one session says, once. `impersonated` are the users whose place its text takes, whether it may or not."""

    person: Person
    token: str
    text: str
    impersonated: frozenset[str]
    freshness: str


@dataclass
class Session:
    """One of them. `answers` are everything that it received: rows, errors, headers."""

    said: Said
    answers: list[object] = field(default_factory=list)


class HttpSession(Session):
    """A request: it has a session of its own in the server."""

    async def speak(self, client: httpx.AsyncClient) -> None:
        body = {"sql": self.said.text, "freshness": self.said.freshness}
        answer = await client.post("/v1/api/sql", json=body, headers=bearer(self.said.token))
        self.answers += [answer.text, dict(answer.headers)]
        assert answer.status_code in _STATUSES, (self.said.text, answer.text)


class PostgresSession(Session):
    """A connection."""

    broken: bool = False
    """Whether an error ended the connection, as none of a statement does."""
    _connection: psycopg.AsyncConnection | None = None

    async def open(self, port: int) -> None:
        one = self.said
        self._connection = await psycopg.AsyncConnection.connect(
            host="127.0.0.1", port=port, user=one.person.user, password=one.token, dbname="postgres", autocommit=True
        )

    async def speak(self) -> None:
        assert self._connection is not None
        async with self._connection, self._connection.cursor() as cursor:
            try:
                await cursor.execute(self.said.text.encode())
                while True:
                    self.answers.append(_cells(cursor.pgresult))
                    if not cursor.nextset():
                        break
            except psycopg.Error as error:
                found = error.diag
                self.answers += [str(error), found.message_detail, found.message_hint, found.context]
                self.broken = self._connection.broken


class Subscription(Session):
    """A WebSocket."""

    _socket: ClientConnection | None = None
    _listening: asyncio.Task[None] | None = None
    _beats: int = 0

    async def open(self, url: str) -> None:
        address = f"{url.replace('http', 'ws', 1)}/v1/ws?{urlencode({'sql': self.said.text})}"
        try:
            self._socket = await connect(address, additional_headers=bearer(self.said.token), open_timeout=PATIENCE)
        except InvalidStatus as refused:
            self.answers += [refused.response.body, dict(refused.response.headers)]
        else:
            self._listening = asyncio.create_task(self._listen(self._socket))

    async def _listen(self, socket: ClientConnection) -> None:
        try:
            async for message in socket:
                self.answers.append(message)
                self._beats += json.loads(message)["kind"] == "heartbeat"
        except ConnectionClosed as ended:
            self.answers.append(str(ended))

    async def close(self) -> None:
        """Ends it when it has heard all that was there: a heartbeat comes where nothing else does."""
        if self._socket is not None and self._listening is not None:
            until = self._beats + 2
            while self._beats < until and not self._listening.done():
                await asyncio.sleep(0.05)
            await self._socket.close()
            await self._listening


def _cells(result: psycopg.pq.abc.PGresult | None) -> Sequence[object]:
    """As they came: what a client's types would refuse counts, too."""
    if result is None:
        return []
    rows, columns = range(result.ntuples), range(result.nfields)
    return [result.get_value(row, column) for row in rows for column in columns]
