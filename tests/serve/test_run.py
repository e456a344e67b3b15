"""`lakewarden serve` as a program: several processes, and a stop."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from lakewarden import Lakehouse
from lakewarden.serve.tokens import operator_token
from lakewarden.sql.results import ResultRows
from tests.fixtures.patience import PATIENCE

pytestmark = pytest.mark.slow

_LAKEWARDEN = str(Path(sys.executable).parent / "lakewarden")

# A program of its own: the driver cannot close what it opened at a server that has gone.
_FLIGHT_WRITER = """
import os, sys
from adbc_driver_flightsql import DatabaseOptions, dbapi
from adbc_driver_manager import Error

uri, token, first = sys.argv[1:]
header = {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {token}"}
cursor = dbapi.connect(uri, db_kwargs=header, autocommit=True).cursor()
try:
    for number in range(int(first), int(first) + 10_000):
        cursor.execute(f"INSERT INTO app.t VALUES ({number})")
        print(number, flush=True)
except Error:
    os._exit(0)
"""


@pytest.fixture
def place(tmp_path: Path) -> str:
    place = str(tmp_path / "w")
    with Lakehouse.open(place) as lake:
        lake.sql("CREATE NAMESPACE app; CREATE TABLE app.t (id BIGINT PRIMARY KEY) WITH (TYPE = 'SHARED')")
    return place


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port


def _write_by_flight(port: int, token: str, first: int, acknowledge: Callable[[int], None]) -> None:
    command = [sys.executable, "-c", _FLIGHT_WRITER, f"grpc://127.0.0.1:{port}", token, str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            acknowledge(int(line))
    assert writer.returncode == 0


def test_a_stop_loses_no_acknowledged_row(place: str) -> None:
    port, flight_port = _free_port(), _free_port()
    command = [
        _LAKEWARDEN,
        "serve",
        "--warehouse",
        place,
        "--port",
        str(port),
        "--flight-port",
        str(flight_port),
        "--workers",
        "2",
    ]
    server = subprocess.Popen(command, env={**os.environ, "LAKEWARDEN_SQL__WORKERS": "1"}, stderr=subprocess.DEVNULL)
    acknowledged: list[int] = []
    enough = threading.Event()
    with Lakehouse.open(place) as lake:
        token = operator_token(lake.warehouse, "root", "system", timedelta(hours=1))
    transport = httpx.HTTPTransport(retries=8)  # until the port is open
    client = httpx.Client(
        base_url=f"http://127.0.0.1:{port}", timeout=60, headers={"Authorization": f"Bearer {token}"}, transport=transport
    )

    def acknowledge(number: int) -> None:
        acknowledged.append(number)
        if len(acknowledged) >= 20 and max(acknowledged) >= 30_000:
            enough.set()

    def write(first: int) -> None:
        for number in range(first, first + 10_000):
            try:
                answer = client.post("/v1/api/sql", json={"sql": "INSERT INTO app.t VALUES (?)", "params": [number]})
            except httpx.TransportError:
                return
            if answer.status_code != 200:
                return
            acknowledge(number)

    with client:
        assert client.get("/ready").status_code == 200
        writers = [threading.Thread(target=write, args=(first * 10_000,)) for first in range(3)]
        writers.append(threading.Thread(target=_write_by_flight, args=(flight_port, token, 30_000, acknowledge)))
        for writer in writers:
            writer.start()
        assert enough.wait(60)
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
        for writer in writers:
            writer.join()
    with Lakehouse.open(place) as lake:
        found = lake.sql("SELECT id FROM app.t")[0].to_pylist()  # type: ignore[union-attr]
    assert {*acknowledged} <= {row["id"] for row in found}
    assert len(acknowledged) >= 20


@pytest.mark.parametrize("option", ["--port", "--flight-port", "--pg-port"])
def test_a_port_in_use_is_one_clear_line(place: str, option: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = ["--port", str(_free_port()), option, str(taken.getsockname()[1])]
        command = [_LAKEWARDEN, "serve", "--warehouse", place, *ports]
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (1, 1), ended.stderr
    assert "Address already in use" in ended.stderr


def test_the_first_serve_makes_the_warehouse(tmp_path: Path) -> None:
    port = _free_port()
    command = [_LAKEWARDEN, "serve", "--warehouse", str(tmp_path / "new"), "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        try:
            assert httpx.Client(transport=httpx.HTTPTransport(retries=8)).get(f"http://127.0.0.1:{port}/ready").status_code == 200
            with Lakehouse.open(str(tmp_path / "new")) as lake:
                assert _served(lake, server.pid) == [("serve", f"http://127.0.0.1:{port}")]
        finally:
            server.send_signal(signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "ends"), [(1, signal.SIGINT), (2, signal.SIGTERM)])
def test_a_stop_is_said_at_once(place: str, workers: int, ends: signal.Signals) -> None:
    port = _free_port()
    command = [_LAKEWARDEN, "serve", "--warehouse", place, "--port", str(port), "--workers", str(workers)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert httpx.Client(transport=httpx.HTTPTransport(retries=8)).get(f"http://127.0.0.1:{port}/ready").status_code == 200
        server.send_signal(ends)
        _, said = server.communicate(timeout=PATIENCE)
    assert said.count("Stopping: requests that were begun have") == 1


def _served(lake: Lakehouse, pid: int) -> list[tuple[object, object]]:
    """What `system.cluster` says of a process, once it has noted itself."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        (rows,) = lake.sql(f"SELECT kind, doing FROM system.cluster WHERE process_id = {pid}")
        assert isinstance(rows, ResultRows)
        if found := rows.table.to_pylist():
            return [(row["kind"], row["doing"]) for row in found]
        time.sleep(0.05)
    return []
