"""What one client does, and what it knows then: each write is sent under an `Idempotency-Key` until it is answered."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal, NamedTuple

import httpx

KEYED, PLAIN = "app.keyed", "app.plain"

Known = tuple[int | None, ...]
"""What may be there: of a row with a key its value, or None for no row; of one without how often it is there."""
Outcome = Literal["done", "unknown"]

_AGAIN = 0.1


class Change(NamedTuple):
    """A change as subscribers hear of it. A row that was deleted has no value, nor has one of the table without a key."""

    kind: str
    id: int
    value: int | None


class Written(NamedTuple):
    """A write that was sent until there was an answer."""

    table: str
    change: Change
    acknowledged: bool
    """False where the answer was that it is unknown whether it was done."""


@dataclass
class Client:
    """One client, whose rows nobody else writes."""

    number: int
    http: httpx.Client
    chance: Random
    rows: dict[int, Known] = field(default_factory=dict)
    plain: dict[int, Known] = field(default_factory=dict)
    written: list[Written] = field(default_factory=list)
    _next: int = 0

    @property
    def user(self) -> str:
        return f"u{self.number}"

    def work(self, over: threading.Event) -> None:
        """Raises:
        AssertionError: an answer is wrong: an error that no kill explains, or a look-up that is not what was acknowledged.
        """
        with self.http:
            while not over.is_set():
                self.chance.choice((self._insert, self._insert, self._update, self._delete, self._look_up, self._append))()

    def _insert(self) -> None:
        key, value = self._new_id(), self.chance.randrange(1 << 30)
        self._write(Change("insert", key, value), f"INSERT INTO {KEYED} VALUES (?, ?)", [key, value])

    def _update(self) -> None:
        key = self._one()
        if key is not None:
            value = self.chance.randrange(1 << 30)
            self._write(Change("update", key, value), f"UPDATE {KEYED} SET v = ? WHERE id = ?", [value, key])

    def _delete(self) -> None:
        key = self._one()
        if key is not None:
            self._write(Change("delete", key, None), f"DELETE FROM {KEYED} WHERE id = ?", [key])

    def _append(self) -> None:
        """A row without a key, which another try could double."""
        key = self._new_id()
        body = {"bucket": "app", "table": PLAIN.partition(".")[2], "rows": [{"id": key}]}
        outcome = self._sent("/k3/v1/insert", body)
        self.written.append(Written(PLAIN, Change("insert", key, None), outcome == "done"))
        self.plain[key] = (1,) if outcome == "done" else (0, 1)

    def _look_up(self) -> None:
        key = self._one()
        if key is None:
            return
        body = {"sql": f"SELECT v FROM {KEYED} WHERE id = ?", "params": [key]}
        while True:
            try:
                answer = self.http.post("/v1/api/sql", json=body)
            except httpx.TransportError:
                time.sleep(_AGAIN)
                continue
            assert answer.status_code == 200, answer.text
            assert answer.json()["results"][0]["rows"] == [{"v": self.rows[key][0]}], (key, answer.text)
            return

    def _new_id(self) -> int:
        self._next += 1
        return (self.number << 32) + self._next

    def _one(self) -> int | None:
        """A row that is there for certain."""
        known = [key for key, values in self.rows.items() if len(values) == 1 and values[0] is not None]
        return self.chance.choice(known) if known else None

    def _write(self, change: Change, sql: str, params: list[int]) -> None:
        before = self.rows.get(change.id, (None,))
        outcome = self._sent("/v1/api/sql", {"sql": sql, "params": params})
        self.written.append(Written(KEYED, change, outcome == "done"))
        self.rows[change.id] = (change.value,) if outcome == "done" else (*before, change.value)

    def _sent(self, path: str, body: Mapping[str, object]) -> Outcome:
        return send([self.http], path, body, f"{self.number}-{self._new_id()}")


def send(servers: Sequence[httpx.Client], path: str, body: Mapping[str, object], key: str) -> Outcome:
    """Sends to one server after the other until there is an answer; CONFLICT says that nobody knows the end of a try before."""
    for tries, server in enumerate(itertools.cycle(servers), 1):
        try:
            answer = server.post(path, json=body, headers={"Idempotency-Key": key})
        except httpx.TransportError:
            time.sleep(_AGAIN)
            continue
        if answer.status_code == 200:
            return "done"
        assert (answer.status_code, tries > 1) == (409, True), answer.text
        return "unknown"
    raise ValueError("no servers")
