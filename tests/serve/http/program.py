"""`lakewarden serve` as a program, on a port of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fixtures.patience import PATIENCE


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port


@contextmanager
def program(place: str, port: int, *more: str, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """The running server, whose port is open; it is killed at the end, if it still runs."""
    command = [str(Path(sys.executable).with_name("lakewarden")), "serve", "--warehouse", place, "--port", str(port), *more]
    environment = {**os.environ, "LAKEWARDEN_SQL__WORKERS": "1", **settings}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as server:
        try:
            _wait_for(port, server)
            yield server
        finally:
            server.kill()


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            assert server.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
        else:
            return
