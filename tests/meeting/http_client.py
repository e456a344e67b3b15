"""A client over HTTP that sends each write to one server after the other, under one `Idempotency-Key`, until it is answered."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from random import Random

import httpx

from tests.meeting.writes import TABLE, Write, first_id
from tests.serve.kills.load import send

_SQL = "/v1/api/sql"


@dataclass
class HttpClient:
    """Writes rows of its own. One whose end is unknown is left alone from then on."""

    number: int
    servers: list[httpx.Client]
    chance: Random
    writes: list[Write] = field(default_factory=list)
    _certain: dict[int, int] = field(default_factory=dict)

    def work(self, over: threading.Event) -> None:
        """Raises:
        AssertionError: an answer is wrong: an error that no kill explains, or a look-up that is not what was acknowledged.
        """
        while not over.is_set():
            self.chance.shuffle(self.servers)
            self.chance.choice((self._insert, self._insert, self._increment, self._increment, self._delete, self._look_up))()

    def _insert(self) -> None:
        key, value = first_id(self.number) + len(self.writes), self.chance.randrange(1000) << 20
        self._write(key, value, f"INSERT INTO {TABLE} VALUES (?, ?)", [key, value])

    def _increment(self) -> None:
        """What another try would double."""
        if (key := self._one()) is not None:
            self._write(key, self._certain[key] + 1, f"UPDATE {TABLE} SET value = value + 1 WHERE id = ?", [key])

    def _delete(self) -> None:
        if (key := self._one()) is not None:
            self._write(key, None, f"DELETE FROM {TABLE} WHERE id = ?", [key])

    def _look_up(self) -> None:
        if (key := self._one()) is None:
            return
        for server in self.servers:
            try:
                answer = server.post(_SQL, json={"sql": f"SELECT value FROM {TABLE} WHERE id = ?", "params": [key]})
            except httpx.TransportError:
                continue
            assert answer.status_code == 200, answer.text
            assert answer.json()["results"][0]["rows"] == [{"value": self._certain[key]}], (key, answer.text)

    def _one(self) -> int | None:
        return self.chance.choice([*self._certain]) if self._certain else None

    def _write(self, key: int, value: int | None, sql: str, params: list[int]) -> None:
        name = f"{self.number}-{len(self.writes)}"
        done = send(self.servers, _SQL, {"sql": sql, "params": params}, name) == "done"
        self.writes.append(Write(key, value, done))
        self._certain.pop(key, None)
        if done and value is not None:
            self._certain[key] = value
