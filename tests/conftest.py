"""Fixtures that every room's tests share, the markers that follow from them, and how the tests spread over two cores.

A test that asks for a server by fixture (`minio`, `postgres`, `spark`, `kafka`, `browser`) carries the marker of the same name.
Where the server is missing, its tests are skipped; `LAKEWARDEN_REQUIRE=minio,postgres` makes them fail instead.
"""

from __future__ import annotations

import atexit
import decimal
import gc
import os
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import argon2
import pytest
from hypothesis import HealthCheck, settings

from lakewarden.base.setting_sections import SqlSettings
from lakewarden.sql.query_engine.workers.engine import pool_of_process
from tests.fixtures.azurite import AzuriteServer, serve_azurite
from tests.fixtures.bucket import STORE, AnyPath, BucketPath
from tests.fixtures.chromium import start_browser
from tests.fixtures.clock import Clock
from tests.fixtures.cpu import CpuSeconds
from tests.fixtures.gate import leave_to_the_night, part, sample
from tests.fixtures.gcs import GcsServer, serve_gcs
from tests.fixtures.jvm import BRIEF, SPARKS
from tests.fixtures.kafka import KafkaServer, serve_kafka
from tests.fixtures.minio import S3A_KEYS, MinioServer, serve_minio
from tests.fixtures.postgres import PostgresServer, serve_postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from selenium.webdriver import Chrome

_SCOPES = frozenset({"tests.delta.scopes", "tests.maintenance.steps"})
"""Modules by which tests of operations have a scope's table in `tmp_path` itself, as all tests of `tests/delta` do."""

_SERVERS = ("spark", "minio", "azurite", "gcs", "postgres", "kafka", "browser")
_GROUPS = {"spark": "spark", "browser": "dagster", "dagster": "dagster", "kafka": "kafka"}
"""Of a marker, the group whose tests stay together on one worker: they share a JVM, or Dagster's libraries, or a broker.

The first marker of a test counts. What Spark and what Dagster needs are two groups, since each alone is a large part of all.
"""

_SPARK = {"spark.python.daemon.module": "tests.fixtures.spark_workers", "spark.sql.shuffle.partitions": "2"}
"""Settings of the tests' Spark session beside the library's: where its Python workers come from, and as many parts as cores."""

_LONGEST_NAME = 100
"""Letters of a parameter that stand in a test's name."""

# A Decimal's arithmetic rounds to 28 digits in silence, and the product's values have up to 38: here it fails, in every thread.
decimal.DefaultContext.traps[decimal.Inexact] = True
decimal.setcontext(decimal.DefaultContext.copy())

# Slow is a matter of the machine, not of the code: examples have no deadline, pytest-timeout ends what hangs.
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, database=None, print_blob=True)
settings.register_profile("fast", settings.get_profile("dev"), max_examples=10)
settings.register_profile("torture", settings.get_profile("dev"), max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))

gc.disable()  # until all tests are collected: what is made there stays

for options in SPARKS:  # from here on, whichever process starts it
    os.environ.setdefault(options, " ".join(BRIEF))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu", type=Path, metavar="FILE", help="write what each test costs there, and print the dearest")
    parser.addoption("--part", metavar="K/N", help="run the K-th of N parts of what is selected")
    parser.addoption("--sample", type=int, metavar="N", help="of each test's parameters run N of those that are selected")


def pytest_configure(config: pytest.Config) -> None:
    if (file := config.getoption("--cpu")) is not None:
        config.pluginmanager.register(CpuSeconds(file, gathers=not hasattr(config, "workerinput")))


def pytest_make_parametrize_id(val: object) -> str | None:
    """A long text is called by how it begins: a test's name goes from process to process with each of its reports. In one line,
    as pytest's own names are: figures of tests are read line by line."""
    if not isinstance(val, str) or len(val) <= _LONGEST_NAME:
        return None
    return val[:_LONGEST_NAME].encode("unicode_escape").decode()


@pytest.hookimpl(wrapper=True)  # before -m selects, and behind it
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    for item in items:
        asked = {*getattr(item, "fixturenames", ()), _store_of(item)}
        for server in _SERVERS:
            if server in asked:
                item.add_marker(server)
        group = next((group for name, group in _GROUPS.items() if item.get_closest_marker(name)), None)
        if group is None and not item.get_closest_marker("xdist_group") and _has_fixture_of_module(item):
            group = item.nodeid.partition("::")[0]
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))
    leave_to_the_night(config, items)
    if (of := config.getoption("--part")) is not None:
        items[:], others = part(items, of)
        config.hook.pytest_deselected(items=others)
    yield
    if (most := config.getoption("--sample")) is not None:
        items[:], others = sample(items, most)
        config.hook.pytest_deselected(items=others)


def pytest_collection_finish() -> None:
    # What was imported stays, and most of what a test makes goes without the collector, which took a fifth of the tests' time.
    gc.freeze()
    gc.enable()
    gc.set_threshold(100_000, 50, 50)
    atexit.register(gc.unfreeze)  # not before: pytest collects five times at its end


def _has_fixture_of_module(item: pytest.Item) -> bool:
    """Such tests stay on one worker: each that has some of them would make the module's warehouse, or its server, anew."""
    made = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
    return any(one.scope == "module" for several in made for one in several)


def _store_of(item: pytest.Item) -> str:
    if item.get_closest_marker("disk"):
        return "disk"
    return (
        str(item.callspec.params.get("store", STORE))
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
        else STORE
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("both_stores")
    if STORE == "disk" and marker is not None:
        (of_the_gate,) = marker.args or ("disk",)
        alone = marker.args or metafunc.definition.get_closest_marker("slow")
        at_night = (
            {"disk", "minio"} - {of_the_gate} if alone and not metafunc.definition.get_closest_marker("covering") else set()
        )
        stores = [pytest.param(name, marks=[pytest.mark.night] * (name in at_night)) for name in ("disk", "minio")]
        metafunc.parametrize("store", stores, indirect=True)


@pytest.fixture(autouse=True)
def store(request: pytest.FixtureRequest) -> str:
    """Where the test's tables and warehouses lie: `disk`, `minio` or `azurite`."""
    if request.node.get_closest_marker("disk"):
        return "disk"
    chosen = str(getattr(request, "param", STORE))
    if chosen in ("minio", "azurite"):
        request.getfixturevalue(chosen)
    return chosen


@pytest.fixture
def tmp_path(tmp_path: Path, store: str, request: pytest.FixtureRequest) -> AnyPath:
    """A place of the test's own: a directory, or a prefix of a bucket for tests whose scopes lie right in it."""
    room = request.path.relative_to(request.config.rootpath / "tests").parts[0]
    has_scopes = room == "delta" or any(getattr(each, "__module__", "") in _SCOPES for each in vars(request.module).values())
    if store == "disk" or not has_scopes:
        return tmp_path
    return BucketPath(request.getfixturevalue(store).prefix_for(request.node.nodeid))


@pytest.fixture
def warehouse_uri(tmp_path: Path, store: str, request: pytest.FixtureRequest) -> str:
    """A place for a warehouse; nothing is in it."""
    if store == "disk":
        return str(tmp_path / "warehouse")
    return f"{request.getfixturevalue(store).prefix_for(request.node.nodeid)}/warehouse"


@pytest.fixture
def clock() -> Clock:
    """The time of the test's warehouse."""
    return Clock()


@pytest.fixture(scope="session", autouse=True)
def query_workers() -> Iterator[None]:
    """Keeps the processes that run queries with the default settings: a test that closes a warehouse would end them."""
    pool = pool_of_process(SqlSettings())
    release = pool.hold()
    yield
    release()


@pytest.fixture(scope="session", autouse=True)
def slow_hasher() -> Iterator[type[argon2.PasswordHasher]]:
    """What hashes passwords elsewhere. Here the same algorithm has the least work: a login took a fifth of a second of CPU."""
    hasher = argon2.PasswordHasher
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argon2, "PasswordHasher", partial(hasher, time_cost=1, memory_cost=8, parallelism=1))
        yield hasher


@pytest.fixture(scope="session")
def minio() -> Iterator[MinioServer]:
    """A real MinIO server with one bucket; from then on the environment points at it."""
    with serve_minio() as server, pytest.MonkeyPatch.context() as environment:
        for name, value in server.environment.items():
            environment.setenv(name, value)
        yield server


@pytest.fixture(scope="session")
def azurite() -> Iterator[AzuriteServer]:
    """An emulator of Azure with one container; from then on the environment points at it."""
    with serve_azurite() as server, pytest.MonkeyPatch.context() as environment:
        for name, value in server.environment.items():
            environment.setenv(name, value)
        yield server


@pytest.fixture(scope="session")
def gcs() -> Iterator[GcsServer]:
    """An emulator of Google's buckets with one bucket, for reading; from then on the environment points at it."""
    with serve_gcs() as server, pytest.MonkeyPatch.context() as environment:
        for name, value in server.environment.items():
            environment.setenv(name, value)
        yield server


@pytest.fixture
def s3_warehouse_uri(minio: MinioServer, request: pytest.FixtureRequest) -> str:
    """A prefix of the test's own in the bucket."""
    return minio.prefix_for(request.node.nodeid)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real Postgres server with one empty database."""
    with serve_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaServer]:
    """A real Kafka broker; each test names topics of its own."""
    with serve_kafka() as server:
        yield server


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The worker's one Spark session, as the library starts it, with the connector for `s3a://`."""
    from lakewarden.base.setting_sections import SparkSettings
    from lakewarden.spark.session import start_session

    with pytest.MonkeyPatch.context() as environment:
        for name, value in MinioServer("", "").credentials(S3A_KEYS).items():
            environment.setenv(name, value)
        session = start_session(SparkSettings(s3a=True, conf=_SPARK))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Chrome]:
    """A headless Chromium."""
    driver = start_browser()
    yield driver
    driver.quit()
