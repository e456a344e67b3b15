"""The one place that starts Spark: Delta, Arrow and settings for many small tables, wired for any master."""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from delta import configure_spark_with_delta_pip
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakewarden.base.setting_sections import SparkSettings
from lakewarden.errors import StorageUnavailable
from lakewarden.spark import s3a
from lakewarden.spark.java import require_java

__all__ = ["SparkSession", "start_session"]

_SMALL_DATA = {
    # A tiny table's snapshot in 50 partitions costs seconds of empty tasks.
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.shuffle.partitions": "16",
    # A vacuum otherwise lists directories in 10,000 tasks.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
}

_SESSION = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    # Where a task waits for a missing worker, later tasks of the same scopes must not start twice.
    "spark.speculation": "false",
}

_ARCHIVE = "environment"
"""The directory that a packed environment is unpacked to on executors."""


def spark_conf(settings: SparkSettings) -> dict[str, str]:
    """All settings of the session, the user's own last."""
    memory = {"spark.driver.memory": settings.driver_memory}
    archive = {"spark.archives": f"{settings.executor_archive}#{_ARCHIVE}"} if settings.executor_archive else {}
    connector = s3a.CONF if settings.s3a else {}
    return {**_SESSION, **_SMALL_DATA, **memory, **archive, **connector, **settings.conf}


def start_session(settings: SparkSettings) -> SparkSession:
    """Starts the session, or returns the one that runs in this process.

    Raises:
        Unsupported: Java is missing or too old.
        StorageUnavailable: the master cannot be reached, or the JARs cannot be downloaded.
    """
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", _executors_python(settings))
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("lakewarden").master(settings.master)
    for key, value in spark_conf(settings).items():
        builder = builder.config(key, value)
    with _quiet_jvm() as log:
        try:
            session = configure_spark_with_delta_pip(builder, [*s3a.PACKAGES] if settings.s3a else []).getOrCreate()
        except (PySparkException, Py4JError, OSError) as error:
            raise StorageUnavailable(f"Spark at {settings.master} did not start: {error}; its log is {log}") from error
    session.sparkContext.setLogLevel("ERROR")
    if not settings.master.startswith("local"):
        session.sparkContext.addPyFile(str(_package_archive()))
    return session


def is_running() -> bool:
    """Whether this process has a session already: who started it ends it."""
    return SparkSession.getActiveSession() is not None


def _executors_python(settings: SparkSettings) -> str:
    """The packed environment's Python where there is one, which Spark unpacks into a task's directory; else the same path."""
    return f"./{_ARCHIVE}/bin/python" if settings.executor_archive else sys.executable


@contextmanager
def _quiet_jvm() -> Iterator[Path]:
    """Sends what the JVM writes to standard error to a file, for its whole life: it inherits the descriptor.

    A command's standard error is for its one error line, not for resolution reports of JARs.
    """
    log = Path(tempfile.gettempdir()) / f"lakewarden-spark-{os.getpid()}.log"
    sys.stderr.flush()
    kept = os.dup(2)
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(target, 2)
        yield log
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(target)


def _package_archive() -> Path:
    """This package as a zip, so that executors run the driver's code without an installation."""
    root = Path(__file__).parents[1]
    archive = Path(tempfile.mkdtemp(prefix="lakewarden-")) / "lakewarden.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for source in sorted(root.rglob("*.py")):
            target.write(source, Path("lakewarden") / source.relative_to(root))
    return archive
