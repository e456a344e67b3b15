"""Erasing on a real object store, in a bucket that keeps old versions."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest

from lakewarden import Lakehouse
from lakewarden.errors import StorageRefused
from tests.fixtures.lakes import make_notes, notes, strong
from tests.fixtures.minio import MinioServer


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
