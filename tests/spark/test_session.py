"""The session: how it is set up, and what is said where Java is missing or too old."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import FlushSettings, SparkSettings
from lakewarden.base.settings import Settings
from lakewarden.errors import Unsupported
from lakewarden.spark import s3a
from lakewarden.spark.java import require_java
from lakewarden.spark.session import spark_conf
from tests.fixtures.lakes import eventual, make_notes, notes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLI = [sys.executable, "-c", "from lakewarden.cli import main; main()"]


def _java(directory: Path, says: str) -> Path:
    """A `java` that says so on standard error, as Java does."""
    path = directory / "bin" / "java"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\ntouch '{directory}/asked'\n")
    path.chmod(0o755)
    return path


def test_the_session_has_delta_and_arrow(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert spark.conf.get("spark.databricks.delta.snapshotPartitions") == "2"


@pytest.mark.disk  # Spark's own reader knows no bucket without the Hadoop connector, which nothing of ours needs
def test_delta_of_spark_reads_what_we_wrote(warehouse_uri: str, spark: SparkSession) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        table = make_notes(lake)
        table.write(notes({1: "a", 2: "b"}), user="ann")
        lake.flush()
        rows = spark.read.format("delta").load(f"{warehouse_uri}/data/chat/notes/ann").collect()
    assert {row["id"]: row["text"] for row in rows} == {1: "a", 2: "b"}


def test_a_session_that_ran_before_is_used_and_not_stopped(warehouse_uri: str, spark: SparkSession) -> None:
    with Lakehouse.open(warehouse_uri, settings=Settings(flush=FlushSettings(in_process_below=0))) as lake:
        make_notes(lake).write(notes({1: "a"}), user="ann")
        assert [report.outcome for report in lake.flush()] == ["done"]
    assert spark.range(3).count() == 3


def test_ones_own_settings_come_last() -> None:
    conf = spark_conf(SparkSettings(driver_memory="3g", conf={"spark.driver.memory": "5g", "spark.x": "y"}))
    assert (conf["spark.driver.memory"], conf["spark.x"]) == ("5g", "y")
    assert spark_conf(SparkSettings(executor_archive="s3://a/b.zip"))["spark.archives"] == "s3://a/b.zip#environment"


def test_the_connector_is_of_the_hadoop_that_pyspark_brings() -> None:
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    assert jar.name == f"hadoop-client-api-{s3a.HADOOP}.jar"
    assert "spark.jars.excludes" in spark_conf(SparkSettings(s3a=True)).keys() - spark_conf(SparkSettings()).keys()


def test_no_java_on_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unsupported, match="Spark needs Java 17 or later, and there is no `java` on PATH: install one"):
        require_java()


def test_java_home_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Unsupported, match=r"JAVA_HOME is .*, which holds no bin/java"):
        require_java()


@pytest.mark.parametrize(
    ("says", "error"),
    [
        ('openjdk version "1.8.0_392"', "is Java 8"),
        ('openjdk version "11.0.21" 2023-10-17', "is Java 11"),
        ("no java here", "did not name a version"),
    ],
)
def test_a_java_that_will_not_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str, error: str) -> None:
    _java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Unsupported, match=error):
        require_java()


def test_newer_javas_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _java(tmp_path, 'openjdk version "25" 2025-09-16')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    require_java()
    assert (tmp_path / "asked").exists(), "it went by what that java says"


def test_a_job_without_java_changes_nothing(warehouse_uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with Lakehouse.open(warehouse_uri, settings=Settings(flush=FlushSettings(in_process_below=0))) as lake:
        table = make_notes(lake)
        table.write(notes({1: "a"}), user="ann")
        with pytest.raises(Unsupported, match="set JAVA_HOME"):
            lake.flush()
        assert eventual(table, "ann") == {}
        assert [one.user for one in lake.pending()] == ["ann"]


@pytest.mark.slow
def test_the_command_line_says_it_in_one_line(warehouse_uri: str, tmp_path: Path) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        make_notes(lake).write(notes({1: "a"}), user="ann")
    _java(tmp_path, 'openjdk version "1.8.0_392"')
    environment = os.environ | {"JAVA_HOME": str(tmp_path), "LAKEWARDEN_FLUSH__IN_PROCESS_BELOW": "0"}
    command = [*_CLI, "flush", "chat.notes", "--warehouse", warehouse_uri]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert answer.stdout == ""
    (line,) = answer.stderr.splitlines()
    assert line.startswith("UNSUPPORTED: Spark needs Java 17 or later, and ")
