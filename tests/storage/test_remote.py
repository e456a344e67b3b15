"""How a bucket's failures are told. The promises themselves are in test_objects.py."""

from __future__ import annotations

import boto3
import pytest

from lakewarden import Lakehouse
from lakewarden.base.clock import random_id
from lakewarden.base.connection import Location
from lakewarden.errors import StorageRefused, StorageUnavailable
from lakewarden.storage import remote
from lakewarden.storage.clients import seconds_for
from lakewarden.storage.location import canonical
from lakewarden.storage.objects import AlreadyThere
from lakewarden.storage.open import open_store
from tests.fixtures.minio import MinioServer
from tests.fixtures.proxy import Fault, Weather, proxy_of


def test_a_memory_store_is_one_for_the_process() -> None:
    uri = f"memory://{random_id()}"
    open_store(Location(f"{uri}/a")).create("x", b"1")
    assert open_store(Location(uri)).get("a/x") == b"1"
    assert open_store(Location(f"memory://{random_id()}")).list("") == []


@pytest.mark.usefixtures("minio")
def test_a_bucket_that_is_not_there_is_told() -> None:
    store = open_store(Location("s3://no-such-bucket/x"))
    with pytest.raises(StorageRefused, match="no-such-bucket"):
        store.create("a", b"x")
    with pytest.raises(StorageRefused, match="no-such-bucket"):
        store.get("a")
    with pytest.raises(StorageRefused, match="no-such-bucket"):
        store.list("a")
    with pytest.raises(StorageRefused, match="no-such-bucket"):
        store.delete(["a", "b"])


@pytest.mark.minio
def test_wrong_credentials_are_told(s3_warehouse_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2hunter2")
    store = open_store(Location(s3_warehouse_uri))
    with pytest.raises(StorageRefused, match=f"cannot create a in {canonical(s3_warehouse_uri)}") as refusal:
        store.create("a", b"x")
    assert "hunter2" not in refusal.value.message


def test_a_large_object_is_one_request(minio: MinioServer, s3_warehouse_uri: str) -> None:
    """Else a process that is killed leaves parts that no listing shows."""
    store, large = open_store(Location(s3_warehouse_uri)), bytes(12 << 20)
    store.put("put", large)
    store.create("created", large)
    bucket, _, prefix = s3_warehouse_uri.removeprefix("s3://").partition("/")
    client = boto3.client("s3", endpoint_url=minio.endpoint)
    for name in ("put", "created"):
        found = client.head_object(Bucket=bucket, Key=f"{prefix}/{name}")
        assert (found["ContentLength"], "-" in found["ETag"]) == (len(large), False), "the ETag of parts has their number"


def test_what_is_too_large_for_one_request_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_AT_MOST", 3)
    store = open_store(Location(f"memory://{random_id()}"))
    store.put("small", b"abc")
    for call in (store.put, store.create):
        with pytest.raises(StorageRefused, match="it has 4 bytes, and the limit is 3 in one request"):
            call("large", b"abcd")
    assert [found.key for found in store.list("")] == ["small"]


@pytest.mark.parametrize(("size", "seconds"), [(0, 0), (1 << 20, 0), (64 << 20, 120), (128 << 20, 240), (5_000_000_000, 15360)])
def test_a_larger_body_has_more_time(size: int, seconds: int) -> None:
    assert seconds_for(size) == seconds


def test_an_account_that_nothing_names_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_USE_EMULATOR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(StorageRefused, match="AZURE_STORAGE_ACCOUNT_NAME"):
        open_store(Location("az://container/x")).create("a", b"x")


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setenv(name, "x")
    with pytest.raises(StorageUnavailable, match=r"cannot read a in s3://lake"):
        open_store(Location("s3://lake")).get("a")


@pytest.mark.parametrize("fault", ["error", "reset", "lost", "lost-error"])
def test_an_object_is_made_once_whatever_became_of_the_answer(
    minio: MinioServer, s3_warehouse_uri: str, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    with proxy_of(minio.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        store = open_store(Location(s3_warehouse_uri))
        with proxy.under(Weather((fault,), 0.5, seed=3, only="^PUT ")):
            for number in range(8):
                store.create(f"k{number}", f"by us {number}".encode())
                with pytest.raises((AlreadyThere, StorageUnavailable)):  # the latter says that it cannot be told
                    store.create(f"k{number}", b"by another")
        assert [store.get(found.key) for found in store.list("")] == [f"by us {number}".encode() for number in range(8)]


def test_a_store_that_fails_for_good_is_told(minio: MinioServer, s3_warehouse_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with proxy_of(minio.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        with proxy.under(Weather(("error",), 1, seed=0)), pytest.raises(StorageUnavailable, match="cannot create a in"):
            open_store(Location(s3_warehouse_uri)).create("a", b"x")


@pytest.mark.parametrize("value", ["disabled", "Disabled"])
def test_conditional_writes_cannot_be_turned_off(
    minio: MinioServer, s3_warehouse_uri: str, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", value)
    with pytest.raises(StorageRefused, match="AWS_CONDITIONAL_PUT=disabled turns off conditional writes"):
        open_store(Location(s3_warehouse_uri)).create("a", b"x")
    with pytest.raises(StorageRefused, match="AWS_CONDITIONAL_PUT=disabled"), Lakehouse.open(s3_warehouse_uri):
        pass
    monkeypatch.delenv("AWS_CONDITIONAL_PUT")
    assert not boto3.client("s3", endpoint_url=minio.endpoint).list_objects_v2(
        Bucket=minio.bucket, Prefix=s3_warehouse_uri.rpartition("/")[2]
    )["KeyCount"]


@pytest.mark.parametrize(("name", "value"), [("AWS_CONDITIONAL_PUT", "dynamo:t"), ("AWS_SKIP_SIGNATURE", "maybe")])
def test_a_setting_that_the_client_cannot_use_is_refused(
    s3_warehouse_uri: str, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(StorageRefused, match=f"a setting that cannot be used.*{value}"):
        open_store(Location(s3_warehouse_uri.replace("s3://lake", "s3://other"))).get("a")
