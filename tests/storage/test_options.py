"""A connection in the words of the two libraries, and nothing of the environment's mixed into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.base.connection import Connection, Location
from lakewarden.errors import StorageRefused
from lakewarden.storage.options import _PROVIDERS, delta_options, s3a_options, store_options

_MINIO = {
    "AWS_REGION": "r",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9000/",
    "AWS_ACCESS_KEY_ID": "id",
    "AWS_SECRET_ACCESS_KEY": "hunter2",
}
_KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hunter2"}
_TENANT = {"T_ACCESS_KEY_ID": "id", "T_SECRET_ACCESS_KEY": "hunter2"}


def options(uri: str, environment: dict[str, str] | None = None, **connection: str | bool) -> dict[str, str]:
    return store_options(Location(uri, Connection(**connection)), environment or {})  # type: ignore[arg-type]


def test_the_environment_names_the_endpoint_where_the_storage_does_not() -> None:
    assert options("s3://lake/x", _MINIO) == {
        "aws_endpoint_url_s3": "http://127.0.0.1:9000",
        "aws_virtual_hosted_style_request": "false",
        "aws_allow_http": "true",
    }
    assert options("s3://lake/x", _MINIO, endpoint="https://other:9000")["aws_endpoint_url_s3"] == "https://other:9000"
    assert options("s3://lake/x") == {}
    assert (
        options("s3://lake/x", _KEYS, endpoint="https://other:9000")["aws_region"] == "us-east-1"
    )  # else somebody is asked for it
    assert options("/srv/lake", _MINIO) == {}
    assert options("gs://lake", _MINIO) == {}


def test_the_bucket_stands_in_the_host_where_the_path_style_is_off() -> None:
    found = options("s3://lake/x", _KEYS, endpoint="https://s3.example.com", path_style=False, region="eu-central-1")
    assert found["aws_endpoint_url_s3"] == "https://lake.s3.example.com"
    assert found["aws_virtual_hosted_style_request"] == "true"
    assert found["aws_region"] == "eu-central-1"


def test_credentials_by_reference_bring_no_session_of_the_environment() -> None:
    found = options("s3://lake", _TENANT | {"AWS_SESSION_TOKEN": "others"}, credentials="env:T")
    assert found == {"aws_access_key_id": "id", "aws_secret_access_key": "hunter2", "aws_session_token": ""}
    azure = {"T_STORAGE_ACCOUNT_NAME": "name", "T_STORAGE_ACCOUNT_KEY": "key"}
    assert options("abfss://c@a/x", azure, credentials="env:T") == {
        "azure_storage_account_name": "name",
        "azure_storage_account_key": "key",
    }
    google = {"T_APPLICATION_CREDENTIALS": "/run/secrets/t.json"}
    assert options("gs://lake", google, credentials="env:T") == {"google_application_credentials": "/run/secrets/t.json"}


def test_credentials_that_are_not_there_are_said_by_their_name() -> None:
    with pytest.raises(StorageRefused, match="T_SECRET_ACCESS_KEY is not in the environment") as refusal:
        options("s3://lake", {"T_ACCESS_KEY_ID": "hunter2"}, credentials="env:T")
    assert "hunter2" not in refusal.value.message


def test_delta_commits_conditionally_and_gives_up_in_time() -> None:
    found = delta_options(Location("s3://lake/x"), _MINIO)
    assert found["conditional_put"] == "etag"
    assert {"timeout", "connect_timeout", "max_retries", "retry_timeout"} <= set(found)
    assert delta_options(Location("/srv/lake"), _MINIO) == {}
    assert delta_options(Location("file:///srv/lake"), _MINIO) == {}


def test_an_emulator_of_google_is_reached_without_tls_and_google_is_not() -> None:
    plain = {"GOOGLE_BASE_URL": "http://127.0.0.1:4443"}
    assert delta_options(Location("gs://lake"), plain)["allow_http"] == "true"
    connection = Connection(endpoint="http://127.0.0.1:4443/")
    assert delta_options(Location("gs://lake", connection), {})["allow_http"] == "true"
    assert "allow_http" not in delta_options(Location("gs://lake", Connection(endpoint="https://eu.example.com")), plain)
    assert "allow_http" not in delta_options(Location("gs://lake"), {})


def test_hadoop_is_told_where_a_secret_is_and_never_the_secret() -> None:
    connection = Connection(endpoint="https://other:9000", region="r2", path_style=False, credentials="env:T")
    assert s3a_options(Location("s3://lake/x", connection), _MINIO | _TENANT) == {
        "fs.s3a.bucket.lake.endpoint": "https://other:9000",
        "fs.s3a.bucket.lake.endpoint.region": "r2",
        "fs.s3a.bucket.lake.path.style.access": "false",
        "fs.s3a.bucket.lake.access.key": "${env.T_ACCESS_KEY_ID}",
        "fs.s3a.bucket.lake.secret.key": "${env.T_SECRET_ACCESS_KEY}",
    }
    assert s3a_options(Location("s3://lake/x"), _MINIO) == {
        "fs.s3a.bucket.lake.endpoint": "http://127.0.0.1:9000",
        "fs.s3a.bucket.lake.endpoint.region": "r",
        "fs.s3a.bucket.lake.path.style.access": "true",
        "fs.s3a.bucket.lake.aws.credentials.provider": _PROVIDERS,
    }
    assert s3a_options(Location("s3://lake/x"), {}) == {"fs.s3a.bucket.lake.path.style.access": "false"}  # Hadoop's own chain


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:9", "https://minio.example.com:9000", "https://s3.amazonaws.com.example.com"]
)
def test_only_amazons_stores_are_reached_by_the_role_of_a_machine(endpoint: str, tmp_path: Path) -> None:
    nowhere = {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials")}
    with pytest.raises(StorageRefused, match=f"no credentials for {endpoint}.*AWS_ACCESS_KEY_ID"):
        options("s3://lake", nowhere, endpoint=endpoint)
    with pytest.raises(StorageRefused, match="no credentials"):
        options("s3://lake", nowhere | {"AWS_ENDPOINT_URL": endpoint})
    for found in ({"AWS_SKIP_SIGNATURE": "true"}, {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1"}):
        assert options("s3://lake", nowhere | found, endpoint=endpoint)["aws_endpoint_url_s3"] == endpoint
    (tmp_path / "credentials").write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    assert options("s3://lake", nowhere, endpoint=endpoint)["aws_access_key_id"] == "a"


@pytest.mark.parametrize("endpoint", ["", "https://s3.eu-central-1.amazonaws.com", "https://s3.cn-north-1.amazonaws.com.cn"])
def test_amazons_own_are(endpoint: str, tmp_path: Path) -> None:
    nowhere = {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials")}
    assert "aws_access_key_id" not in options("s3://lake", nowhere, endpoint=endpoint)
