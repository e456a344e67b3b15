"""A store that only speaks S3 is reached without a question to Amazon's network, whatever the environment lacks."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from deltalake import DeltaTable

from lakewarden.base.connection import Connection, Location
from lakewarden.cli.main import main
from lakewarden.storage.options import delta_options
from tests.fixtures.servers import free_port


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """What the place is asked that gives out the roles of Amazon's machines; the environment says nothing of S3."""
    asked: list[str] = []

    class Role(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path}")
            self.send_error(404)

        def do_PUT(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Role) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        for name in ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_METADATA_ENDPOINT"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{server.server_port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
        yield asked
        server.shutdown()


@pytest.mark.parametrize(("keys", "said"), [(False, "no credentials for"), (True, "nothing listens there")])
def test_minio_without_a_region(
    questions: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    warehouse_uri: str,
    keys: bool,
    said: str,
) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    if keys:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    words = ["storage", "create", "lake", "--preset", "minio", "--endpoint", endpoint, "--bucket", "lake"]
    with pytest.raises(SystemExit) as ended:
        main(["--warehouse", warehouse_uri, *words])
    assert ended.value.code == 1
    error = capsys.readouterr().err
    assert said in error
    assert endpoint in error
    if keys:
        place = Location("s3://lake/x", Connection(endpoint=endpoint))
        options = delta_options(place, {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})
        with pytest.raises(OSError, match="refused"):
            DeltaTable(place.uri, storage_options=options | {"max_retries": "0"})
    assert questions == []
