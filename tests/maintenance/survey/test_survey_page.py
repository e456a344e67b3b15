"""The page of the survey: it names every kind of damage and every field, and its policy is enough for a survey."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

import lakewarden
from lakewarden.base.connection import Connection, Location
from lakewarden.delta.examination.kinds import KINDS
from lakewarden.errors import LakewardenError
from lakewarden.maintenance.survey.table_survey import TableSurvey
from lakewarden.storage.open import open_store
from tests.delta.hand_written import HandWritten
from tests.fixtures.bucket import BucketPath, copy_tree
from tests.fixtures.minio import MinioServer
from tests.test_docs import block_after

_PAGE = Path(__file__).parents[3] / "docs" / "survey.md"


def test_every_kind_of_damage_is_explained_and_no_other() -> None:
    below = _PAGE.read_text().partition("\n## What each damage means, and what to do\n")[2]
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+) \| (.+) \|$", below, re.MULTILINE)
    assert [kind for kind, _, _ in rows] == list(KINDS)
    assert all(len(meaning) > 40 and len(todo) > 10 for _, meaning, todo in rows)


def test_every_field_is_explained() -> None:
    below = _PAGE.read_text().partition("| field | what it is |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`([a-z_]+)`", " ".join(line.split("|")[1] for line in below.splitlines() if line.startswith("| `"))))
    assert named == {each.name for each in fields(TableSurvey)}


@pytest.fixture
def reader(minio: MinioServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BucketPath:
    """A place with a sound and a hollow table; `env:READER` are keys of the page's policy."""
    import boto3  # slow to load

    for name, value in minio.environment.items():
        monkeypatch.setenv(name, value)
    place = BucketPath(minio.prefix_for(f"policy {tmp_path}"))
    for name in ("sound", "hollow"):
        table = HandWritten(tmp_path / name)
        table.begin(table.file("1.parquet", [1]), table.file("2.parquet", [2]))
        copy_tree(table.path, place / name)
    (place / "hollow" / "1.parquet").unlink()
    policy = json.loads(block_after("docs/survey.md", "## A key that may only read", "json"))
    text = json.dumps(policy).replace("arn:aws:s3:::lake", f"arn:aws:s3:::{minio.bucket}")
    service = boto3.Session().client(
        "sts",
        endpoint_url=minio.endpoint,
        aws_access_key_id=minio.user,
        aws_secret_access_key=minio.password,
        region_name="us-east-1",
    )
    keys = service.assume_role(RoleArn="arn:minio:iam:::role/of-a-test", RoleSessionName="test", Policy=text)["Credentials"]
    monkeypatch.setenv("READER_ACCESS_KEY_ID", keys["AccessKeyId"])
    monkeypatch.setenv("READER_SECRET_ACCESS_KEY", keys["SecretAccessKey"])
    monkeypatch.setenv("READER_SESSION_TOKEN", keys["SessionToken"])
    return place


def test_the_pages_policy_is_enough_for_a_survey_and_for_no_more(reader: BucketPath) -> None:
    connection = Connection(credentials="env:READER")
    found = lakewarden.survey(str(reader), connection=connection)
    assert [(one.path.rpartition("/")[2], one.verdict) for one in found] == [("hollow", "damaged"), ("sound", "sound")]
    deep = lakewarden.survey(str(reader), connection=connection, deep=True)
    assert [one.verdict for one in deep] == ["damaged", "sound"]
    store = open_store(Location(str(reader), connection))
    with pytest.raises(LakewardenError):
        store.put("x", b"x")
    with pytest.raises(LakewardenError):
        store.delete(["sound/1.parquet"])
    assert store.get("sound/1.parquet")
