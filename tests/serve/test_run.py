"""`lakewarden serve` as a program: several processes, and a stop."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from lakewarden import Lakehouse
from lakewarden.cli.main import main as cli
from lakewarden.serve.tokens import operator_token
from lakewarden.sql.results import ResultRows
from tests.fixtures.patience import PATIENCE

pytestmark = pytest.mark.slow

_STOPPING = "Stopping: requests that were begun have"
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


def test_a_stop_loses_no_acknowledged_row_and_is_said_once(place: str, tmp_path: Path) -> None:
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
    said = tmp_path / "said"
    with said.open("wb") as log:
        server = subprocess.Popen(command, env={**os.environ, "LAKEWARDEN_SQL__WORKERS": "1"}, stderr=log)
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
    assert said.read_text().count(_STOPPING) == 1


@pytest.fixture
def left_as_found() -> Iterator[None]:
    """What a server sets in its process, set back."""
    logger, ends = logging.getLogger("lakewarden.serve"), (signal.SIGTERM, signal.SIGINT)
    handlers, level, answers = [*logger.handlers], logger.level, [signal.getsignal(one) for one in ends]
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)
    for one, answer in zip(ends, answers, strict=True):
        signal.signal(one, answer)


@pytest.mark.usefixtures("left_as_found")
@pytest.mark.parametrize("option", ["--port", "--flight-port", "--pg-port"])
def test_a_port_in_use_is_one_clear_line(place: str, option: str, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = ["--port", str(_free_port()), option, str(taken.getsockname()[1])]
        with pytest.raises(SystemExit) as ended:
            cli(["serve", "--warehouse", place, *ports])
    said = capfd.readouterr().err
    assert (ended.value.code, len(said.splitlines())) == (1, 1), said
    assert "Address already in use" in said


def test_the_first_serve_makes_the_warehouse_and_says_at_once_that_it_stops(tmp_path: Path) -> None:
    port = _free_port()
    command = [_LAKEWARDEN, "serve", "--warehouse", str(tmp_path / "new"), "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert httpx.Client(transport=httpx.HTTPTransport(retries=8)).get(f"http://127.0.0.1:{port}/ready").status_code == 200
            with Lakehouse.open(str(tmp_path / "new")) as lake:
                assert _served(lake, server.pid) == [("serve", f"http://127.0.0.1:{port}")]
        finally:
            server.send_signal(signal.SIGINT)
        _, said = server.communicate(timeout=PATIENCE)
    assert said.count(_STOPPING) == 1


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
