"""What a subscriber is sent: an object of JSON for each event, and for what happens to the subscription itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from tempfile import SpooledTemporaryFile
from typing import NamedTuple

import msgspec

from lakewarden.base.json_values import json_row
from lakewarden.tables.subscriptions.fold import Event

_IN_MEMORY = 256 << 10
"""Bytes of encoded events that wait in memory for a client to read them; more of them wait in a temporary file."""


class LiveMessage(NamedTuple):
    """`body` is one line of JSON. Who has received the message goes on after `place`; None while initial rows are left."""

    kind: str
    place: int | None
    body: bytes


def heartbeat(place: int | None) -> LiveMessage:
    return _said("heartbeat", place, {})


def goodbye(place: int | None) -> LiveMessage:
    return _said("goodbye", place, {})


def failed(place: int | None, code: str, message: str, request_id: str) -> LiveMessage:
    return _said("error", place, {"error": {"code": code, "message": message, "request_id": request_id}})


def _said(kind: str, place: int | None, more: dict[str, dict[str, str]]) -> LiveMessage:
    return LiveMessage(kind, place, msgspec.json.encode({"kind": kind, "seq": place, **more}))


class EventBatch:
    """Events in order, encoded. `place` is the one behind the last of them."""

    def __init__(self, events: Sequence[Event], place: int | None) -> None:
        self.place = place
        self.empty = not events
        self._file = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  # closed by `close`
        for message in _encoded(events, place):
            where = b"" if message.place is None else b"%d" % message.place
            self._file.write(b"%s %s %s\n" % (message.kind.encode(), where, message.body))
        self._file.seek(0)

    def __iter__(self) -> Iterator[LiveMessage]:
        for line in self._file:
            kind, where, body = line.rstrip(b"\n").split(b" ", 2)
            yield LiveMessage(kind.decode(), int(where) if where else None, body)

    def close(self) -> None:
        self._file.close()


def _encoded(events: Sequence[Event], place: int | None) -> Iterable[LiveMessage]:
    """The last of the initial rows tells where they end, so that who got some of them alone begins again."""
    for number, event in enumerate(events, 1):
        body = msgspec.json.encode({"kind": event.kind, "seq": event.seq, "row": json_row(event.row)})
        if event.kind == "initial":
            yield LiveMessage(event.kind, place if number == len(events) else None, body)
        else:
            yield LiveMessage(event.kind, event.seq, body)
