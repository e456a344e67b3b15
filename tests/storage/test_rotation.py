"""Credentials that change while a warehouse is open: in the environment, in a file, and at a provider."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from lakewarden import Lakehouse
from lakewarden.base.clock import random_id
from lakewarden.base.connection import Connection, Location
from lakewarden.base.scope import Scope, TableName
from lakewarden.delta.reading.column_cache import TableCache
from lakewarden.errors import AccessRefused, StorageRefused
from lakewarden.serve.tokens import operator_token
from lakewarden.storage.clients import Clients
from lakewarden.storage.open import open_store
from lakewarden.storage.sources import _Pages
from lakewarden.tables.client import TableClient
from tests.fixtures.lakes import NOTES, eventual, make_notes, notes, strong
from tests.fixtures.minio import MinioServer, drive
from tests.fixtures.proxy import Plan, Proxy, proxy_of
from tests.serve.process import served

_OWN = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
Keys = Mapping[str, str]


@pytest.fixture
def proxy(minio: MinioServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with proxy_of(minio.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        yield proxy


@dataclass
class Provider:
    """What a container's agent does: gives keys over HTTP, said to be valid for long."""

    url: str = ""
    keys: Keys = field(default_factory=dict)

    @contextmanager
    def serving(self) -> Iterator[None]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # http.server calls it so
                names = dict(zip(("AccessKeyId", "SecretAccessKey", "Token"), _OWN, strict=True))
                found = {name: provider.keys[key] for name, key in names.items()} | {"Expiration": "2099-01-01T00:00:00Z"}
                body = json.dumps(found).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # so named there
                """Says nothing."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            self.url = f"http://127.0.0.1:{server.server_port}/keys"
            yield
            server.shutdown()
            thread.join()


Give = Callable[[Keys], None]
"""Makes these the keys that the process finds."""


def _set(environment: pytest.MonkeyPatch, keys: Keys) -> None:
    for name, value in keys.items():
        environment.setenv(name, value)


def _write_profile(file: Path, keys: Keys) -> None:
    file.write_text("\n".join(["[lake]", *(f"{name.lower()} = {value}" for name, value in keys.items())]))


@pytest.fixture(params=["environment", "profile", "provider"])
def give(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Give]:
    if request.param == "environment":
        yield partial(_set, monkeypatch)
        return
    for name in _OWN:
        monkeypatch.delenv(name, raising=False)
    if request.param == "profile":
        file = tmp_path / "credentials"
        _write_profile(file, {})
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
        monkeypatch.setenv("AWS_PROFILE", "lake")
        yield partial(_write_profile, file)
        return
    provider = Provider()
    with provider.serving():
        token = tmp_path / "token"
        token.write_text("of the container")
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", provider.url)
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(token))
        yield lambda keys: setattr(provider, "keys", keys)


def _uses(lake: Lakehouse, table: TableClient, number: int) -> None:
    before = strong(table, "ann")
    table.write(notes({number: f"row {number}"}), user="ann")
    assert [report.fault for report in lake.flush()] == [None]
    assert strong(table, "ann") == eventual(table, "ann") == before | {number: f"row {number}"}
    assert [one for one in lake.check() if not one.passed] == []


def test_an_open_warehouse_goes_on_with_new_keys(minio: MinioServer, proxy: Proxy, s3_warehouse_uri: str, give: Give) -> None:
    first, second = minio.session("AWS", "s3:*"), minio.session("AWS", "s3:*")
    give(first)
    with Lakehouse.open(s3_warehouse_uri) as lake:
        table = make_notes(lake)
        _uses(lake, table, 1)
        proxy.expired.add(first["AWS_ACCESS_KEY_ID"])
        with pytest.raises(AccessRefused, match="does not accept these credentials"):
            table.write(notes({2: "refused"}), user="ann")
        give(second)
        _uses(lake, table, 3)
        proxy.taken()
        _uses(lake, table, 4)
        with Lakehouse.open(s3_warehouse_uri) as another:
            _uses(another, another.table(NOTES), 5)


def test_a_storage_with_keys_of_its_own_goes_on_with_new_ones(
    minio: MinioServer, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def give(keys: Keys) -> None:
        for name, value in keys.items():
            monkeypatch.setenv(name, value)

    first, second = minio.session("TENANT_A", "s3:*"), minio.session("TENANT_A", "s3:*")
    give(first)
    with Lakehouse.open(str(tmp_path / "lake")) as lake:
        connection = Connection(endpoint=proxy.endpoint, credentials="env:TENANT_A")
        lake.create_storage("cold", type="s3", base=f"s3://lake/{random_id()}", connection=connection)
        table = make_notes(lake, options={"STORAGE_ID": "cold"})
        _uses(lake, table, 1)
        proxy.expired.add(first["TENANT_A_ACCESS_KEY_ID"])
        table.write(notes({2: "waits"}), user="ann")
        assert [report.fault is not None and report.fault.code for report in lake.flush()] == ["STORAGE_UNAVAILABLE"]
        give(second)
        with Lakehouse.open(lake.warehouse.uri) as another:  # of the same process
            assert [report.fault for report in another.flush()] == [None]
        assert eventual(table, "ann") == {1: "row 1", 2: "waits"}
        _uses(lake, table, 3)


@pytest.mark.slow
def test_a_server_whose_keys_are_other_ones_since_it_was_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with drive() as machine:
        uri = f"s3://lake/{random_id()}"
        with machine.running() as server:
            for name, value in server.environment.items():
                monkeypatch.setenv(name, value)
            lake = Lakehouse.open(uri)
            _uses(lake, make_notes(lake), 1)
        with machine.running("another-user", "another-password") as server:
            with pytest.raises(AccessRefused):
                lake.flush()
            for name, value in server.environment.items():
                monkeypatch.setenv(name, value)
            _uses(lake, lake.table(NOTES), 2)
            lake.close()


@pytest.mark.usefixtures("minio")
def test_a_listing_that_gets_another_client_goes_on_behind_what_it_had(
    s3_warehouse_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, clients = open_store(Location(s3_warehouse_uri)), Clients(Location(s3_warehouse_uri))
    for number in range(5):
        bucket.put(f"{number}", b"x")
    monkeypatch.setattr("lakewarden.storage.sources.PAGE", 2)
    pages = _Pages(s3_warehouse_uri.removeprefix("s3://lake/"), None)
    before, after = clients.of(), clients.of(retries=0)
    found = [pages.following(client) for client in (before, after, after, after)]
    assert [each["path"][-1] for page in found for each in page] == ["0", "1", "2", "3", "4"]


def test_what_a_policy_forbids_is_said_after_two_tries(
    minio: MinioServer, proxy: Proxy, s3_warehouse_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in minio.session("AWS", "s3:GetObject").items():
        monkeypatch.setenv(name, value)
    store = open_store(Location(s3_warehouse_uri))
    with pytest.raises(AccessRefused, match="do not permit that"):
        store.create("a", b"x")
    assert len(proxy.taken()) <= 2
    with proxy.under(Plan("error", every=1)), pytest.raises(AccessRefused):
        store.put("a", b"x")


def test_a_profile_without_keys_is_named(tmp_path: Path, s3_warehouse_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _OWN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_PROFILE", "nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    with pytest.raises(StorageRefused, match=f"AWS_PROFILE is nowhere, and {tmp_path}/credentials has no keys of that profile"):
        open_store(Location(s3_warehouse_uri)).get("a")


@pytest.mark.slow
def test_a_running_server_follows_the_file(
    minio: MinioServer, proxy: Proxy, s3_warehouse_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can change the environment of a process that runs."""
    first, second = minio.session("AWS", "s3:*"), minio.session("AWS", "s3:*")
    with Lakehouse.open(s3_warehouse_uri) as lake:
        lake.sql("CREATE NAMESPACE app; CREATE TABLE app.notes (id BIGINT PRIMARY KEY, body TEXT) WITH (TYPE = 'USER')")
        tokens = {"ann": operator_token(lake.warehouse, "ann", "user", timedelta(hours=1))}
    file = tmp_path / "credentials"
    _write_profile(file, first)
    for name in _OWN:
        monkeypatch.delenv(name, raising=False)
    environment = {**os.environ, "AWS_SHARED_CREDENTIALS_FILE": str(file), "AWS_PROFILE": "lake"}
    with served(s3_warehouse_uri, tokens, environment=environment) as server, server.client("ann") as client:
        answers = [_inserted(client, 1)]
        proxy.expired.add(first["AWS_ACCESS_KEY_ID"])
        answers.append(_inserted(client, 2))
        _write_profile(file, second)
        answers.append(_inserted(client, 3))
        rows = client.post("/v1/api/sql", json={"sql": "SELECT id FROM app.notes ORDER BY id"}).text
        assert "1" in rows
        assert "3" in rows
    assert answers == [200, 503, 200]


def _inserted(client: httpx.Client, number: int) -> int:
    return client.post("/v1/api/sql", json={"sql": f"INSERT INTO app.notes VALUES ({number}, 'x')"}).status_code


def test_a_snapshot_that_was_kept_is_read_with_new_keys(
    minio: MinioServer, proxy: Proxy, s3_warehouse_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = minio.session("AWS", "s3:*"), minio.session("AWS", "s3:*")
    _set(monkeypatch, first)
    with Lakehouse.open(s3_warehouse_uri) as lake:
        _uses(lake, make_notes(lake), 1)
        target = lake.warehouse.target(lake.warehouse.catalog.read(), Scope(TableName.parse(NOTES), "ann"))
        cache = TableCache()
        kept = cache.open(target)
        assert kept is not None
        proxy.expired.add(first["AWS_ACCESS_KEY_ID"])
        _set(monkeypatch, second)
        anew = cache.open(target)
        assert anew is kept
        assert anew.scan().column("id").to_pylist() == [1]
