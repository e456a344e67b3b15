"""The second port of a server in this process, over the warehouse of the tests around."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from lakewarden import Lakehouse
from lakewarden.serve.common import Common, Listening
from lakewarden.serve.postgres.server import PostgresServer
from tests.serve.conftest import PASSWORD


@contextmanager
def listening(lake: Lakehouse, certificate: Path | None = None, key: Path | None = None) -> Iterator[int]:
    """A server's port, until the block ends."""
    server = PostgresServer(Common.of(lake))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        at = Listening("127.0.0.1", 0, postgres_port=0, tls_certificate=certificate, tls_key=key)
        yield asyncio.run_coroutine_threadsafe(server.open(at), loop).result(60)
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def port(lake: Lakehouse) -> Iterator[int]:
    with listening(lake) as found:
        yield found


def address(port: int, user: str, database: str = "app") -> str:
    return f"host=127.0.0.1 port={port} user={user} password='{PASSWORD}' dbname={database}"


@pytest.fixture
def ann(port: int) -> Iterator[psycopg.Connection]:
    with psycopg.connect(address(port, "ann"), autocommit=True) as made:
        yield made
