"""The checkout is a deployment: a warehouse, merged with what is its own, in the environment that a variable names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

import lakewarden.dagster
from jobs.onboarding import onboard_job
from lakewarden.client import Lakehouse
from lakewarden.dagster import build_definitions
from lakewarden.dagster.mount import WAREHOUSE
from lakewarden.dagster.spark_session import SparkResource
from lakewarden.errors import InvalidArgument
from resources.environments import ENVIRONMENTS, Environment, environment_of
from tests.deployment.conftest import DEFINITIONS, Load
from tests.fixtures.chat import make_chat
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

ROOT = DEFINITIONS.parents[1]
OWN = {"onboard_job", "offboard_job"}


def test_what_is_its_own_stands_beside_what_the_warehouse_brings(load: Load, nyc: str) -> None:
    defs = load(nyc)
    dg.Definitions.validate_loadable(defs)
    repository = defs.get_repository_def()
    assert {job.name for job in repository.get_all_jobs()} > OWN
    graph = repository.asset_graph
    assert graph.get(dg.AssetKey("daily_summary")).parent_keys == {dg.AssetKey(["nyc", "flights"])}
    assert {key.name for key in graph.asset_check_keys if key.asset_key == dg.AssetKey("daily_summary")} == {
        "flights_add_up",
        "delays_are_plausible",
    }
    automation = repository.get_sensor_def("automation")
    assert automation.default_status is dg.DefaultSensorStatus.RUNNING


def test_a_warehouse_without_flights_has_no_summary_of_them(load: Load, tmp_path: Path) -> None:
    make_chat(str(tmp_path / "chat"))
    for place in ("chat", "nowhere"):
        repository = load(str(tmp_path / place)).get_repository_def()
        assert dg.AssetKey("daily_summary") not in repository.asset_graph.get_all_asset_keys()
        assert {job.name for job in repository.get_all_jobs()} > OWN


@pytest.mark.slow
@pytest.mark.parametrize(
    ("named", "here"), [(["-w", str(ROOT / "workspace.yaml")], False), (["-f", "orchestration/definitions.py", "-d", "."], True)]
)
def test_dagsters_command_loads_it(nyc: str, tmp_path: Path, named: list[str], here: bool) -> None:
    own = {"LAKEWARDEN_WAREHOUSE": nyc, "DAGSTER_HOME": str(tmp_path)}
    command = [str(Path(sys.executable).with_name("dagster")), "definitions", "validate", *named]
    done = subprocess.run(
        command, cwd=ROOT if here else tmp_path, env={**os.environ, **own}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Validation successful" in done.stdout + done.stderr


_MINIO = {
    "LAKEWARDEN_ENVIRONMENT": "minio",
    "LAKEWARDEN_WAREHOUSE": "s3://lake/warehouse",
    "AWS_ENDPOINT_URL": "http://minio:9000",
    "AWS_ACCESS_KEY_ID": "lakewarden",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "DAGSTER_PG_HOST": "postgres",
    "DAGSTER_PG_PORT": "5432",
    "DAGSTER_PG_USER": "u",
    "DAGSTER_PG_PASSWORD": "p",
    "DAGSTER_PG_DB": "lakewarden",
}
_S3 = {"LAKEWARDEN_ENVIRONMENT": "s3", "LAKEWARDEN_WAREHOUSE": "s3://lake/warehouse", "AWS_REGION": "eu-central-1"}


def test_an_environment_is_chosen_by_one_variable() -> None:
    assert environment_of({}) is ENVIRONMENTS["laptop"]
    assert environment_of({"LAKEWARDEN_WAREHOUSE": "s3://lake/warehouse"}) is ENVIRONMENTS["laptop"]
    assert environment_of(_MINIO) is ENVIRONMENTS["minio"]
    assert environment_of(_S3) is ENVIRONMENTS["s3"]


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"LAKEWARDEN_ENVIRONMENT": "prod"}, "'prod' is none of laptop, minio, s3"),
        ({**_MINIO, "AWS_ENDPOINT_URL": "", "DAGSTER_PG_DB": ""}, "AWS_ENDPOINT_URL is not set; DAGSTER_PG_DB is not set"),
        ({**_MINIO, "LAKEWARDEN_WAREHOUSE": "./warehouse"}, "does not begin with s3://"),
        ({**_S3, "AWS_ENDPOINT_URL": "http://minio:9000"}, "AWS_ENDPOINT_URL is set"),
        ({**_S3, "LAKEWARDEN_WAREHOUSE": ""}, "LAKEWARDEN_WAREHOUSE is not set"),
    ],
)
def test_an_environment_says_all_that_it_lacks(environ: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidArgument, match="LAKEWARDEN_ENVIRONMENT") as raised:
        environment_of(environ)
    assert said in raised.value.message


def test_what_an_environment_gives_to_spark_reaches_the_session(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENVIRONMENTS, "laptop", Environment(spark={"spark.ui.enabled": "false"}))
    session = load(str(tmp_path / "nowhere")).resources["spark"]  # type: ignore[index]
    assert isinstance(session, SparkResource)
    assert session.settings().conf["spark.ui.enabled"] == "false"


def test_a_job_of_ones_own_is_that_of_each_warehouse(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    for place in ("eu", "us"):
        make_chat(str(tmp_path / place))
    mounted = [build_definitions(str(tmp_path / place), key_prefix=[place], jobs=[onboard_job]) for place in ("eu", "us")]
    job = dg.Definitions.merge(*mounted).resolve_job_def("us_onboard_job")
    assert job.tags[WAREHOUSE] == str(tmp_path / "us")
    assert job.execute_in_process(run_config={"user": "zoe", "dry_run": False}, instance=instance).success
    assert instance.fetch_observations(dg.AssetKey(["us", "nyc", "logbook"]), limit=1).records
    for place, there in (("eu", False), ("us", True)):
        with Lakehouse.open(str(tmp_path / place)) as lake:
            assert ("zoe" in lake.warehouse.catalog.read().users) is there


@pytest.mark.parametrize("name", lakewarden.dagster.__all__)
def test_each_public_name_is_there(name: str) -> None:
    assert getattr(lakewarden.dagster, name)
