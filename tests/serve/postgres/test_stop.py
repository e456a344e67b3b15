"""`lakewarden serve --pg-port` as a program, and its stop."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from lakewarden import Lakehouse
from lakewarden.serve.tokens import operator_token
from tests.fixtures.servers import free_port, running

pytestmark = pytest.mark.slow


def test_what_was_acknowledged_is_there_behind_a_stop(tmp_path: Path) -> None:
    place, port = str(tmp_path / "w"), free_port()
    with Lakehouse.open(place) as lake:
        lake.sql("CREATE NAMESPACE app; CREATE TABLE app.t (id BIGINT PRIMARY KEY) WITH (TYPE = 'SHARED')")
        token = operator_token(lake.warehouse, "root", "system", timedelta(hours=1))
    program = str(Path(sys.executable).parent / "lakewarden")
    words = [program, "serve", "--warehouse", place, "--port", str(free_port()), "--pg-port", str(port)]

    def answers() -> bool:
        return subprocess.run(["pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)], check=False).returncode == 0

    with running(words, answers, log=tmp_path / "log"):
        client = psycopg.connect(host="127.0.0.1", port=port, user="root", password=token, dbname="app", autocommit=True)
        for number in range(20):
            client.execute("INSERT INTO t VALUES (%s)", (number,))
    with client, pytest.raises(psycopg.OperationalError):
        client.execute("SELECT 1")
    with Lakehouse.open(place) as lake:
        assert lake.sql("SELECT count(*) AS n FROM app.t")[0].to_pylist() == [{"n": 20}]  # type: ignore[union-attr]
