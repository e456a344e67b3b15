"""A store that ignores the condition of a write is refused by name, wherever a place is tried."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakewarden import Lakehouse
from lakewarden.base.clock import random_id
from lakewarden.base.connection import Connection, Location
from lakewarden.errors import StorageRefused, UnconditionalStore
from lakewarden.storage.open import open_store
from lakewarden.storage.probe import PROBES, probe
from tests.fixtures.minio import MinioServer
from tests.fixtures.proxy import Plan, Proxy, proxy_of

_IGNORES = "ignores the condition of a write"


@pytest.fixture
def proxy(minio: MinioServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with proxy_of(minio.endpoint, minio.overwrite) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        yield proxy


def _ignoring(only: str = "") -> Plan:
    return Plan("unconditional", only=only, every=1)


def test_a_warehouse_is_not_founded_there(proxy: Proxy, s3_warehouse_uri: str) -> None:
    with proxy.under(_ignoring()), pytest.raises(UnconditionalStore, match=_IGNORES), Lakehouse.open(s3_warehouse_uri):
        pass
    assert open_store(Location(s3_warehouse_uri)).list("") == []


def test_a_warehouse_is_not_opened_there_although_it_was_probed_before(proxy: Proxy, s3_warehouse_uri: str) -> None:
    Lakehouse.open(s3_warehouse_uri).close()
    with proxy.under(_ignoring()), pytest.raises(UnconditionalStore, match=_IGNORES), Lakehouse.open(s3_warehouse_uri):
        pass


def test_an_open_that_was_probed_before_costs_two_requests(proxy: Proxy, s3_warehouse_uri: str) -> None:
    Lakehouse.open(s3_warehouse_uri).close()
    proxy.taken()
    Lakehouse.open(s3_warehouse_uri).close()
    assert [request.kind for request in proxy.taken()] == ["GET", "CREATE", "HEAD"]


def test_a_warehouse_at_another_address_is_probed_anew(proxy: Proxy, minio: MinioServer, s3_warehouse_uri: str) -> None:
    Lakehouse.open(s3_warehouse_uri).close()
    with proxy_of(minio.endpoint, minio.overwrite) as other, pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ENDPOINT_URL", other.endpoint)
        for _ in range(2):  # what was refused does not count as probed
            with other.under(_ignoring("-b$")), pytest.raises(UnconditionalStore), Lakehouse.open(s3_warehouse_uri):
                pass
    assert len(proxy.taken()) > 0


def test_who_may_only_read_opens_it(minio: MinioServer, s3_warehouse_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Lakehouse.open(s3_warehouse_uri).close()
    for name, value in minio.session("AWS", "s3:GetObject", "s3:ListBucket").items():
        monkeypatch.setenv(name, value)
    with Lakehouse.open(s3_warehouse_uri) as lake:
        assert [each.name for each in lake.namespaces()] == []
        with pytest.raises(StorageRefused):
            lake.create_namespace("chat")


def test_of_those_that_race_each_would_win(proxy: Proxy, s3_warehouse_uri: str) -> None:
    """The second creation alone is refused, as where a store looks first and writes then."""
    store = open_store(Location(s3_warehouse_uri))
    with proxy.under(_ignoring("-b$")), pytest.raises(UnconditionalStore, match=_IGNORES):
        probe(store, random_id)
    assert store.list(PROBES) == []


def test_a_storage_is_neither_created_nor_altered_there_and_check_says_so(
    proxy: Proxy, minio: MinioServer, s3_warehouse_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    good, bad = Connection(endpoint=minio.endpoint), Connection(endpoint=proxy.endpoint)
    base = f"{s3_warehouse_uri}-storage"
    with Lakehouse.open(str(tmp_path_factory.mktemp("lake"))) as lake, proxy.under(_ignoring()):
        with pytest.raises(UnconditionalStore, match=_IGNORES):
            lake.create_storage("cold", type="s3", base=base, connection=bad)
        lake.create_storage("cold", type="s3", base=base, connection=good)
        with pytest.raises(UnconditionalStore, match=_IGNORES):
            lake.alter_storage("cold", endpoint=proxy.endpoint)
        proxy.faults = None
        lake.alter_storage("cold", endpoint=proxy.endpoint)
        proxy.faults = _ignoring()
        (found,) = [one for one in lake.check(storage="cold") if one.check == "reachable"]
        assert not found.passed
        assert _IGNORES in found.message
        assert [_IGNORES in str(each.error) for each in lake.health("cold")] == [True]
