"""Measures a survey of tables that others wrote, on MinIO: the first look, the next, and one where 1 % changed; beside a loop of
delta-rs and, for a sample, of Spark's `DESCRIBE DETAIL`. Extrapolated to 100,000 tables.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from benchmarks.flush.requests import environment
from benchmarks.measuring.page import Section, Table
from benchmarks.measuring.scale import Scale
from lakewarden.base.connection import Location
from lakewarden.base.setting_sections import PricesSettings, SparkSettings
from lakewarden.catalog.model import Column
from lakewarden.client import Lakehouse
from lakewarden.spark.s3a import connect
from lakewarden.spark.session import start_session
from lakewarden.storage.meter import dollars, metered
from tests.fixtures.bucket import BucketPath, copy_tree
from tests.fixtures.minio import MinioServer, drive
from tests.fixtures.proxy import Proxy, proxy_of

_MANY = 100_000
_COMMITS = 11
"""Of a table: one more than lie between two checkpoints."""
_SHARDS = 40
"""First-level prefixes, of teams or sources."""
_DELTA_RS, _SPARK = 200, 20
"""Tables of which others look at so many."""


def run(scale: Scale, place: Path) -> Section:
    section = Section("survey", scale.name)
    with drive() as machine, machine.running() as server, proxy_of(server.endpoint) as proxy:
        with environment(server, proxy.endpoint):
            spark = start_session(SparkSettings(s3a=True))
            connect(spark, Location(server.uri), os.environ)
        templates = [*templates_of(place), _by_spark(spark, place)]
        with environment(server):
            tables = make_tables(server, machine.root / "drive", templates, scale.surveyed)
            rows = [*ours(server, tables, place), _by_delta_rs(server, tables, proxy), _describe(spark, tables, proxy)]
        spark.stop()
    section.tables.append(shown(rows, scale.surveyed, templates))
    return section


@dataclass(frozen=True)
class Cost:
    """What one way cost over some tables."""

    way: str
    tables: int
    cpu: float
    """Seconds."""
    wall: float
    requests: Mapping[str, int]

    def row(self) -> Sequence[str]:
        factor = _MANY / self.tables
        sent = {kind: round(count * factor) for kind, count in self.requests.items()}
        reads, lists = (sum(self.requests.get(kind, 0) for kind in kinds) for kinds in (("GET", "HEAD"), ("LIST",)))
        return (
            self.way,
            f"{self.tables:,}",
            f"{lists:,}",
            f"{reads / self.tables:.2f}",
            f"{self.cpu / self.tables * 1000:.2f} ms",
            f"{self.wall:.1f} s",
            f"${dollars(sent, PricesSettings()):.3f}",
            f"{self.cpu * factor:,.0f} s",
        )


def shown(costs: Sequence[Cost], tables: int, templates: Sequence[Path]) -> Table:
    objects = sum(path.is_file() for each in templates for path in each.rglob("*")) / len(templates)
    said = (
        f"{tables:,} tables in a bucket of MinIO, copies of {len(templates)} by delta-rs, Spark and us, some {objects:.0f}"
        " objects each. Requests as our client and a proxy count them, processor time of the process that asks; dollars and the"
        " last column are extrapolated to 100,000 tables, at S3's prices."
    )
    head = ("", "tables", "LISTs", "GETs a table", "processor time a table", "time", "100,000: dollars", "100,000: processor")
    return Table(said, head, [cost.row() for cost in costs])


def templates_of(place: Path) -> list[Path]:
    """Small tables, as delta-rs and we write them."""
    made = []
    for name, partitions in (("plain", []), ("parted", ["part"])):
        for number in range(_COMMITS):
            rows = pa.table({"id": [number], "part": [f"p{number % 4}"], "text": ["x"]})
            write_deltalake(str(place / name), rows, mode="append", partition_by=partitions)
        made.append(place / name)
    return [*made, _by_us(place)]


def _by_us(place: Path) -> Path:
    with Lakehouse.open(str(place / "ours")) as lake:
        lake.create_namespace("a")
        table = lake.create_table("a.t", type="USER", columns=[Column("id", "BIGINT")], primary_key=["id"])
        for number in range(_COMMITS):
            table.write([{"id": number}], user="u")
            lake.flush()
    return place / "ours" / "data" / "a" / "t" / "u"


def _by_spark(spark: SparkSession, place: Path) -> Path:
    for number in range(_COMMITS):
        spark.createDataFrame([(number, "x")], "id long, text string").write.format("delta").mode("append").save(
            str(place / "spark")
        )
    return place / "spark"


def make_tables(server: MinioServer, drive_at: Path, templates: Sequence[Path], count: int) -> list[str]:
    """Puts each template into the bucket, and copies it where the server keeps its objects: no request for each of them."""
    for number, template in enumerate(templates):
        copy_tree(template, BucketPath(f"{server.uri}/templates/{number}"))
    bucket = drive_at / server.bucket
    uris = []
    for number in range(count):
        name = f"tables/{number % _SHARDS:02d}/t{number:06d}"
        shutil.copytree(bucket / "templates" / str(number % len(templates)), bucket / name)
        uris.append(f"{server.uri}/{name}")
    return uris


def ours(server: MinioServer, tables: Sequence[str], place: Path) -> Iterator[Cost]:
    """Three looks, kept in a warehouse on the disk, which costs no request."""
    with Lakehouse.open(str(place / "warehouse")) as lake:
        for way, change in (("first look", 0), ("again", 0), ("again, 1 % changed", max(1, len(tables) // 100))):
            _commit(server, tables[:change])
            with metered() as spent, _timed() as timed:
                found = lake.survey(f"{server.uri}/tables")
            assert len(found) == len(tables), len(found)
            assert {one.verdict for one in found} == {"sound"}, found[0]
            assert sum(bool(one.change) for one in found) == change
            yield Cost(way, len(tables), timed.cpu, timed.wall, spent.total())


def _commit(server: MinioServer, tables: Sequence[str]) -> None:
    for uri in tables:
        log = BucketPath(f"{uri}/_delta_log")
        version = max(int(path.stem) for path in log.iterdir() if path.suffix == ".json" and path.stem.isdigit()) + 1
        line = {"commitInfo": {"timestamp": 1_800_000_000_000 + version, "operation": "WRITE", "engineInfo": "delta-rs"}}
        server.overwrite(f"{log / f'{version:020d}.json'}".removeprefix(f"{server.uri}/"), json.dumps(line).encode())


def _by_delta_rs(server: MinioServer, tables: Sequence[str], proxy: Proxy) -> Cost:
    """Processor time without the proxy, which is in this process; then some of them again, through it."""
    sample = tables[:_DELTA_RS]
    with _timed() as timed:
        for uri in sample:
            _open(uri)
    few = sample[:_SPARK]
    proxy.taken()
    with environment(server, proxy.endpoint):
        for uri in few:
            _open(uri)
    sent = {kind: round(count * len(sample) / len(few)) for kind, count in _kinds(proxy).items()}
    return Cost("a loop of delta-rs", len(sample), timed.cpu, timed.wall, sent)


def _describe(spark: SparkSession, tables: Sequence[str], proxy: Proxy) -> Cost:
    """Through the proxy, in the JVM's own time; one beforehand, since the first loads classes."""
    process = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]  # py4j's own, of the session that runs here
    first, *sample = (uri.replace("s3://", "s3a://") for uri in tables[: _SPARK + 1])
    spark.sql(f"DESCRIBE DETAIL delta.`{first}`").collect()
    proxy.taken()
    before, began = _cpu_of(process), time.perf_counter()
    for uri in sample:
        spark.sql(f"DESCRIBE DETAIL delta.`{uri}`").collect()
    wall = time.perf_counter() - began
    return Cost("Spark's DESCRIBE DETAIL", len(sample), _cpu_of(process) - before, wall, _kinds(proxy))


def _kinds(proxy: Proxy) -> Counter[str]:
    return Counter(request.kind for request in proxy.taken())


def _cpu_of(process: int) -> float:
    """Seconds of the processor that a process has used: fields 14 and 15 of proc(5)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass
class _Timed:
    cpu: float = 0.0
    wall: float = 0.0


@contextmanager
def _timed() -> Iterator[_Timed]:
    found, cpu, wall = _Timed(), time.process_time(), time.perf_counter()
    yield found
    found.cpu, found.wall = time.process_time() - cpu, time.perf_counter() - wall


def _open(uri: str) -> None:
    table = DeltaTable(uri)
    adds = pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()
    assert adds.num_rows
