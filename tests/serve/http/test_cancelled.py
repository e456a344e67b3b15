"""A query whose client goes away frees its worker, over every protocol; a write runs to its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import adbc_driver_manager
import httpx
import psycopg
import pytest
from adbc_driver_flightsql import DatabaseOptions, dbapi

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import ServeSettings, SqlSettings
from lakewarden.base.settings import Settings
from lakewarden.serve.common import Common, Listening
from lakewarden.serve.flight.service import served
from tests.fixtures.patience import PATIENCE
from tests.serve.conftest import PASSWORD, Moving, bearer, login
from tests.serve.postgres.conftest import address, listening

ENDLESS = "SELECT count(*) AS n FROM range(1000000) a, range(1000000) b WHERE (a.range * b.range) % 7 = {}"
"""Hours of a core."""

_GIVES_UP = 0.8
"""Seconds that a client waits before it goes away: the statement runs by then."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, clock: Moving) -> Iterator[Lakehouse]:
    """One worker, and one request of a user at a time: whoever is answered was let in, and had the worker."""
    sql = SqlSettings(memory_bytes=256 << 20, workers=1, threads=1, timeout_seconds=PATIENCE)
    settings = Settings(sql=sql, serve=ServeSettings(concurrent_per_user=1))
    with Lakehouse.open(str(tmp_path_factory.mktemp("warehouse") / "w"), settings=settings, clock=clock) as opened:
        opened.sql("CREATE NAMESPACE app; CREATE TABLE app.notes (id BIGINT PRIMARY KEY) WITH (TYPE = 'USER')")
        opened.sql(f"CREATE USER ann WITH PASSWORD '{PASSWORD}' ROLE user")
        yield opened


@pytest.fixture
def probe(client: httpx.Client) -> Callable[[], None]:
    """Returns when a query of ann's is answered: one more is let in only when the one before has ended."""
    client.headers.update(bearer(login(client, "ann")["access_token"]))

    def answered() -> None:
        while (found := client.post("/v1/api/sql", json={"sql": "SELECT 1 AS n"})).status_code == 429:
            time.sleep(0.05)
        assert found.json()["results"][0]["rows"] == [{"n": 1}]

    return answered


def test_http_whose_client_disconnects(client: httpx.Client, probe: Callable[[], None]) -> None:
    with pytest.raises(httpx.ReadTimeout):
        client.post("/v1/api/sql", json={"sql": ENDLESS.format(1)}, timeout=httpx.Timeout(PATIENCE, read=_GIVES_UP))
    probe()


def test_k3_whose_client_disconnects(client: httpx.Client, probe: Callable[[], None]) -> None:
    with pytest.raises(httpx.ReadTimeout):
        client.post(
            "/k3/v1/execute", json={"bucket": "app", "sql": ENDLESS.format(5)}, timeout=httpx.Timeout(PATIENCE, read=_GIVES_UP)
        )
    probe()


def test_a_write_whose_client_disconnects_runs_to_its_end(client: httpx.Client, probe: Callable[[], None]) -> None:
    body = {"sql": "INSERT INTO app.notes SELECT count(*) AS id FROM range(400000000) WHERE (range * range) % 7 = 3"}
    with pytest.raises(httpx.ReadTimeout):
        client.post("/v1/api/sql", json=body, timeout=httpx.Timeout(PATIENCE, read=_GIVES_UP))
    probe()
    found = client.post("/v1/api/sql", json={"sql": "SELECT count(*) AS n FROM app.notes"})
    assert found.json()["results"][0]["rows"] == [{"n": 1}]


def _repeatedly(cancel: Callable[[], None], ended: threading.Event) -> threading.Thread:
    def ask() -> None:
        while not ended.wait(0.2):
            cancel()

    asking = threading.Thread(target=ask)
    asking.start()
    return asking


def test_postgresql_by_a_request_to_cancel(lake: Lakehouse, probe: Callable[[], None]) -> None:
    ended = threading.Event()
    with listening(lake) as port, psycopg.connect(address(port, "ann"), autocommit=True) as ann:
        asking = _repeatedly(ann.cancel_safe, ended)
        try:
            with pytest.raises(psycopg.errors.QueryCanceled):
                ann.execute(ENDLESS.format(2))
        finally:
            ended.set()
            asking.join()
        assert ann.execute("SELECT 1").fetchone() == (1,)
    probe()


def test_postgresql_whose_client_closes(lake: Lakehouse) -> None:
    with listening(lake) as port, psycopg.connect(address(port, "ann"), autocommit=True) as other:
        with closing(psycopg.connect(address(port, "ann"), autocommit=True)) as gone:
            gone.pgconn.send_query(ENDLESS.format(3).encode())
            time.sleep(1.0)  # so that it runs; where it does not yet, it must not begin
        deadline = time.monotonic() + PATIENCE
        while not _answers(other):
            assert time.monotonic() < deadline, "the request of a client that is gone keeps its place"
            time.sleep(0.05)


def _answers(connection: psycopg.Connection) -> bool:
    """Whether the user's one request at a time is free."""
    try:
        return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.errors.ConfigurationLimitExceeded:
        return False


def test_flight_whose_driver_cancels(lake: Lakehouse, client: httpx.Client, probe: Callable[[], None]) -> None:
    header = {DatabaseOptions.AUTHORIZATION_HEADER.value: client.headers["Authorization"]}
    ended = threading.Event()
    with (
        served(Common.of(lake), Listening("127.0.0.1", 0, flight_port=0)) as port,
        dbapi.connect(f"grpc://127.0.0.1:{port}", db_kwargs=header, autocommit=True) as connection,
    ):
        cursor = connection.cursor()
        asking = _repeatedly(cursor.adbc_cancel, ended)
        try:
            with pytest.raises(adbc_driver_manager.Error):
                cursor.execute(ENDLESS.format(4))
        finally:
            ended.set()
            asking.join()
        probe()  # before the driver closes its statement, which is a call too
