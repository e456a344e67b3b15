"""Measures the ingest of many small files and of a large one, and counts what ten kills leave."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import boto3
from pyspark.sql import SparkSession

from benchmarks.flush.requests import environment
from benchmarks.ingest.files import put_all, small, write_large
from benchmarks.measuring.page import Section, Table
from benchmarks.measuring.scale import Scale
from benchmarks.measuring.timing import seconds
from lakewarden.base.connection import Location
from lakewarden.base.setting_sections import SparkSettings
from lakewarden.client import Lakehouse
from lakewarden.spark.s3a import connect
from lakewarden.spark.session import start_session
from lakewarden.sql.results import ResultRows
from lakewarden.storage.open import open_store
from tests.fixtures.minio import MinioServer, serve_minio

NAMESPACE, TABLE = "bench", "bench.events"
_SCHEMA = "id BIGINT, day BIGINT, kind STRING, amount DOUBLE, note STRING"


@dataclass(frozen=True)
class Ingested:
    """What a process said of its ingest."""

    seconds: float
    rows: int
    ingested: int
    rejected: int
    own: int
    """Bytes, at most: of the process itself, and of the largest of those that it started."""
    children: int


def run(scale: Scale, place: Path) -> Section:
    section = Section("ingest", scale.name)
    with serve_minio() as server, environment(server):
        spark = start_session(SparkSettings(s3a=True))
        connect(spark, Location(server.uri), os.environ)
        section.tables.append(of_small(scale, server, spark))
        section.tables.append(of_large(scale, server, spark, place))
        spark.stop()
        section.tables.append(killed(scale, server))
    return section


def _pipeline(uri: str) -> str:
    """Makes a warehouse with a pipeline; returns its source."""
    with Lakehouse.open(uri) as lake:
        lake.create_namespace(NAMESPACE)
        lake.sql(f"CREATE SHARED TABLE {TABLE} FROM TEMPLATE csv")
    return f"{uri}/uploads/{NAMESPACE}"


def _ingest(uri: str) -> Ingested:
    """In a process of its own."""
    done = subprocess.run([sys.executable, "-m", "benchmarks.ingest", uri, TABLE], check=True, capture_output=True, text=True)
    return Ingested(**json.loads(done.stdout))


def of_small(scale: Scale, server: MinioServer, spark: SparkSession) -> Table:
    of = scale.ingest
    uri = f"{server.uri}/small"
    source = _pipeline(uri)
    size = put_all(open_store(Location(source)).put, small(of.files, of.rows, of.broken))
    ours = _ingest(uri)
    assert (ours.ingested, ours.rejected) == (of.files - of.broken, of.broken), ours
    again = _ingest(uri)
    assert again.ingested == again.rows == 0, again
    theirs = seconds(_by_spark, spark, source, f"{server.uri}/small-theirs")
    return Table(
        f"{of.files:,} CSV files of {of.rows} rows ({size / 1e6:,.0f} MB) on MinIO, {of.broken} of them broken. Ours rejects"
        " these, each with its error, and takes the others once. Spark is warm, is given the schema, reads the directory into"
        " Delta, and keeps what it can of broken files as NULLs.",
        ("what", "time", "objects a second", "memory: process, and the largest it starts", "times ours"),
        [
            ("ours, in a new process", *_figures(ours, of.files), "1.0"),
            ("ours again: nothing is new", *_figures(again, of.files), f"{again.seconds / ours.seconds:.2f}"),
            ("Spark", f"{theirs:.1f} s", f"{of.files / theirs:,.0f}", "", f"{theirs / ours.seconds:.2f}"),
        ],
    )


def of_large(scale: Scale, server: MinioServer, spark: SparkSession, place: Path) -> Table:
    uri = f"{server.uri}/large"
    source = _pipeline(uri)
    place.mkdir(parents=True, exist_ok=True)
    file = place / "large.csv"
    rows = write_large(file, scale.ingest.large)
    client = boto3.client("s3", endpoint_url=server.endpoint)
    client.upload_file(str(file), server.bucket, f"{source.removeprefix(server.uri + '/')}/large.csv")
    size = file.stat().st_size
    file.unlink()
    ours = _ingest(uri)
    assert ours.rows == rows, f"{ours.rows} rows of {rows}"
    theirs = seconds(_by_spark, spark, source, f"{server.uri}/large-theirs")
    return Table(
        f"One CSV file of {size / 1e9:.2f} GB, {rows:,} rows, on MinIO. Spark as above; it reads parts of the file at once.",
        ("what", "time", "MB a second", "memory: process, and the largest it starts", "times ours"),
        [
            ("ours, in a new process", f"{ours.seconds:.1f} s", f"{size / 1e6 / ours.seconds:.0f}", _memory(ours), "1.0"),
            ("Spark", f"{theirs:.1f} s", f"{size / 1e6 / theirs:.0f}", "", f"{theirs / ours.seconds:.2f}"),
        ],
    )


def killed(scale: Scale, server: MinioServer, seed: int = 17) -> Table:
    """The small files once more, by processes that are killed at random moments; the last one ends."""
    of, draws = scale.ingest, random.Random(seed)
    uri = f"{server.uri}/killed"
    put_all(open_store(Location(_pipeline(uri))).put, small(of.files, of.rows, of.broken))
    kills = 0
    for _ in range(of.kills):
        command = [sys.executable, "-m", "benchmarks.ingest", uri, TABLE]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as process:
            try:
                process.wait(draws.uniform(*of.kill_within))
            except subprocess.TimeoutExpired:
                process.kill()
                kills += 1
    _ingest(uri)
    with Lakehouse.open(uri) as lake:
        rows = _one(lake, "SELECT count(*), count(DISTINCT id) FROM bench.events")
        rejects = _one(lake, "SELECT count(*), count(DISTINCT object) FROM bench.events_rejects")
    expected = (of.files - of.broken) * of.rows
    assert rows == (expected, expected), f"{rows} rows and ids of {expected}"
    assert rejects == (of.broken, of.broken), f"{rejects} rejects of {of.broken}"
    return Table(
        f"The small files again, by {of.kills} processes that are killed {of.kill_within[0]:g} to {of.kill_within[1]:g} s after"
        " their start, and a last one that ends.",
        ("kills", "rows", "of them more than once", "rejects"),
        [(str(kills), f"{rows[0]:,}", "0", str(rejects[0]))],
    )


def _one(lake: Lakehouse, text: str) -> tuple[int, ...]:
    (found,) = lake.sql(text)
    assert isinstance(found, ResultRows)
    return tuple(int(str(value)) for value in found.to_pylist()[0].values())


def _by_spark(spark: SparkSession, source: str, to: str) -> None:
    rows = spark.read.csv(f"s3a{source.removeprefix('s3')}", schema=_SCHEMA, header=True)
    rows.write.format("delta").save(f"s3a{to.removeprefix('s3')}")


def _figures(found: Ingested, files: int) -> tuple[str, str, str]:
    return f"{found.seconds:.1f} s", f"{files / found.seconds:,.0f}", _memory(found)


def _memory(found: Ingested) -> str:
    return f"{found.own / 1e6:,.0f} MB, {found.children / 1e6:,.0f} MB"
