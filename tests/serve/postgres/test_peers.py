"""A request to cancel that reaches another process of the server than the connection's."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from lakewarden import Lakehouse
from lakewarden.serve.postgres.peers import Key, Peers
from lakewarden.serve.tokens import operator_token
from tests.fixtures.patience import PATIENCE
from tests.fixtures.servers import free_port

ENDLESS = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE (a.range * b.range) % 7 = {}"
ROUNDS = 6
"""Of two processes, chance alone would find the right one each time once in 64 runs."""


def test_each_other_process_hears_a_key(tmp_path: Path) -> None:
    heard: dict[int, list[Key]] = {1: [], 2: [], 3: []}

    async def send() -> None:
        one, two, three = (Peers(tmp_path, number) for number in heard)
        with one.heard(heard[1].append), two.heard(heard[2].append), three.heard(heard[3].append):
            one.send((2**31 - 1, -(2**31)))
            three.send((0, 7))
            async with asyncio.timeout(PATIENCE):
                while sum(map(len, heard.values())) < 4:
                    await asyncio.sleep(0.01)

    asyncio.run(send())
    assert heard == {1: [(0, 7)], 2: [(2**31 - 1, -(2**31)), (0, 7)], 3: [(2**31 - 1, -(2**31))]}
    assert not [*tmp_path.iterdir()]


def test_the_socket_of_a_process_that_was_killed_is_removed(tmp_path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as killed:
        killed.bind(str(tmp_path / "2"))
    Peers(tmp_path, 1).send((1, 2))
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
def test_one_request_ends_the_query_whichever_process_it_reaches(tmp_path: Path) -> None:
    place, port = str(tmp_path / "w"), free_port()
    with Lakehouse.open(place) as lake:
        token = operator_token(lake.warehouse, "root", "system", timedelta(hours=1))
    program = str(Path(sys.executable).parent / "lakewarden")
    command = [program, "serve", "--warehouse", place, "--port", str(free_port()), "--pg-port", str(port), "--workers", "2"]
    environment = {**os.environ, "LAKEWARDEN_SQL__WORKERS": "1", "LAKEWARDEN_SQL__TIMEOUT_SECONDS": str(PATIENCE)}
    server = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        for number in range(ROUNDS):
            with closing(_connected(port, token)) as connection, ThreadPoolExecutor(1) as pool:
                query = pool.submit(connection.execute, ENDLESS.format(number))
                time.sleep(1.0)  # so that it runs: a request before that ends nothing
                connection.cancel_safe(timeout=PATIENCE)
                with pytest.raises(psycopg.errors.QueryCanceled):
                    query.result()
    finally:
        server.terminate()
        server.wait(PATIENCE)


def _connected(port: int, token: str) -> psycopg.Connection:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return psycopg.connect(
                f"host=127.0.0.1 port={port} user=root dbname=postgres", password=token, autocommit=True, sslmode="disable"
            )
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
