"""What stock clients read of a subscription."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import httpx

from lakewarden.base.json_values import Json


class Told(NamedTuple):
    """An event without data is a heartbeat: it moves the place alone."""

    kind: str
    place: str | None
    data: dict[str, Json]

    @property
    def id(self) -> Json:
        """That of the row."""
        row = self.data["row"]
        assert isinstance(row, dict)
        return row["id"]


def told(lines: Iterable[str]) -> Iterator[Told]:
    """Server-sent events, as the HTML standard reads them, and those without data too."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        else:
            data = json.loads(fields["data"]) if "data" in fields else {}
            yield Told(fields.get("event", ""), fields.get("id"), data)
            fields = {}


@contextmanager
def subscribed(client: httpx.Client, sql: str, *, last: str | None = None, **more: str | int) -> Iterator[Iterator[Told]]:
    """All events of a subscription. `last` is the id of the last event that was received before."""
    headers = {} if last is None else {"Last-Event-ID": last}
    with client.stream("GET", "/v1/subscribe", params={"sql": sql, **more}, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"] == "text/event-stream"
        yield told(answer.iter_lines())


def changes(events: Iterator[Told], number: int) -> list[Told]:
    """The next events with data."""
    return [next(event for event in events if event.data) for _ in range(number)]
