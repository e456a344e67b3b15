"""A real server in this process, on a port of its own, and a stock HTTP client in front of it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import httpx
import pytest
import uvicorn

from lakewarden import Lakehouse
from lakewarden.base.clock import system_clock
from lakewarden.base.setting_sections import SqlSettings
from lakewarden.base.settings import Settings
from lakewarden.serve.common import Common
from lakewarden.serve.http.app import application
from lakewarden.serve.tokens import operator_token
from lakewarden.sql.query_engine.workers.engine import pool_of_process
from tests.fixtures.patience import PATIENCE

PASSWORD = "correct horse battery"
_SQL = SqlSettings(memory_bytes=256 << 20, workers=2, threads=1)


class Moving:
    """The machine's clock, and what a test moved it by."""

    def __init__(self) -> None:
        self.moved = timedelta(0)

    def __call__(self) -> datetime:
        return system_clock() + self.moved


@pytest.fixture(scope="session", autouse=True)
def serve_workers() -> Iterator[None]:
    """Keeps the processes that run queries from module to module, as `query_workers` does those of the default settings."""
    release = pool_of_process(_SQL).hold()
    yield
    release()


@pytest.fixture(scope="module")
def clock() -> Moving:
    return Moving()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, clock: Moving) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path_factory.mktemp("warehouse") / "w"), settings=Settings(sql=_SQL), clock=clock) as opened:
        opened.sql("CREATE NAMESPACE app; CREATE TABLE app.notes (id BIGINT PRIMARY KEY, body TEXT) WITH (TYPE = 'USER')")
        opened.sql("; ".join(f"CREATE USER {user} WITH PASSWORD '{PASSWORD}' ROLE user" for user in ("ann", "bob")))
        yield opened


@contextmanager
def serving(lake: Lakehouse) -> Iterator[str]:
    """The server's address, while the block runs."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()  # a client that comes before uvicorn does waits
        server = uvicorn.Server(
            uvicorn.Config(application(Common.of(lake)), log_level="critical", lifespan="off", ws="websockets-sansio")
        )
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def url(lake: Lakehouse) -> Iterator[str]:
    with serving(lake) as address:
        yield address


@pytest.fixture
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=PATIENCE) as made:
        yield made


@pytest.fixture
def operator(client: httpx.Client, lake: Lakehouse) -> httpx.Client:
    token = operator_token(lake.warehouse, "root", "system", timedelta(hours=1))
    client.headers["Authorization"] = f"Bearer {token}"
    return client


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def login(client: httpx.Client, user: str) -> dict[str, str]:
    answer = client.post("/v1/auth/login", json={"user": user, "password": PASSWORD})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert isinstance(found, dict)
    return found
