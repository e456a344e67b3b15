"""The wheel as strangers have it: in an empty environment, outside of the checkout; without extras, and in their Dagster."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake

from lakewarden import Column, Lakehouse
from tests.fixtures.bucket import BucketPath, copy_tree
from tests.fixtures.minio import MinioServer
from tests.fixtures.servers import free_port
from tests.test_docs import block_after

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROOT = Path(__file__).parent.parent
_OWN = (
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
    "SPARK_HOME",
    "PYSPARK_PYTHON",
    "PYSPARK_DRIVER_PYTHON",
    "PYTHONDONTWRITEBYTECODE",
)
"""Variables that would lead an environment back to this one, or have each of its programs compile its libraries anew."""

pytestmark = pytest.mark.slow

Run = Callable[..., list[Any]]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("wheel")
    _output_of([_uv(), "build", "--quiet", "--wheel", "--out-dir", str(home), str(_ROOT)], home)
    (found,) = home.glob("lakewarden-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """An environment that holds the wheel and what it says that it needs."""
    return _environment(wheel.parent / "env", (), str(wheel))


@pytest.fixture(scope="module")
def with_dagster(wheel: Path) -> Path:
    """An environment with the extras, and the tools with which Dagster makes a project."""
    tools = [f"{name}=={version('dagster')}" for name in ("dagster", "dagster-dg-cli", "create-dagster")]
    return _environment(wheel.parent / "extras", ("dagster", "demo"), f"{wheel}[dagster,demo]", *tools)


def _environment(place: Path, extras: tuple[str, ...], *packages: str) -> Path:
    """Installs what the lock names first: `make setup` has left it in uv's cache, pyspark as it was built there."""
    _output_of([_uv(), "venv", "--quiet", "--python", sys.executable, str(place)], place.parent)
    locked = place.parent / f"{place.name}.txt"
    export = [_uv(), "export", "--quiet", "--frozen", "--no-default-groups", "--no-emit-project", "--project", str(_ROOT)]
    _output_of([*export, *(f"--extra={extra}" for extra in extras), "--output-file", str(locked)], place.parent)
    install = [_uv(), "pip", "install", "--quiet", "--python", str(place / "bin" / "python")]
    from_cache = [*install, "--offline", "--requirement", str(locked)]
    if subprocess.run(from_cache, env=_clean(), capture_output=True, check=False).returncode != 0:
        _output_of([*install, "--requirement", str(locked)], place.parent)  # a cache that was emptied since
    _output_of([*install, *packages], place.parent)
    return place


def _uv() -> str:
    return shutil.which("uv") or str(_ROOT / ".cache" / "uv" / "bin" / "uv")


@pytest.fixture
def run(installed: Path, tmp_path: Path) -> Run:
    """Runs `lakewarden` with these arguments and settings, and returns the JSON of each line."""

    def run(*arguments: str, **settings: str) -> list[Any]:
        command = [str(installed / "bin" / "lakewarden"), "--warehouse", "lake", "--format", "json", *arguments]
        return [json.loads(line) for line in _output_of(command, tmp_path, **settings).splitlines()]

    return run


def _output_of(command: list[str], home: Path, **settings: str) -> str:
    done = subprocess.run(command, cwd=home, env=_clean() | settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _OWN}


_NOTES = "CREATE NAMESPACE app; CREATE USER TABLE app.notes (id BIGINT PRIMARY KEY, body TEXT)"


def test_it_queries_writes_flushes_reads_and_reports(run: Run, tmp_path: Path) -> None:
    assert run("sql", "SELECT 1 AS one") == [{"columns": ["one"], "rows": [{"one": 1}]}]
    run("sql", f"{_NOTES}; INSERT INTO app.notes VALUES (1, 'cold')")
    assert [report["outcome"] for report in run("flush", "app.notes")[0]] == ["done"]
    run("sql", "INSERT INTO app.notes VALUES (2, 'hot')")
    assert run("sql", "SELECT * FROM app.notes ORDER BY id")[0]["rows"] == [{"id": 1, "body": "cold"}, {"id": 2, "body": "hot"}]
    assert all(found["passed"] for found in run("check")[0])
    run("report", "--out", "fleet.html")
    assert "app.notes" in (tmp_path / "fleet.html").read_text()


_WRITE = """
import sys
from lakewarden import Lakehouse

with Lakehouse.open(sys.argv[1]) as lake:
    rows = [{"id": 1, "body": str(number), "tenant": f"u{number}"} for number in range(100)]
    lake.table("app.notes").write(rows, user_column="tenant")
"""


@pytest.mark.night
@pytest.mark.spark
def test_it_flushes_a_hundred_scopes_on_spark(run: Run, installed: Path, tmp_path: Path) -> None:
    run("sql", _NOTES)
    _output_of([str(installed / "bin" / "python"), "-c", _WRITE, str(tmp_path / "lake")], tmp_path)
    (reports,) = run("flush", "app.notes", LAKEWARDEN_FLUSH__IN_PROCESS_BELOW="1")
    assert [report["outcome"] for report in reports] == ["done"] * 100
    assert run("sql", "--user", "u7", "--role", "user", "SELECT * FROM app.notes")[0]["rows"] == [{"id": 1, "body": "7"}]


def _written(place: Path, spark: SparkSession) -> list[Path]:
    """A small table of each writer."""
    rows = [{"id": number, "text": "x"} for number in range(5)]
    for day in range(3):
        write_deltalake(str(place / "0"), pa.Table.from_pylist(rows), mode="append", partition_by=["id"])
        pl.DataFrame(rows).write_delta(str(place / "1"), mode="append")
        for number in (3, 4):
            with_vectors = spark.createDataFrame(rows).write.format("delta").mode("append")
            with_vectors.option("delta.enableDeletionVectors", str(number == 4).lower()).save(str(place / f"{number}"))
        with Lakehouse.open(str(place / "warehouse")) as lake:
            columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
            lake.create_namespace("n", if_not_exists=True)
            lake.create_table("n.t", type="SHARED", columns=columns, primary_key=["id"], if_not_exists=True)
            lake.table("n.t").write([{"id": day, "text": "x"}])
            lake.flush()
    spark.sql(f"DELETE FROM delta.`{place / '4'}` WHERE id = 1")
    return [place / "0", place / "1", place / "warehouse" / "data" / "n" / "t", place / "3", place / "4"]


@pytest.mark.night
def test_a_new_user_surveys_a_thousand_tables_without_java(
    installed: Path,
    tmp_path: Path,
    minio: MinioServer,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Five writers, seven damaged tables, a key that may list and read; on PATH the environment's programs alone."""
    for name, value in minio.environment.items():
        monkeypatch.setenv(name, value)
    place = BucketPath(minio.prefix_for("a new user"))
    written = _written(tmp_path / "written", spark)
    for number in range(1_000):
        copy_tree(written[number % len(written)], place / f"team{number % 10}" / f"t{number:04}")
    for number in range(7):
        log = place / f"team{number}" / f"t{number:04}" / "_delta_log"
        added = [json.loads(line)["add"]["path"] for line in (log / f"{1:020}.json").read_text().splitlines() if '"add"' in line]
        (log.parent / unquote(added[0])).unlink()
    keys = minio.session("AWS", "s3:ListBucket", "s3:GetObject")
    settings = minio.environment | keys | {"PATH": str(installed / "bin"), "JAVA_HOME": "", "LAKEWARDEN_WAREHOUSE": "nowhere"}
    command = [str(installed / "bin" / "lakewarden"), "survey", str(place), "--format", "json"]
    done = subprocess.run(command, cwd=tmp_path, env=_clean() | settings, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert [one["verdict"] for one in found] == ["damaged"] * 7 + ["sound"] * 993, Counter(one["verdict"] for one in found)
    assert {each["kind"] for one in found[:7] for each in one["damage"]} == {"hollow"}
    assert not (tmp_path / "nowhere").exists()


_ASSETS = {"query": "{ assetNodes { assetKey { path } } workspaceOrError { ... on Workspace { locationEntries { name } } } }"}


@pytest.mark.night
@pytest.mark.dagster
def test_the_demo_and_the_pages_need_no_checkout(with_dagster: Path, tmp_path: Path) -> None:
    program = str(with_dagster / "bin" / "lakewarden")
    _output_of([program, "demo", "--aircraft", "3"], tmp_path)
    port = free_port()
    command = [program, "ui", "--port", str(port)]
    with subprocess.Popen(command, cwd=tmp_path, env=_clean(), stdout=subprocess.PIPE, text=True) as pages:
        try:
            assert pages.stdout is not None
            said = [pages.stdout.readline(), pages.stdout.readline()]
            assert f"Dagster is at http://127.0.0.1:{port}" in said[1], said
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/graphql", json.dumps(_ASSETS).encode(), {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=60) as answer:
                data = json.load(answer)["data"]
        finally:
            pages.terminate()
    assert {"nyc", "flights"} in [{*node["assetKey"]["path"]} for node in data["assetNodes"]]
    assert [entry["name"] for entry in data["workspaceOrError"]["locationEntries"]] == ["lakewarden"]


_TWO_LAKES = """
from lakewarden import Column, Lakehouse

for place in ("eu", "us"):
    with Lakehouse.open(place) as lake:
        lake.create_namespace("chat")
        columns = [Column("id", "BIGINT"), Column("content", "TEXT")]
        lake.create_table("chat.messages", type="USER", columns=columns, primary_key=["id"])
        lake.table("chat.messages").write([{"id": 1, "content": "hi"}], user="u_42")
"""

_FLUSH = """
import dagster as dg
from pipelines.definitions import defs

found, report, table = defs(), dg.AssetKey("daily_report"), dg.AssetKey(["eu", "chat", "messages"])
with dg.DagsterInstance.ephemeral() as instance:
    before = dg.evaluate_automation_conditions(found, instance)
    for place in ("us", "eu"):
        assert found.resolve_job_def(f"{place}_flush_job").execute_in_process(instance=instance).success
        after = dg.evaluate_automation_conditions(found, instance, cursor=before.cursor)
        print(place, after.get_num_requested(report))
    print(instance.get_materialized_partitions(table))
"""


@pytest.mark.night
@pytest.mark.dagster
def test_a_project_of_dg_has_two_warehouses_and_an_asset_behind_one(with_dagster: Path, tmp_path: Path) -> None:
    def output_of(*command: str) -> str:
        settings = {
            "PATH": f"{with_dagster / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "VIRTUAL_ENV": str(with_dagster),
            "PYTHONPATH": str(project / "src"),
            "LAKE_US": str(tmp_path / "us"),
        }
        return _output_of(
            [str(with_dagster / "bin" / command[0]), *command[1:]], project if project.exists() else tmp_path, **settings
        )

    project = tmp_path / "pipelines"
    _output_of([str(with_dagster / "bin" / "python"), "-c", _TWO_LAKES], tmp_path)
    output_of("create-dagster", "project", "pipelines", "--no-uv-sync")
    assert "lakewarden.dagster.WarehouseComponent" in output_of("dg", "list", "components", "--package", "lakewarden", "--json")
    output_of("dg", "scaffold", "defs", "lakewarden.dagster.WarehouseComponent", "eu", "--warehouse", str(tmp_path / "eu"))
    settings = yaml.safe_load((project / "dagster.yaml").read_text())
    assert settings["run_launcher"]["class"] == "WatchingRunLauncher"
    definitions = project / "src" / "pipelines" / "defs"
    (definitions / "us").mkdir()
    (definitions / "us" / "defs.yaml").write_text(block_after("docs/own-dagster.md", "## With `dg`", "yaml"))
    asset, _, _ = block_after("docs/own-dagster.md", "## With Python", "python").partition("\n\ndefs = ")
    (definitions / "report.py").write_text(asset.replace("from lakewarden.dagster import build_definitions\n", ""))
    assert "All definitions loaded successfully." in output_of("dg", "check", "defs")
    assert output_of("python", "-c", _FLUSH).splitlines() == ["us 0", "eu 1", "{'u_42'}"], (
        "its run is requested on a flush of its own table"
    )
