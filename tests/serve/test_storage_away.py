"""`lakewarden serve` that starts while a storage is away: it serves all else, over HTTP and over PostgreSQL's protocol."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from lakewarden import Lakehouse
from lakewarden.serve.tokens import operator_token
from tests.fixtures.minio import MinioServer
from tests.fixtures.servers import free_port
from tests.fixtures.stores_away import Far, far_storage, gone
from tests.serve.process import Served, served

pytestmark = [pytest.mark.disk, pytest.mark.slow, pytest.mark.xdist_group("stores_away")]

_PASSWORD = "correct horse battery"


def _check_http(server: Served) -> None:
    with server.client("root") as client:
        assert client.get("/ready").status_code == 200

        def sql(text: str) -> tuple[int, str]:
            answer = client.post("/v1/api/sql", json={"sql": text})
            return answer.status_code, answer.text

        assert sql("SELECT count(*) AS n FROM n.snear")[0] == 200
        assert sql("INSERT INTO n.snear VALUES (70, 'a')")[0] == 200
        assert sql("SELECT table_name, sync_state FROM system.manifest")[0] == 200
        for text in ("SELECT * FROM n.sfar", "INSERT INTO n.sfar VALUES (70, 'a')", "STORAGE FLUSH TABLE n.far"):
            status, body = sql(text)
            assert status == 503, (text, body)
            assert "STORAGE_UNAVAILABLE" in body
            assert "far" in body.replace("n.sfar", "").replace("n.far", ""), "the storage is named"


def _check_postgres(port: int) -> None:
    where = f"host=127.0.0.1 port={port} user=ada password='{_PASSWORD}' dbname=n"
    with psycopg.connect(where, autocommit=True) as connection:
        assert connection.execute("SELECT id FROM n.near ORDER BY id").fetchall() == [(0,), (1,), (2,)]
        connection.execute("INSERT INTO n.near VALUES (71, 'b')")
        for text in ("SELECT * FROM n.far", "INSERT INTO n.far VALUES (71, 'b')"):
            with pytest.raises(psycopg.OperationalError, match="far") as refused:
                connection.execute(text)
            assert (refused.value.sqlstate or "")[:2] in ("08", "58"), "an outage, to be tried again"
        assert len(connection.execute("SELECT id FROM n.near").fetchall()) == 4, "the session goes on"


@pytest.mark.parametrize("way", ["refused", pytest.param("denied", marks=pytest.mark.night)])
def test_a_server_starts_without_it_and_serves_all_else(
    minio: MinioServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    place = tmp_path / f"serve-{way}" / "lake"
    with far_storage(minio, place, monkeypatch) as far:
        with Lakehouse.open(str(place)) as lake:
            lake.sql(f"CREATE USER ada WITH PASSWORD '{_PASSWORD}' ROLE user")
            token = operator_token(lake.warehouse, "root", "dba", timedelta(hours=1))
        with gone(far, way, minio, monkeypatch):
            _check_server(far, token)


def _check_server(far: Far, token: str) -> None:
    port = free_port()
    environment = {**os.environ, "LAKEWARDEN_SQL__WORKERS": "1"}
    with served(str(far.root), {"root": token}, environment=environment, pg_port=port) as server:
        _check_http(server)
        _check_postgres(port)
