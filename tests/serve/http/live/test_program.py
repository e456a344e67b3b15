"""Subscribers of `lakewarden serve` as a program that is killed and stopped."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import httpx
import pytest
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from lakewarden import Lakehouse
from lakewarden.serve.operator import operator_token
from tests.fixtures.patience import PATIENCE
from tests.serve.conftest import bearer
from tests.serve.http.live.events import told
from tests.serve.http.program import free_port, program

_SQL = "SELECT id FROM app.notes"
_LAST = -1


class _Heard(NamedTuple):
    kind: str
    place: str | None
    id: int | None


def _by_events(port: int, token: str, place: str | None) -> Iterator[_Heard]:
    headers = bearer(token) | ({} if place is None else {"Last-Event-ID": place})
    with httpx.stream(
        "GET", f"http://127.0.0.1:{port}/v1/subscribe", params={"sql": _SQL}, headers=headers, timeout=PATIENCE
    ) as answer:
        for one in told(answer.iter_lines()):
            yield _Heard(one.kind, one.place, int(str(one.id)) if "row" in one.data else None)


def _by_socket(port: int, token: str, place: str | None) -> Iterator[_Heard]:
    given = urlencode({"sql": _SQL} | ({} if place is None else {"from_seq": place}))
    with connect(f"ws://127.0.0.1:{port}/v1/ws?{given}", additional_headers=bearer(token), open_timeout=PATIENCE) as socket:
        for text in socket:
            one = json.loads(text)
            yield _Heard(one["kind"], str(one["seq"]), one["row"]["id"] if "row" in one else None)


class _Subscriber(threading.Thread):
    """Follows until it hears of the last row, and comes back wherever it was cut off."""

    def __init__(self, hear: Callable[[int, str, str | None], Iterator[_Heard]], port: int, token: str) -> None:
        super().__init__(daemon=True)
        self._hear, self._port, self._token = hear, port, token
        self.place: str | None = None
        """Where it goes on; None until all initial rows came."""
        self.ids: list[int] = []
        self.kinds: list[str] = []

    def run(self) -> None:
        while _LAST not in self.ids:
            with suppress(httpx.TransportError, OSError, WebSocketException):
                for one in self._hear(self._port, self._token, self.place):
                    self.place = one.place or self.place
                    self.kinds.append(one.kind)
                    if one.id is not None:
                        self.ids.append(one.id)
                    if one.id == _LAST:
                        return
            time.sleep(0.05)


@pytest.mark.slow
def test_nothing_is_missed_or_repeated_over_kills_and_a_stop_says_goodbye(tmp_path: Path) -> None:
    place, port = str(tmp_path / "w"), free_port()
    written = 0
    with Lakehouse.open(place) as lake, ExitStack() as running:
        lake.sql("CREATE NAMESPACE app; CREATE TABLE app.notes (id BIGINT PRIMARY KEY) WITH (TYPE = 'USER')")
        notes = lake.table("app.notes")
        token = operator_token(lake.warehouse, "ann", "user", timedelta(hours=12))
        subscribers = [_Subscriber(hear, port, token) for hear in (_by_events, _by_socket)]
        for subscriber in subscribers:
            subscriber.start()
        for end in (signal.SIGKILL, signal.SIGTERM, None):
            server = running.enter_context(program(place, port))
            heard = written
            while not all(one.place is not None and len(one.ids) > heard + 20 for one in subscribers):
                time.sleep(0.01)
                notes.write([{"id": written}], user="ann")
                written += 1
                if written % 50 == 0:
                    lake.flush("app.notes")
            if end is not None:
                server.send_signal(end)
                assert server.wait(PATIENCE) == -end
        notes.write([{"id": _LAST}], user="ann")
        for subscriber in subscribers:
            subscriber.join(PATIENCE)
    for subscriber in subscribers:
        assert subscriber.ids == [*range(written), _LAST]
        assert subscriber.kinds.count("goodbye") == 1
