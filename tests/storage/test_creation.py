"""Creates an object once, whatever becomes of the answer, and knows its own object from an equal one of another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3
import pytest

from lakewarden.base.connection import Location
from lakewarden.errors import StorageUnavailable
from lakewarden.storage import remote
from lakewarden.storage.local import _name
from lakewarden.storage.objects import AlreadyThere, ObjectStore
from lakewarden.storage.open import open_store
from tests.fixtures.azurite import AzuriteServer
from tests.fixtures.minio import MinioServer
from tests.fixtures.proxy import Fault, Plan, Proxy, proxy_of

_ANSWERS: list[Fault] = [
    "error",
    "failed",
    "busy",
    "reset",
    "conflict",
    "taken",
    "lost",
    "lost-error",
    "lost-slow-down",
    "lost-conflict",
    "lost-taken",
    "repeated",
    "doubled",
    "cut",
    "cut-request",
]


@pytest.fixture
def proxy(minio: MinioServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with proxy_of(minio.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        yield proxy


@pytest.fixture
def store(proxy: Proxy, s3_warehouse_uri: str) -> ObjectStore:  # noqa: ARG001  # the environment leads to it
    return open_store(Location(s3_warehouse_uri))


@pytest.mark.parametrize("answer", _ANSWERS)
def test_a_creation_is_done_whatever_the_first_answer_is(proxy: Proxy, store: ObjectStore, answer: Fault) -> None:
    plan = Plan(answer, at=(1,))
    with proxy.under(plan):
        store.create("k", b"ours")
    assert len(plan.befallen) == 1
    assert store.get("k") == b"ours"
    with pytest.raises(AlreadyThere):
        store.create("k", b"ours")  # equal, and another's all the same


@pytest.mark.parametrize("answer", ["conflict", "taken", "lost-conflict", "lost-taken", "repeated"])
def test_anothers_equal_object_is_anothers_whatever_the_answer_is(proxy: Proxy, store: ObjectStore, answer: Fault) -> None:
    store.create("k", b"equal")
    with proxy.under(Plan(answer, every=1)), pytest.raises(AlreadyThere):
        store.create("k", b"equal")


@pytest.mark.parametrize("answer", ["conflict", "taken"])
def test_a_store_that_says_for_good_what_it_does_not_show_is_not_believed(
    proxy: Proxy, store: ObjectStore, answer: Fault
) -> None:
    with proxy.under(Plan(answer, every=1)), pytest.raises(StorageUnavailable, match="the store says that it exists"):
        store.create("k", b"ours")
    store.create("k", b"ours")


def test_of_equal_objects_that_race_one_is_created(store: ObjectStore) -> None:
    def created(number: int) -> bool:
        try:
            store.create(f"k{number // 4}", b"equal")
        except AlreadyThere:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        won = list(threads.map(created, range(32)))
    assert [sum(won[start : start + 4]) for start in range(0, 32, 4)] == [1] * 8


def test_a_look_that_fails_leaves_the_outcome_open(proxy: Proxy, store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "RETRIES", 1)
    monkeypatch.setattr(remote.RemoteObjects._done, "__defaults__", (0, 1))
    store.create("k", b"another's")
    with proxy.under(Plan("error", kinds=("HEAD",), every=1)), pytest.raises(StorageUnavailable):
        store.create("k", b"ours")


def test_an_object_of_another_program_with_our_bytes_is_not_ours(
    minio: MinioServer, s3_warehouse_uri: str, store: ObjectStore
) -> None:
    bucket, _, prefix = s3_warehouse_uri.removeprefix("s3://").partition("/")
    boto3.client("s3", endpoint_url=minio.endpoint).put_object(Bucket=bucket, Key=f"{prefix}/k", Body=b"equal")
    with pytest.raises(AlreadyThere):
        store.create("k", b"equal")


@pytest.mark.parametrize("answer", ["conflict", "taken", "lost", "lost-error", "lost-conflict", "lost-taken", "repeated"])
def test_azure_answers_409_for_what_is_there_and_for_what_is_not(
    azurite: AzuriteServer, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, answer: Fault
) -> None:
    with proxy_of(azurite.endpoint) as proxy:
        monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", proxy.endpoint)
        store = open_store(Location(azurite.prefix_for(request.node.nodeid)))
        plan = Plan(answer, at=(1,))
        with proxy.under(plan):
            store.create("k", b"ours")
        assert len(plan.befallen) == 1
        with pytest.raises(AlreadyThere):
            store.create("k", b"ours")


def test_a_link_that_is_repeated_by_the_file_system_counts(tmp_path: Path) -> None:
    ours, name = tmp_path / "ours", str(tmp_path / "name")
    ours.write_bytes(b"rows")

    def link() -> None:
        os.link(ours, name)
        os.link(ours, name)  # as a client of NFS does when the first answer is lost

    _name(link, ours.stat, name, "name")
    other = tmp_path / "other"
    other.write_bytes(b"rows")
    with pytest.raises(AlreadyThere):
        _name(lambda: os.link(other, name), other.stat, name, "name")
