"""compose.yaml starts what the tests start: the same server, the same variables, the same settings of Dagster."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakewarden.base.settings import load_settings
from tests.fixtures import cluster, minio
from tests.fixtures.minio import MinioServer
from tests.fixtures.postgres import PostgresServer
from tests.test_docs import block_after

_ROOT = Path(__file__).parent.parent


@pytest.fixture
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((_ROOT / "compose.yaml").read_text())
    return loaded


def test_it_is_a_compose_file() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(_ROOT / "compose.yaml")]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_servers_are_started_as_the_tests_start_them(compose: dict[str, Any]) -> None:
    services = compose["services"]
    drive = " ".join(minio.serving(":9000", ":9001", "/drive"))
    assert services["minio"]["command"].endswith(f'exec minio {drive}"')
    assert services["minio"]["environment"].keys() == minio.server_environment("", "").keys()
    assert services["master"]["command"][1:] == cluster.serving_master("master", 7077, 8080)
    assert services["worker"]["command"][1:] == cluster.serving_worker("1g", [], "spark://master:7077")
    assert services["worker"]["deploy"]["replicas"] == cluster.WORKERS


def test_every_process_finds_the_store(compose: dict[str, Any]) -> None:
    named = set(MinioServer("", "").environment)
    for service in ("worker", "webserver", "daemon"):
        assert named <= set(compose["services"][service]["environment"]), service
    server = compose["services"]["minio"]
    store = compose["x-store"]
    assert store["AWS_ACCESS_KEY_ID"] == server["environment"]["MINIO_ROOT_USER"]
    assert store["AWS_SECRET_ACCESS_KEY"] == server["environment"]["MINIO_ROOT_PASSWORD"]
    assert f"--address :{store['AWS_ENDPOINT_URL'].rpartition(':')[2]} " in server["command"]
    bucket = compose["services"]["daemon"]["environment"]["LAKEWARDEN_WAREHOUSE"].split("/")[2]
    assert f"/drive/{bucket} " in server["command"]


def test_minio_is_the_one_of_the_tests(compose: dict[str, Any]) -> None:
    version = re.search(r"^MINIO_VERSION := (\S+)$", (_ROOT / "Makefile").read_text(), re.MULTILINE)
    assert version is not None
    assert f"minio@{version[1]}\n" in compose["services"]["minio"]["build"]["dockerfile_inline"]


def test_dagster_is_set_as_documented(compose: dict[str, Any]) -> None:
    documented = block_after("docs/operations.md", "### Postgres", "yaml")
    assert yaml.safe_load(compose["configs"]["dagster"]["content"]) == yaml.safe_load(documented)
    environment = compose["services"]["webserver"]["environment"]
    assert set(PostgresServer("", 0, "", "", "").environment) <= set(environment)
    postgres = compose["services"]["postgres"]["environment"]
    assert environment["DAGSTER_PG_PASSWORD"] == postgres["POSTGRES_PASSWORD"]
    assert (environment["DAGSTER_PG_USER"], environment["DAGSTER_PG_DB"]) == (postgres["POSTGRES_USER"], postgres["POSTGRES_DB"])


def test_spark_is_where_lakewarden_looks_for_it(compose: dict[str, Any]) -> None:
    words = compose["services"]["master"]["command"]
    master = f"spark://{words[words.index('--host') + 1]}:{words[words.index('--port') + 1]}"
    assert master in compose["services"]["worker"]["command"]
    for service in ("webserver", "daemon"):
        assert load_settings(compose["services"][service]["environment"]).spark.master == master


def test_what_a_service_waits_for_is_there(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert set(service.get("depends_on", ())) <= set(compose["services"]), name
        for volume in service.get("volumes", ()):
            assert volume.partition(":")[0] in compose["volumes"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), "for this machine alone"
