"""A server process, and clients of it, for benchmarks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from time import perf_counter

import msgspec

_COMMAND = str(Path(sys.executable).parent / "lakewarden")

_KEPT = 30.0
"""Seconds for which a client keeps an idle connection: less than the server does."""


class Clients:
    """A kept connection for each client, by its token."""

    def __init__(self, address: tuple[str, int], tokens: Sequence[str]) -> None:
        self._connections = [HTTPConnection(*address, timeout=600) for _ in tokens]
        self._tokens = tokens
        self._used = [perf_counter()] * len(tokens)

    def post(
        self, client: int, path: str, body: object, accept: str = "application/json", headers: Mapping[str, str] | None = None
    ) -> bytes:
        """The body of the answer."""
        status, found = self.answer(client, path, body, accept, headers)
        assert status == 200, found
        return found

    def answer(
        self, client: int, path: str, body: object, accept: str = "application/json", headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        connection = self._connections[client]
        if perf_counter() - self._used[client] > _KEPT:
            connection.close()
        sent = {"Authorization": f"Bearer {self._tokens[client]}", "Content-Type": "application/json", "Accept": accept}
        connection.request("POST", path, msgspec.json.encode(body), {**sent, **(headers or {})})
        answer = connection.getresponse()
        found = answer.read()
        self._used[client] = perf_counter()
        return answer.status, found


@contextmanager
def served(uri: str, settings: Mapping[str, str], *options: str) -> Iterator[tuple[str, int]]:
    """A server process of the warehouse, with these variables of the environment and options besides; its host and port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = [_COMMAND, "serve", "--warehouse", uri, "--port", str(port), *options]
    server = subprocess.Popen(command, env={**os.environ, **settings}, stderr=subprocess.DEVNULL)
    try:
        while not _answers(port):
            assert server.poll() is None, "the server ended"
            time.sleep(0.1)
        yield "127.0.0.1", port
    finally:
        server.terminate()
        server.wait()


def token_of(uri: str) -> str:
    """Of the operator, for eight hours; by the command line, which every commit has."""
    command = [_COMMAND, "token", "--warehouse", uri, "--minutes", "480"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            return True
    except OSError:
        return False
