"""A subscriber that comes back wherever it was cut off, over either protocol, and what it heard."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlencode

import httpx
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from tests.fixtures.patience import PATIENCE
from tests.serve.conftest import bearer
from tests.serve.http.live.events import Told, subscribed

LAST = -1
"""The id of the row that ends a follower."""

_AGAIN = 0.05

Hear = Callable[[str, str, str, str | None], Iterator[Told]]
"""The events of a server's address, a token and a query, after a place."""


def by_events(url: str, token: str, sql: str, place: str | None) -> Iterator[Told]:
    with (
        httpx.Client(base_url=url, headers=bearer(token), timeout=PATIENCE) as client,
        subscribed(client, sql, last=place) as events,
    ):
        yield from events


def by_socket(url: str, token: str, sql: str, place: str | None) -> Iterator[Told]:
    given = urlencode({"sql": sql} | ({} if place is None else {"from_seq": place}))
    address = f"{url.replace('http', 'ws', 1)}/v1/ws?{given}"
    with connect(address, additional_headers=bearer(token), open_timeout=PATIENCE) as socket:
        for text in socket:
            data = json.loads(text)
            yield Told(data["kind"], None if data["seq"] is None else str(data["seq"]), data)


@dataclass
class Follower:
    """Follows one query, whose rows have an `id`."""

    hear: Hear
    url: str
    token: str
    sql: str
    place: str | None = None
    """Where it goes on; None until all initial rows came."""
    rows: list[Told] = field(default_factory=list)
    """The events with a row, without the last row's."""
    kinds: list[str] = field(default_factory=list)
    """Of all events."""
    cuts: int = 0
    """How often its connection broke or could not be made."""
    ended: bool = False
    """Whether the last row came."""

    @property
    def ids(self) -> list[object]:
        return [one.id for one in self.rows]

    def follow(self, over: threading.Event) -> None:
        """Returns when the last row came, or after the first event behind `over`."""
        while not (self.ended or over.is_set()):
            with suppress(httpx.TransportError, OSError, WebSocketException):
                for one in self.hear(self.url, self.token, self.sql, self.place):
                    if self.take(one) or over.is_set():
                        return
            self.cuts += 1
            time.sleep(_AGAIN)

    def take(self, one: Told) -> bool:
        """Whether the event that it heard is the last row's."""
        self.place = one.place or self.place
        self.kinds.append(one.kind)
        if "row" in one.data:
            self.ended = one.id == LAST
            if not self.ended:
                self.rows.append(one)
        return self.ended
