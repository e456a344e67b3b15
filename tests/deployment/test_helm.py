"""deploy/helm/values.yaml sets Dagster as the documentation does, by keys that Dagster's chart has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from dagster._config import Shape, validate_config
from dagster._core.instance.config import dagster_instance_config_schema
from dagster_k8s.launcher import K8sRunLauncher

from resources.environments import environment_of
from tests.fixtures.dagster import DAGSTER
from tests.test_docs import block_after

pytestmark = DAGSTER

ROOT = Path(__file__).parents[2]

_OF_THE_CHART = {
    "additionalInstanceConfig": set[str](),
    "dagster-user-deployments": {"enabled", "enableSubchart", "imagePullSecrets", "deployments"},
    "dagsterDaemon": {"runCoordinator", "runMonitoring", "runRetries", "env"},
    "dagsterWebserver": {"enableReadOnly"},
    "retention": {"enabled", "sensor", "schedule"},
    "runLauncher": {"type", "config"},
    "serviceAccount": {"create", "name", "annotations"},
    "telemetry": {"enabled"},
}
"""Its keys that are used here, by the schema of version 1.13: most of its objects refuse any other."""
_OF_A_DEPLOYMENT = {"name", "image", "codeServerArgs", "port", "includeConfigInLaunchedRuns", "env", "resources"}
_WRITTEN_BY_THE_CHART = {"nux", "storage", "telemetry", "run_launcher", "sensors", "schedules", "retention"}


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "helm" / "values.yaml").read_text())
    return loaded


def test_only_keys_of_the_chart_are_used(values: dict[str, Any]) -> None:
    assert values.keys() == _OF_THE_CHART.keys()
    for name, keys in _OF_THE_CHART.items():
        assert not keys or values[name].keys() == keys, name
    (deployment,) = values["dagster-user-deployments"]["deployments"]
    assert deployment.keys() == _OF_A_DEPLOYMENT
    assert deployment["image"].keys() == {"repository", "tag", "pullPolicy"}
    assert values["retention"]["sensor"]["purgeAfterDays"].keys() == {"skipped", "success", "failure", "started"}


def test_dagster_takes_what_it_is_given_and_it_is_the_documented(values: dict[str, Any]) -> None:
    own = values["additionalInstanceConfig"]
    schema = Shape(dagster_instance_config_schema())  # type: ignore[no-untyped-call]  # Dagster has no types for it
    checked = validate_config(schema, own)
    assert checked.success, checked.errors
    documented = yaml.safe_load(block_after("docs/operations.md", "### Postgres", "yaml"))
    assert own.keys() == documented.keys() - _WRITTEN_BY_THE_CHART
    longer = {"start_timeout_seconds": own["run_monitoring"].pop("start_timeout_seconds")}
    assert longer["start_timeout_seconds"] > documented["run_monitoring"].pop("start_timeout_seconds")
    assert own == {name: documented[name] for name in own}
    for switched_off in ("runCoordinator", "runMonitoring", "runRetries"):
        assert values["dagsterDaemon"][switched_off] == {"enabled": False}, "one key of Dagster's stands in one place"


def test_the_launcher_is_that_of_the_image(values: dict[str, Any]) -> None:
    assert values["runLauncher"]["type"] == K8sRunLauncher.__name__
    config = values["runLauncher"]["config"]["k8sRunLauncher"]
    assert config.keys() == {"imagePullPolicy", "loadInclusterConfig", "resources"}
    assert "--all-extras" in (ROOT / "Dockerfile").read_text(), "each process loads the launcher that the instance names"


def test_the_code_server_loads_this_checkout_in_its_environment(values: dict[str, Any]) -> None:
    (deployment,) = values["dagster-user-deployments"]["deployments"]
    words = deployment["codeServerArgs"]
    given = dict(zip(words[::2], words[1::2], strict=True))
    assert (ROOT / given["--python-file"]).exists()
    assert f"WORKDIR {given['--working-directory']}\n" in (ROOT / "Dockerfile").read_text()
    environ = {name: value.strip("<>") for name, value in deployment["env"].items()}
    environment_of(environ)
    assert all(isinstance(value, str) for value in deployment["env"].values())
