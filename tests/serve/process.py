"""`lakewarden serve` as a program of its own, and clients of it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.fixtures.patience import PATIENCE
from tests.fixtures.servers import free_port


@dataclass(frozen=True)
class Served:
    """A running server. `pid` is the program's: of one process it is the server, of several their supervisor."""

    url: str
    pid: int
    tokens: Mapping[str, str]

    def client(self, user: str) -> httpx.Client:
        """A stock client with the user's token."""
        return httpx.Client(base_url=self.url, timeout=PATIENCE, headers={"Authorization": f"Bearer {self.tokens[user]}"})


@contextmanager
def served(
    warehouse: str,
    tokens: Mapping[str, str],
    *,
    environment: Mapping[str, str],
    workers: int = 1,
    pg_port: int | None = None,
) -> Iterator[Served]:
    """Serves the warehouse while the block runs; PostgreSQL's clients as well where they have a port."""
    port = free_port()
    program = str(Path(sys.executable).parent / "lakewarden")
    command = [program, "serve", "--warehouse", warehouse, "--port", str(port), "--workers", str(workers)]
    command += [] if pg_port is None else ["--pg-port", str(pg_port)]
    process = subprocess.Popen(command, env=dict(environment), stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + PATIENCE
        while not is_ready(url):
            assert process.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.1)
        yield Served(url, process.pid, tokens)
    finally:
        process.terminate()
        process.wait(PATIENCE)


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/ready", timeout=PATIENCE).status_code == 200
    except httpx.TransportError:
        return False
