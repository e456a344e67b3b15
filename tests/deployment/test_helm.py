"""deploy/helm/values.yaml: by keys that Dagster's chart has, as documented, and as the chart renders them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from dagster._core.instance.ref import InstanceRef
from dagster_k8s.launcher import K8sRunLauncher

from resources.environments import environment_of
from tests.fixtures.dagster import DAGSTER
from tests.fixtures.servers import unavailable
from tests.test_docs import block_after

pytestmark = DAGSTER

ROOT = Path(__file__).parents[2]
VALUES = ROOT / "deploy" / "helm" / "values.yaml"

_OF_THE_CHART = {
    "concurrency": {"enabled", "runs", "pools"},
    "dagster-user-deployments": {"enabled", "enableSubchart", "imagePullSecrets", "deployments"},
    "dagsterDaemon": {"runMonitoring", "runRetries", "env"},
    "dagsterWebserver": {"enableReadOnly"},
    "global": {"serviceAccountName", "dagsterHome"},
    "retention": {"enabled", "sensor", "schedule"},
    "runLauncher": {"type", "config"},
    "serviceAccount": {"create", "name", "annotations"},
    "telemetry": {"enabled"},
}
"""Its keys that are used here, by the schema of version 1.13: most of its objects refuse any other."""
_OF_A_DEPLOYMENT = {"name", "image", "codeServerArgs", "port", "includeConfigInLaunchedRuns", "env", "resources"}
_TRANSLATED = ("concurrency", "run_monitoring", "run_retries")
"""What the chart has in words of its own, of the documented `dagster.yaml`."""


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(VALUES.read_text())
    return loaded


@pytest.fixture(scope="module")
def documented() -> dict[str, Any]:
    """What Dagster gets of it: a pod may wait longer for its node than a process for its start."""
    found: dict[str, Any] = yaml.safe_load(block_after("docs/operations.md", "### Postgres", "yaml"))
    found = {name: found[name] for name in _TRANSLATED}
    found["run_monitoring"]["start_timeout_seconds"] = 300
    return found


def _snaked(found: Any) -> Any:
    """With the keys as Dagster spells them; the value of a limit is Dagster's already."""
    if isinstance(found, list):
        return [_snaked(one) for one in found]
    if not isinstance(found, dict):
        return found
    return {
        re.sub("[A-Z]", lambda one: f"_{one[0].lower()}", name): _snaked(one) if name != "value" else one
        for name, one in found.items()
    }


def test_only_keys_of_the_chart_are_used(values: dict[str, Any]) -> None:
    assert values.keys() == _OF_THE_CHART.keys()
    for name, keys in _OF_THE_CHART.items():
        assert not keys or values[name].keys() == keys, name
    (deployment,) = values["dagster-user-deployments"]["deployments"]
    assert deployment.keys() == _OF_A_DEPLOYMENT
    assert deployment["image"].keys() == {"repository", "tag", "pullPolicy"}
    assert values["retention"]["sensor"]["purgeAfterDays"].keys() == {"skipped", "success", "failure", "started"}


def test_dagster_is_set_as_documented(values: dict[str, Any], documented: dict[str, Any]) -> None:
    daemon = values["dagsterDaemon"]
    concurrency = {name: one for name, one in values["concurrency"].items() if name != "enabled"}
    given = {"concurrency": concurrency, "runMonitoring": daemon["runMonitoring"], "runRetries": daemon["runRetries"]}
    assert _snaked(given) == documented


def test_the_launcher_is_that_of_the_image(values: dict[str, Any]) -> None:
    assert values["runLauncher"]["type"] == K8sRunLauncher.__name__
    config = values["runLauncher"]["config"]["k8sRunLauncher"]
    assert config.keys() == {"imagePullPolicy", "loadInclusterConfig"}, "a deployment's resources count more than the launcher's"
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


@pytest.fixture(scope="module")
def rendered() -> dict[tuple[str, str], Any]:
    """Of Dagster's chart: what `helm template` makes of it with these values, by kind and name."""
    helm, chart = shutil.which("helm"), os.environ.get("LAKEWARDEN_DAGSTER_CHART")
    if helm is None or chart is None:
        unavailable("helm", "there is no helm, or LAKEWARDEN_DAGSTER_CHART does not say where Dagster's chart is")
    made = subprocess.run([helm, "template", "lake", chart, "--values", str(VALUES)], capture_output=True, text=True, check=True)
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(made.stdout) if one}


def test_the_chart_writes_the_documented_instance(
    rendered: dict[tuple[str, str], Any], documented: dict[str, Any], tmp_path: Path
) -> None:
    text = rendered["ConfigMap", "lake-dagster-instance"]["data"]["dagster.yaml"]
    written = yaml.safe_load(text)
    written["run_monitoring"].pop("max_resume_run_attempts", None)
    assert {name: written[name] for name in _TRANSLATED} == documented
    (tmp_path / "dagster.yaml").write_text(text)
    instance = InstanceRef.from_dir(str(tmp_path))  # refuses a limit that stands in two places
    assert instance.run_coordinator_data is not None
    assert instance.run_coordinator_data.class_name == "QueuedRunCoordinator"


def test_code_server_and_runs_have_the_keys_and_the_resources(
    rendered: dict[tuple[str, str], Any], values: dict[str, Any]
) -> None:
    account = values["serviceAccount"]["name"]
    accounts = {name for kind, name in rendered if kind == "ServiceAccount"}
    assert accounts == {account}
    pods = [one["spec"]["template"]["spec"] for (kind, _), one in rendered.items() if kind == "Deployment"]
    assert [pod["serviceAccountName"] for pod in pods] == [account] * 3
    server = rendered["Deployment", "lake-dagster-user-deployments-lakewarden"]["spec"]["template"]["spec"]["containers"][0]
    (deployment,) = values["dagster-user-deployments"]["deployments"]
    assert server["resources"] == deployment["resources"]
    handed_on = json.loads(next(one["value"] for one in server["env"] if one["name"] == "DAGSTER_CONTAINER_CONTEXT"))["k8s"]
    assert (handed_on["service_account_name"], handed_on["resources"]) == (account, deployment["resources"])
    variables = [rendered["ConfigMap", name]["data"] for name in handed_on["env_config_maps"]]
    assert variables == [deployment["env"]]
    shared = rendered["ConfigMap", server["envFrom"][0]["configMapRef"]["name"]]["data"]
    assert f"DAGSTER_HOME={shared['DAGSTER_HOME']} " in (ROOT / "Dockerfile").read_text()
