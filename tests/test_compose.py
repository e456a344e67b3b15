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
from resources.environments import environment_of
from tests.fixtures import cluster, minio
from tests.fixtures.minio import MinioServer
from tests.fixtures.postgres import PostgresServer
from tests.test_docs import block_after

_ROOT = Path(__file__).parent.parent


@pytest.fixture
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((_ROOT / "compose.yaml").read_text())
    return loaded


@pytest.mark.slow
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
    for service in ("worker", "code"):
        assert named <= set(compose["services"][service]["environment"]), service
    for service in ("webserver", "daemon"):
        assert not named & set(compose["services"][service]["environment"]), "they load no code, and need no key"
    server = compose["services"]["minio"]
    store = compose["x-store"]
    assert store["AWS_ACCESS_KEY_ID"] == server["environment"]["MINIO_ROOT_USER"]
    assert store["AWS_SECRET_ACCESS_KEY"] == server["environment"]["MINIO_ROOT_PASSWORD"]
    assert f"--address :{store['AWS_ENDPOINT_URL'].rpartition(':')[2]} " in server["command"]
    bucket = compose["services"]["code"]["environment"]["LAKEWARDEN_WAREHOUSE"].split("/")[2]
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
    assert load_settings(compose["services"]["code"]["environment"]).spark.master == master


def test_the_code_is_loaded_once_and_its_logs_are_seen(compose: dict[str, Any]) -> None:
    services = compose["services"]
    (location,) = yaml.safe_load(compose["configs"]["workspace"]["content"])["load_from"]
    server = location["grpc_server"]
    command = services[server["host"]]["command"]
    assert command[:3] == ["dagster", "code-server", "start"], "one that can load the code again"
    assert command[command.index("--port") + 1] == str(server["port"])
    assert command[command.index("--location-name") + 1] == server["location_name"]
    assert (_ROOT / command[command.index("--python-file") + 1]).exists()
    (config,) = (one for one in services["daemon"]["configs"] if one["source"] == "workspace")
    for name in ("webserver", "daemon"):
        assert services[name]["command"][-2:] == ["--workspace", config["target"]], name
        assert services[name]["volumes"] == services["code"]["volumes"] == ["logs:/dagster/storage"], name
        assert services[name]["depends_on"] == {"code": {"condition": "service_healthy"}}, name
    assert "webserver:3000" in services["code"]["environment"]["LAKEWARDEN_DAGSTER_URL"]


def test_the_environment_has_what_it_needs(compose: dict[str, Any]) -> None:
    environment_of(compose["services"]["code"]["environment"])


def test_the_image_holds_no_more_than_it_needs() -> None:
    ignored = (_ROOT / ".dockerignore").read_text().splitlines()
    kept = {line.rstrip("/") for line in (_ROOT / ".gitignore").read_text().splitlines()}
    named = {line.removeprefix("**/") for line in ignored}
    assert kept - {"tests/artifacts"} <= named, "what git ignores is not part of an image"
    assert {".git", "tests", "docs", "benchmarks"} <= named
    copied = re.findall(r"^COPY (.+) \./?$", (_ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert copied == ["pyproject.toml uv.lock README.md", "."]
    assert all((_ROOT / name).exists() and name not in named for name in copied[0].split())


def test_no_process_of_the_image_is_root() -> None:
    lines = (_ROOT / "Dockerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("USER ")] == ["USER lakewarden"]


def test_what_a_service_waits_for_is_there(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert set(service.get("depends_on", ())) <= set(compose["services"]), name
        for volume in service.get("volumes", ()):
            assert volume.partition(":")[0] in compose["volumes"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), "for this machine alone"
