"""The page that `ui` serves beside Dagster's."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from lakewarden import Lakehouse
from lakewarden.cli.fleet_server import fleet_served
from tests.fixtures.lakes import make_notes, notes

pytestmark = pytest.mark.disk


@pytest.mark.slow
def test_each_request_looks_anew_and_nothing_else_is_served(tmp_path: Path) -> None:
    uri = str(tmp_path / "warehouse")
    with fleet_served(uri, "127.0.0.1", 0, "http://127.0.0.1:3000") as url:
        assert httpx.get(url).status_code == 503, "there is no warehouse yet"
        with Lakehouse.open(uri) as lake:
            table = make_notes(lake)
            for count, user in enumerate(("ann", "bob"), 1):
                table.write(notes({1: "a"}), user=user)
                lake.flush()
                page = httpx.get(url)
                assert (page.status_code, f"{count} scope" in page.text) == (200, True)
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert httpx.get(url.replace("/fleet", "/etc/passwd")).status_code == 404


def test_a_port_that_is_taken_leaves_another(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with fleet_served(str(tmp_path), "127.0.0.1", port, "") as url:
            assert urlsplit(url).port not in (None, port)
