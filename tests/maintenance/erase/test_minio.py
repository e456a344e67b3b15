"""Erasing on a real object store, in a bucket that keeps old versions."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest

from lakewarden import Lakehouse
from lakewarden.base.connection import Location
from lakewarden.errors import Conflict, StorageRefused
from lakewarden.storage.buckets import find_uploads
from lakewarden.storage.open import open_store
from tests.fixtures.lakes import make_notes, notes, strong
from tests.fixtures.minio import MinioServer, begin_upload


@pytest.fixture(scope="module")
def versioned(minio: MinioServer) -> str:
    """A warehouse in a bucket of its own that keeps old versions."""
    client = boto3.client("s3", endpoint_url=minio.endpoint)
    client.create_bucket(Bucket="versioned")
    client.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
    return "s3://versioned/lake"


def test_old_versions_go_too(minio: MinioServer, versioned: str) -> None:
    client = boto3.client("s3", endpoint_url=minio.endpoint)
    with Lakehouse.open(versioned) as lake:
        table = make_notes(lake, options={"COMPRESSION": "none"})
        for text in ("token-of-ann 1", "token-of-ann 2"):
            table.write(notes({1: text}), user="ann")
            table.write(notes({1: "of bob"}), user="bob")
            lake.flush()
        table.write(notes({2: "token-of-ann 3"}), user="ann")
        lake.export("ann", f"{versioned}/exports/ann")
        certificate = lake.erase("ann", deep=True)
        assert (certificate.result, certificate.to_do) == ("complete", "")
        assert certificate.old_versions > 0
        assert strong(table, "bob") == {1: "of bob"}
        table.write(notes({1: "anew"}), user="ann")
        assert strong(table, "ann") == {1: "anew"}
        lake.erase("ann")
        key = "lake/data/chat/notes/ann/planted"
        client.put_object(Bucket="versioned", Key=key, Body=b"of ann")
        client.delete_object(Bucket="versioned", Key=key)
        planted = lake.verify_erased("ann").findings
        assert [finding.what for finding in planted] == ["an old version in the user's scope"]
    found = client.list_object_versions(Bucket="versioned", Prefix="lake/")
    for each in found["Versions"]:
        data = client.get_object(Bucket="versioned", Key=each["Key"], VersionId=each["VersionId"])["Body"].read()
        assert b"token-of-ann" not in data, each["Key"]


def test_incomplete_uploads_go_too(minio: MinioServer, s3_warehouse_uri: str) -> None:
    with Lakehouse.open(s3_warehouse_uri) as lake:
        table = make_notes(lake)
        for user in ("ann", "bob"):
            table.write(notes({1: f"of {user}"}), user=user)
        lake.flush()
        own, scopes = f"{lake.warehouse.uri}/_lakewarden/log/{table.table.log_id}", f"{lake.warehouse.uri}/data/chat/notes"
        there = open_store(Location(f"{scopes}/ann")).list("")[-1].key
        planted = [f"{scopes}/ann/{there}", f"{scopes}/ann/batch-9-x.parquet", f"{own}/history/1-x"]
        for uri in (*planted, f"{scopes}/bob/batch-9-x.parquet"):
            begin_upload(minio, uri)
        found = lake.verify_erased("ann").findings
        assert [one.uri for one in found if "incomplete upload" in one.what] == sorted(planted)
        (told,) = [one.message for one in lake.check() if one.check == "uploads"]
        assert "3 uploads" in told
        certificate = lake.erase("ann")
        assert (certificate.result, certificate.uploads, certificate.to_do) == ("complete", 3, "")
        assert "MinIO lists only uploads that began since its last start" in certificate.unseen
        (left,) = find_uploads(Location(lake.warehouse.uri))[0]
        assert left.key == "data/chat/notes/bob/batch-9-x.parquet"


def test_an_upload_that_cannot_be_given_up_is_a_finding(
    minio: MinioServer, s3_warehouse_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakewarden.maintenance.erase.run.remove_uploads", lambda places, removed: "by hand")
    with Lakehouse.open(s3_warehouse_uri) as lake:
        make_notes(lake).write(notes({1: "of ann"}), user="ann")
        begin_upload(minio, f"{lake.warehouse.uri}/data/chat/notes/ann/x")
        with pytest.raises(Conflict, match="an incomplete upload at a place of the user's"):
            lake.erase("ann")
        assert [one.to_do for one in lake.erasures()] == ["by hand"]


@pytest.mark.disk  # it goes from the bucket to a disk
def test_old_versions_go_too_where_a_table_lay_before_it_was_moved(minio: MinioServer, versioned: str, tmp_path: Path) -> None:
    client = boto3.client("s3", endpoint_url=minio.endpoint)
    with Lakehouse.open(f"{versioned}-moved") as lake:
        lake.create_storage("disk", type="filesystem", base=str(tmp_path / "disk"))
        table = make_notes(lake, options={"COMPRESSION": "none"})
        for user in ("ann", "bob"):
            table.write(notes({1: f"token-of-{user}"}), user=user)
        lake.flush()
        lake.move("chat.notes", "disk")
        assert {finding.what for finding in lake.verify_erased("ann").findings} >= {"an old version in the user's scope"}
        certificate = lake.erase("ann", deep=True)
        assert (certificate.result, certificate.to_do) == ("complete", "")
        assert strong(table, "bob") == {1: "token-of-bob"}
    prefix = f"{versioned}-moved/data/".removeprefix("s3://versioned/")
    for each in client.list_object_versions(Bucket="versioned", Prefix=prefix)["Versions"]:
        data = client.get_object(Bucket="versioned", Key=each["Key"], VersionId=each["VersionId"])["Body"].read()
        assert b"token-of-ann" not in data, each["Key"]


@pytest.mark.disk  # only the exports lie in buckets
def test_exports_go_with_their_old_versions_and_with_their_bucket(minio: MinioServer, tmp_path: Path) -> None:
    client = boto3.client("s3", endpoint_url=minio.endpoint)
    for bucket in ("exports-kept", "exports-gone"):
        client.create_bucket(Bucket=bucket)
    client.put_bucket_versioning(Bucket="exports-kept", VersioningConfiguration={"Status": "Enabled"})
    (tmp_path / "file").write_text("no directory")
    with Lakehouse.open(str(tmp_path / "lake")) as lake:
        make_notes(lake).write(notes({1: "of ann"}), user="ann")
        for bucket in ("exports-kept", "exports-gone"):
            lake.export("ann", f"s3://{bucket}")
        with pytest.raises(StorageRefused):
            lake.export("ann", str(tmp_path / "file"))
        for each in client.list_objects_v2(Bucket="exports-gone")["Contents"]:
            client.delete_object(Bucket="exports-gone", Key=each["Key"])
        client.delete_bucket(Bucket="exports-gone")
        certificate = lake.erase("ann")
    assert (certificate.exports, certificate.result) == (2, "complete")
    assert "s3://exports-gone" in certificate.to_do
    assert "Versions" not in client.list_object_versions(Bucket="exports-kept")
