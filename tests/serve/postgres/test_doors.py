"""Who may connect, and what ends a connection."""

from __future__ import annotations

import socket
import struct
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from lakewarden import Lakehouse
from lakewarden.serve.tokens import operator_token
from tests.serve.conftest import PASSWORD, Moving
from tests.serve.postgres.conftest import address, listening


def _audited(lake: Lakehouse, action: str) -> list[object]:
    found = lake.sql(f"SELECT details FROM system.audit_log WHERE action = '{action}'")[0]
    return [row["details"] for row in found.to_pylist()]  # type: ignore[union-attr]


def test_a_wrong_password_is_refused_and_audited(lake: Lakehouse, port: int) -> None:
    for user in ("ann", "nobody"):
        with pytest.raises(psycopg.OperationalError, match="user or password is wrong"):
            psycopg.connect(address(port, user).replace(PASSWORD, "wrong"))
    assert len(_audited(lake, "LOGIN_REFUSED")) >= 2


def test_a_token_opens_its_own_users_connections_until_it_expires(lake: Lakehouse, port: int, clock: Moving) -> None:
    token = operator_token(lake.warehouse, "root", "system", timedelta(minutes=5))
    with psycopg.connect(host="127.0.0.1", port=port, user="root", password=token, dbname="app", autocommit=True) as root:
        assert root.execute("SELECT count(*) FROM system.users").fetchone() == (2,)
        with pytest.raises(psycopg.OperationalError, match="another user's"):
            psycopg.connect(host="127.0.0.1", port=port, user="ann", password=token, dbname="app")
        try:
            clock.moved = timedelta(minutes=6)
            with pytest.raises(psycopg.OperationalError, match="expired"):
                root.execute("SELECT 1")
        finally:
            clock.moved = timedelta(0)
        assert root.broken


def test_a_change_of_the_user_ends_the_connections(lake: Lakehouse, port: int) -> None:
    lake.sql(f"CREATE USER eve WITH PASSWORD '{PASSWORD}' ROLE user")
    with psycopg.connect(address(port, "eve"), autocommit=True) as eve:
        eve.execute("SELECT 1")
        lake.sql("DROP USER eve")
        with pytest.raises(psycopg.OperationalError, match="dropped"):
            _ask_again_and_again(eve)


def _ask_again_and_again(client: psycopg.Connection) -> None:
    """A process looks at the catalog again within a second."""
    for _ in range(1000):
        client.execute("SELECT 1")


def test_a_database_is_a_namespace(port: int) -> None:
    with pytest.raises(psycopg.OperationalError, match="no namespace 'nowhere'"):
        psycopg.connect(address(port, "ann", "nowhere"))
    with psycopg.connect(address(port, "ann", "postgres"), autocommit=True) as client:
        client.execute("SELECT * FROM app.notes")
        with pytest.raises(psycopg.Error, match="namespace"):
            client.execute("SELECT * FROM notes")
        client.execute("SET search_path TO app, public")
        client.execute("SELECT * FROM notes")


def _startup(version: int = 3 << 16) -> bytes:
    body = struct.pack("!i", version) + b"user\0ann\0database\0app\0\0"
    return struct.pack("!i", len(body) + 4) + body


@pytest.mark.parametrize(
    "sent",
    [
        lambda: struct.pack("!ii", 1 << 30, 3 << 16),
        lambda: struct.pack("!i", 4),
        lambda: struct.pack("!ii", 9, 3 << 16) + b"\0",
        lambda: _startup(2 << 16),
        lambda: struct.pack("!ii", 8, 80877104) * 4,
        lambda: _startup() + b"Q" + struct.pack("!i", 4),
        lambda: _startup() + b"p" + struct.pack("!i", 8) + b"\xff\xff\xff\0",
        lambda: _startup() + b"p" + struct.pack("!i", -1),
    ],
)
def test_what_is_malformed_ends_its_own_connection_alone(port: int, ann: psycopg.Connection, sent: Callable[[], bytes]) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as raw:
        raw.sendall(sent())
        raw.shutdown(socket.SHUT_WR)
        found = b""
        while piece := raw.recv(4096):
            found += piece
    assert b"FATAL" in found or not found.strip(b"N")
    assert ann.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize(
    "sent",
    [
        b"!" + struct.pack("!i", 4),
        b"P" + struct.pack("!i", 6) + b"aa",
        b"B" + struct.pack("!i", 1 << 30),
        b"D" + struct.pack("!i", 4),
        b"Q" + struct.pack("!i", 6) + b"\xff\0",
    ],
)
def test_a_malformed_message_behind_the_login_does_too(port: int, ann: psycopg.Connection, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as raw:
        password = PASSWORD.encode() + b"\0"
        raw.sendall(_startup() + b"p" + struct.pack("!i", len(password) + 4) + password)
        found = b""
        while not found.endswith(b"Z\0\0\0\5I"):
            found += raw.recv(4096)
        raw.sendall(sent)
        while piece := raw.recv(4096):
            found += piece
    assert b"08P01" in found
    assert ann.execute("SELECT 1").fetchone() == (1,)


def test_with_a_certificate_only_tls_is_served(lake: Lakehouse, tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=127.0.0.1"]
    subprocess.run([*made, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    with listening(lake, certificate, key) as port:
        with psycopg.connect(address(port, "ann") + f" sslmode=verify-ca sslrootcert={certificate}") as client:
            assert client.execute("SELECT current_user").fetchone() == ("ann",)
        with pytest.raises(psycopg.OperationalError, match="TLS alone"):
            psycopg.connect(address(port, "ann") + " sslmode=disable")
        with socket.create_connection(("127.0.0.1", port), timeout=60) as raw:  # put behind the request by somebody else
            raw.sendall(struct.pack("!ii", 8, 80877103) + _startup())
            assert b"08P01" in raw.recv(4096)


def test_a_stop_ends_idle_connections(lake: Lakehouse) -> None:
    with listening(lake) as port:
        client = psycopg.connect(address(port, "ann"), autocommit=True)
        client.execute("SELECT 1")
    with client, pytest.raises(psycopg.OperationalError):
        client.execute("SELECT 1")
