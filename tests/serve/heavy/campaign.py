"""Runs statements of `grammar` through one server over HTTP, several at a time: how each ends, and what the server takes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random

import httpx

from benchmarks.measuring.memory import peak_bytes
from lakewarden import Lakehouse
from lakewarden.serve.tokens import operator_token
from lakewarden.sql.query_engine.workers.messages import overall
from tests.serve.heavy.grammar import Grammar
from tests.serve.process import Served, served

MEMORY, RESULT = 64 << 20, 4 << 20
OVERSHOOT = 96 << 20
"""What the server may take beyond its results: copies as JSON, text and tree, and what its libraries take themselves."""
_LIBRARIES = 64 << 20
"""What a worker may take beyond its bound: pages of libraries that no query needed before."""
_COUNTING = threading.Lock()
_WORKERS = 2
_SENDERS = 3
_EXPECTED = frozenset({"UNSUPPORTED", "INVALID_ARGUMENT", "CONSTRAINT_VIOLATION"})
"""The codes of what a statement cannot have. Any other is a fault: of the grammar, or of the server."""
_ENVIRONMENT = {
    "LAKEWARDEN_SQL__MEMORY_BYTES": str(MEMORY),
    "LAKEWARDEN_SQL__RESULT_BYTES": str(RESULT),
    "LAKEWARDEN_SQL__TIMEOUT_SECONDS": "1.0",
    "LAKEWARDEN_SQL__THREADS": "1",
    "LAKEWARDEN_SQL__WORKERS": str(_WORKERS),
    "LAKEWARDEN_SERVE__REQUESTS_PER_MINUTE": "1000000",
}


@dataclass
class Found:
    """What a campaign saw. `wrong` has a line for each statement whose end was not one of those that are allowed."""

    ended: dict[str, int] = field(default_factory=dict)
    """How many ended with which status and code."""
    wrong: list[str] = field(default_factory=list)
    longest_seconds: float = 0.0
    longest: str = ""
    server_bytes: int = 0
    """How much more the server took at most than before the first of them."""
    worker_bytes: int = 0
    """How much more one worker took at most than a worker that has run a plain query."""


def search(place: Path, seed: int, statements: int) -> Found:
    """Sends so many statements, the first of which has this seed."""
    found = Found()
    with Lakehouse.open(str(place / "w")) as lake:
        lake.sql("CREATE NAMESPACE app; CREATE TABLE app.t (id BIGINT PRIMARY KEY, body TEXT) WITH (TYPE = 'USER')")
        users = [f"u{number}" for number in range(_SENDERS)]
        tokens = {user: operator_token(lake.warehouse, user, "user", timedelta(hours=12)) for user in users}
        lake.table("app.t").write([{"user": user, "id": 1, "body": user} for user in users], user_column="user")
    with served(str(place / "w"), tokens, environment={**os.environ, **_ENVIRONMENT}) as server:
        for user in users:
            assert _sent(server, user, "SELECT * FROM app.t")[0] == 200
        before, worker_before = peak_bytes(server.pid), _peak_of_workers(server.pid)
        with _watched(server.pid, found), ThreadPoolExecutor(_SENDERS) as pool:
            for _ in pool.map(lambda number: _try(server, users[number % _SENDERS], seed + number, found), range(statements)):
                pass
        for user in users:
            assert _sent(server, user, "SELECT id FROM app.t WHERE id = 1")[0] == 200
        found.server_bytes = peak_bytes(server.pid) - before
        found.worker_bytes -= worker_before
    return found


def _try(server: Served, user: str, seed: int, found: Found) -> None:
    text = Grammar(Random(seed)).statement()
    began = time.monotonic()
    try:
        status, answer = _sent(server, user, text)
    except httpx.HTTPError as error:
        found.wrong.append(f"seed {seed}: {type(error).__name__}: {text[:500]}")
        return
    took = time.monotonic() - began
    code = "OK" if status == 200 else str(answer.get("error", {}).get("code"))  # type: ignore[attr-defined]
    end = f"{status} {code}"
    with _COUNTING:
        if took > found.longest_seconds:
            found.longest_seconds, found.longest = took, f"seed {seed}: {text[:300]}"
        found.ended[end] = found.ended.get(end, 0) + 1
    if status != 200 and code not in _EXPECTED:
        found.wrong.append(f"seed {seed}: {status} {answer}: {text[:500]}")


def _sent(server: Served, user: str, text: str) -> tuple[int, Mapping[str, object]]:
    with server.client(user) as client:
        answer = client.post("/v1/api/sql", json={"sql": text})
        return answer.status_code, answer.json()


@contextmanager
def _watched(server: int, found: Found) -> Iterator[None]:
    """Looks at the memory of the server's workers for as long as the block runs."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            found.worker_bytes = max(found.worker_bytes, _peak_of_workers(server))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()


def _peak_of_workers(server: int) -> int:
    """The highest memory that one of the server's workers had so far, in bytes."""
    tasks = Path(f"/proc/{server}/task").iterdir()
    return max((peak_bytes(child) for task in tasks for child in _children(task)), default=0)


def _children(task: Path) -> list[int]:
    try:
        return [int(word) for word in (task / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []  # a thread that has ended


def beyond(found: Found) -> list[str]:
    """What took more memory than it may."""
    said = []
    most = (_SENDERS + 1) * RESULT + OVERSHOOT
    if found.server_bytes > most:
        said.append(f"the server took {found.server_bytes >> 20} MiB more than before; {most >> 20} are allowed")
    most = overall(MEMORY) + _LIBRARIES
    if found.worker_bytes > most:
        said.append(f"a worker took {found.worker_bytes >> 20} MiB more than a plain query; {most >> 20} are allowed")
    return said
