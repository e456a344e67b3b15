"""A survey of a bucket: with a key that may only list and read, in as few requests as it takes, whatever its names are."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import boto3
import pytest

import lakewarden
from lakewarden.base.connection import Connection
from lakewarden.errors import AccessRefused, NotFound, StorageUnavailable
from lakewarden.maintenance.survey import listing, run
from lakewarden.storage.meter import PROCESS
from tests.delta.hand_written import HandWritten
from tests.fixtures.minio import MinioServer
from tests.fixtures.proxy import Plan, Proxy, proxy_of

pytestmark = pytest.mark.minio

NAMES = ["plain", "Straße", "日本", "<script>alert(1)</script>", "a=1", "100%", "a b+c", "x'\"y", "😀"]


@pytest.fixture
def reading(minio: MinioServer, monkeypatch: pytest.MonkeyPatch) -> Connection:
    """A key that may list the bucket and read its objects."""
    for name, value in minio.session("READER", "s3:ListBucket", "s3:GetObject").items():
        monkeypatch.setenv(name, value)
    return Connection(minio.endpoint, "us-east-1", credentials="env:READER")


@pytest.fixture
def place(minio: MinioServer, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A prefix with a table of each name, all alike."""
    table = HandWritten(Path(str(tmp_path)) / "t")
    table.begin(table.file("1.parquet", [1]), table.file("2.parquet", [2]))
    prefix = minio.prefix_for(request.node.nodeid)
    files = {str(path.relative_to(table.path)): path.read_bytes() for path in table.path.rglob("*") if path.is_file()}
    put(minio, prefix, {f"{name}/{key}": data for name in NAMES for key, data in files.items()})
    return prefix


def put(minio: MinioServer, place: str, objects: Mapping[str, bytes]) -> None:
    keys = {"aws_access_key_id": minio.user, "aws_secret_access_key": minio.password, "region_name": "us-east-1"}
    client = boto3.Session().client("s3", endpoint_url=minio.endpoint, **keys)
    for key, data in objects.items():
        client.put_object(Bucket=minio.bucket, Key=f"{place.removeprefix(f'{minio.uri}/')}/{key}", Body=data)


@pytest.fixture
def proxy(minio: MinioServer) -> Iterator[Proxy]:
    with proxy_of(minio.endpoint) as found:
        yield found


def test_a_key_that_may_list_and_read_is_enough(place: str, reading: Connection, proxy: Proxy) -> None:
    through = Connection(proxy.endpoint, reading.region, credentials=reading.credentials)
    found = lakewarden.survey(place, connection=through)
    assert {each.path: each.verdict for each in found} == {f"{place}/{name}": "sound" for name in NAMES}
    kinds = Counter(each.kind for each in proxy.taken())
    assert kinds["LIST"] == 1
    assert kinds.keys() <= {"LIST", "GET"}
    assert all(each.dollars > 0 for each in (found[0].operations["read"], found[0].operations["compact"]))


def test_names_that_no_client_takes_hide_no_other(minio: MinioServer, place: str, reading: Connection) -> None:
    odd = ("line\nbreak/_delta_log/00000000000000000000.json", "plain/tab\there.parquet", "bell\x07")
    put(minio, place, dict.fromkeys(odd, b"{}"))
    found = {each.path: each for each in lakewarden.survey(place, connection=reading)}
    assert len(found) == len(NAMES) + 1
    broken = found.pop(f"{place}/line\nbreak")
    why = "no object is read under such a name"
    assert (broken.verdict, broken.error.partition("cannot be read: ")[2]) == ("unreadable", why)
    assert {each.verdict for each in found.values()} == {"sound"}
    assert found[f"{place}/plain"].unnamed_files in {1, None}


def test_a_large_place_is_listed_side_by_side(
    minio: MinioServer, request: pytest.FixtureRequest, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small pages stand for a large place."""
    monkeypatch.setattr(listing, "PAGE", 4)
    monkeypatch.setattr(listing, "_FIRST_PAGES", 2)
    monkeypatch.setattr(listing, "_PAGES_EACH", 2)
    prefix = minio.prefix_for(request.node.nodeid)
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "t", "schemaString": '{"type":"struct","fields":[]}', "partitionColumns": [], "configuration": {}}},
    ]
    text = "".join(f"{json.dumps(each)}\n" for each in actions).encode()
    names = [f"{group}/{table}" for group in ("a", "a-b", "a0", "b") for table in ("t", "t-1", "t/in", "z")]
    put(minio, prefix, {f"{name}/_delta_log/00000000000000000000.json": text for name in names})
    put(minio, prefix, {f"{name}.csv": b"x" for name in names})
    through = Connection(proxy.endpoint, "us-east-1", credentials="env:ROOT")
    for name, value in minio.credentials("ROOT").items():
        monkeypatch.setenv(name, value)
    found = lakewarden.survey(prefix, connection=through)
    assert sorted(each.path for each in found) == sorted(f"{prefix}/{name}" for name in names)
    listings = [each for each in proxy.taken() if each.kind == "LIST"]
    assert len(listings) > 3


def test_a_place_that_is_nowhere(minio: MinioServer, reading: Connection) -> None:
    for uri in (f"{minio.uri}/nowhere", "s3://no-such-bucket-here/x"):
        with pytest.raises((NotFound, AccessRefused)):
            lakewarden.survey(uri, connection=reading)


def test_one_table_that_cannot_be_read_is_one_line(place: str, reading: Connection, proxy: Proxy) -> None:
    through = Connection(proxy.endpoint, reading.region, credentials=reading.credentials)
    with proxy.under(Plan("error", ("GET",), "plain/_delta_log", every=1)):
        found = {each.path: each for each in lakewarden.survey(place, connection=through)}
    broken = found.pop(f"{place}/plain")
    assert broken.verdict == "unreadable"
    assert broken.error.startswith("STORAGE_UNAVAILABLE: ")
    assert {each.verdict for each in found.values()} == {"sound"}
    assert {each.route for each in broken.operations.values()} == {"refused"}


@pytest.mark.parametrize("renewed", [True, False])
def test_credentials_that_expire_in_the_middle_of_a_look(
    minio: MinioServer, place: str, reading: Connection, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, renewed: bool
) -> None:
    """Where something renews them, the rest is read with the new ones; else it is said of each table that could not be read."""
    monkeypatch.setattr(run, "_AT_ONCE", 1)
    secrets, done = minio_secrets(), list[int]()

    def expire(finished: int, _found: int) -> None:
        done.append(finished)
        if len(done) == 2:
            proxy.expired.add(os.environ["READER_ACCESS_KEY_ID"])
            for name, value in (minio.session("READER", "s3:ListBucket", "s3:GetObject") if renewed else {}).items():
                monkeypatch.setenv(name, value)

    through = Connection(proxy.endpoint, reading.region, credentials=reading.credentials)
    found = lakewarden.survey(place, connection=through, progress=expire)
    verdicts = Counter(each.verdict for each in found)
    assert verdicts == ({"sound": len(NAMES)} if renewed else {"sound": 2, "unreadable": len(NAMES) - 2})
    assert {each.error.partition(":")[0] for each in found} == ({""} if renewed else {"", "STORAGE_UNAVAILABLE"})
    assert not [secret for secret in secrets for each in found if secret in each.error]
    assert done == [1] * len(NAMES)


def test_a_listing_that_fails_is_tried_again_and_then_an_error(place: str, reading: Connection, proxy: Proxy) -> None:
    through = Connection(proxy.endpoint, reading.region, credentials=reading.credentials)
    with proxy.under(Plan("error", ("LIST",), at=(1,))):
        assert len(lakewarden.survey(place, connection=through)) == len(NAMES)
    with proxy.under(Plan("error", ("LIST",), every=1)), pytest.raises(StorageUnavailable) as failed:
        lakewarden.survey(place, connection=through)
    assert not [value for value in minio_secrets() if value in failed.value.message]


def minio_secrets() -> list[str]:
    return [os.environ[f"READER_{end}"] for end in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")]


def test_the_meter_counts_as_the_store_does(place: str, reading: Connection, proxy: Proxy) -> None:
    through = Connection(proxy.endpoint, reading.region, credentials=reading.credentials)
    before = PROCESS.total()
    lakewarden.survey(place, connection=through)
    after = PROCESS.total()
    counted = Counter(each.kind for each in proxy.taken())
    assert {kind: after.get(kind, 0) - before.get(kind, 0) for kind in counted} == counted
