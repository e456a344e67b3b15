"""A server that is killed while psycopg's clients commit blocks: each block is there as a whole, or not at all.

`LAKEWARDEN_BLOCKS` sets how many kills there are (`make torture`: 100).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random

import psycopg
import pytest

from lakewarden import Lakehouse
from lakewarden.serve.tokens import operator_token
from lakewarden.sql.results import ResultRows
from tests.fixtures.gate import kills
from tests.fixtures.patience import PATIENCE
from tests.fixtures.servers import free_port

pytestmark = [pytest.mark.slow, pytest.mark.disk]

_CLIENTS = 2
_ROWS = 3
"""Of a block, each by a statement of its own."""


@contextmanager
def _server(place: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    program = str(Path(sys.executable).parent / "lakewarden")
    words = [program, "serve", "--warehouse", place, "--port", str(free_port()), "--pg-port", str(port)]
    environment = {**os.environ, "LAKEWARDEN_SQL__WORKERS": "1"}
    with subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + PATIENCE
            while subprocess.run(["pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)], check=False).returncode:
                assert time.monotonic() < deadline, "the server did not start"
                time.sleep(0.05)
            yield process
        finally:
            process.kill()


def _commits(port: int, token: str, numbers: Iterator[int], acknowledged: list[int], rolled_back: list[int]) -> None:
    """Commits blocks, and rolls back every fourth, until the server is gone."""
    try:
        with psycopg.connect(host="127.0.0.1", port=port, user="root", password=token, dbname="app") as client:
            for number in numbers:
                for row in range(_ROWS):
                    client.execute("INSERT INTO t VALUES (%s, %s)", (_ROWS * number + row, number))
                if number % 4 == 3:
                    client.rollback()
                    rolled_back.append(number)
                else:
                    client.commit()
                    acknowledged.append(number)
    except psycopg.OperationalError:
        return


@kills("LAKEWARDEN_BLOCKS", gate=1, night=4)
def test_a_killed_server_leaves_whole_blocks(tmp_path: Path, kills: int) -> None:
    place, port, rng = str(tmp_path / "w"), free_port(), Random(7)
    with Lakehouse.open(place) as lake:
        lake.sql("CREATE NAMESPACE app; CREATE SHARED TABLE app.t (id BIGINT PRIMARY KEY, block BIGINT)")
        token = operator_token(lake.warehouse, "root", "system", timedelta(hours=6))
    numbers, acknowledged, rolled_back = count(), list[int](), list[int]()
    for _ in range(kills):
        with _server(place, port) as process:
            given = (port, token, numbers, acknowledged, rolled_back)
            clients = [threading.Thread(target=_commits, args=given) for _ in range(_CLIENTS)]
            for client in clients:
                client.start()
            time.sleep(rng.uniform(0.5, 2))
            os.kill(process.pid, signal.SIGKILL)
            for client in clients:
                client.join(PATIENCE)
    with Lakehouse.open(place) as lake:
        found = lake.sql("SELECT block FROM app.t")[0]
        assert isinstance(found, ResultRows)
        rows = Counter(found.table.column("block").to_pylist())
        assert set(rows.values()) <= {_ROWS}
        assert rows.keys() >= set(acknowledged)
        assert not rows.keys() & set(rolled_back)
        assert acknowledged
        assert len(rows) <= len(acknowledged) + kills * _CLIENTS
        assert not [finding for finding in lake.check() if not finding.passed]
