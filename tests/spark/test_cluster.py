"""The fan-out on a real standalone cluster of two workers against MinIO, with nothing prepared on the executors."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from tests.fixtures.cluster import Cluster, bare_python, serve_cluster
from tests.fixtures.lakes import NOTES, cold_seqs, eventual, log_files, make_notes, notes, scope_path, strong
from tests.fixtures.minio import MinioServer
from tests.fixtures.proxy import Proxy, Weather, proxy_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_CLI = [sys.executable, "-c", "from lakewarden.cli import main; main()"]
_USERS = [f"u{number:02d}" for number in range(80)]


@pytest.fixture(scope="module")
def proxy(minio: MinioServer) -> Iterator[Proxy]:
    with proxy_of(minio.endpoint) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def cluster(minio: MinioServer, proxy: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    environment = minio.environment | {"AWS_ENDPOINT_URL": proxy.endpoint}
    with serve_cluster(tmp_path_factory.mktemp("cluster"), environment) as cluster:
        yield cluster


def _write(lake: Lakehouse) -> None:
    rows = [{"owner": user, "id": key, "text": f"{user} {key}"} for user in _USERS for key in range(3)]
    make_notes(lake).write(rows, user_column="owner")


def _flush(
    cluster: Cluster, uri: str, directory: Path, archive: Path | None = None, settings: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    command = [*_CLI, "flush", NOTES, "--warehouse", uri]
    environment = os.environ | cluster.environment | dict(settings or {})
    if archive is not None:
        del environment["PYSPARK_PYTHON"]
        environment["LAKEWARDEN_SPARK__EXECUTOR_ARCHIVE"] = str(archive)
    return subprocess.Popen(command, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _check(lake: Lakehouse) -> None:
    table = lake.table(NOTES)
    for user in _USERS:
        expected = {key: f"{user} {key}" for key in range(3)}
        assert eventual(table, user) == strong(table, user) == expected
        assert set(cold_seqs(lake, user)) == set(expected)
        assert [entry.operation for entry in table.history(user=user)] == ["WRITE"], "one commit"
    assert (lake.pending(), log_files(lake)) == ([], [])


def test_executors_have_no_lakewarden_of_their_own(tmp_path: Path) -> None:
    looked = subprocess.run(
        [bare_python(tmp_path), "-c", "import pyarrow, lakewarden.errors"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "No module named 'lakewarden" in looked.stderr


@pytest.mark.night
def test_a_flush_on_two_workers_with_the_interpreter_of_a_packed_environment(
    cluster: Cluster, s3_warehouse_uri: str, tmp_path: Path
) -> None:
    used = tmp_path / "used"
    with Lakehouse.open(s3_warehouse_uri) as lake:
        _write(lake)
        flush = _flush(cluster, s3_warehouse_uri, tmp_path, _packed(cluster, tmp_path, used))
        output, errors = flush.communicate()
        assert flush.returncode == 0, (output, errors)
        _check(lake)
    at = {Path(line) for line in used.read_text().splitlines()}
    assert {path.relative_to(path.parents[2]) for path in at} == {Path("environment/bin/python")}
    assert all("/work" in str(path) for path in at), "each worker unpacked it for itself"


def _packed(cluster: Cluster, directory: Path, used: Path) -> Path:
    """An environment of an interpreter alone, which leaves its place in `used`; its libraries are this machine's."""
    python = directory / "packed-python"
    python.write_text(f'#!/bin/sh\nreadlink -f "$0" >> "{used}"\nexec "{cluster.python}" "$@"\n')
    python.chmod(0o755)
    archive = directory / "environment.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(python, "bin/python")
    return archive


@pytest.mark.night
def test_an_executor_that_is_killed_costs_nothing(cluster: Cluster, proxy: Proxy, s3_warehouse_uri: str, tmp_path: Path) -> None:
    with Lakehouse.open(s3_warehouse_uri) as lake:
        _write(lake)
        proxy.taken()
        weather = Weather(("held",), 1, seed=0, only=r"PUT .*/_delta_log/", spared=10)
        with proxy.under(weather):
            flush = _flush(cluster, s3_warehouse_uri, tmp_path)
            _await(flush, lambda: _commits(proxy) >= 10 and weather.done > 0)
            cluster.kill_executor()
            assert _commits(proxy) == 10, "it came in the middle"
            weather.let_go.set()
            output, errors = flush.communicate()
        assert flush.returncode == 0, (output, errors)
        _check(lake)


@pytest.mark.night
def test_an_executor_that_is_killed_while_it_writes_over_s3a_costs_nothing(
    cluster: Cluster, proxy: Proxy, s3_warehouse_uri: str, tmp_path: Path
) -> None:
    large = {"LAKEWARDEN_FLUSH__LARGE_SCOPE_BYTES": "1", "LAKEWARDEN_SPARK__S3A": "true", "AWS_ENDPOINT_URL": proxy.endpoint}
    with Lakehouse.open(s3_warehouse_uri) as lake:
        table = make_notes(lake, options={"TARGET_FILE_SIZE": "16KB"})
        model = {key: f"{key} {random.Random(key).random()}" for key in range(4_000)}
        table.write(notes(model), user="ann")
        proxy.taken()
        weather = Weather(("held",), 1, seed=0, only=r"PUT .*/part-", spared=1)
        with proxy.under(weather):
            flush = _flush(cluster, s3_warehouse_uri, tmp_path, settings=large)
            _await(flush, lambda: weather.done > 0 and any(_is_part(request.key) for request in proxy.requests))
            cluster.kill_executor()
            assert _commits(proxy) == 0, "it came before the commit"
            weather.let_go.set()
            output, errors = flush.communicate()
        assert flush.returncode == 0, (output, errors)
        assert eventual(table, "ann") == strong(table, "ann") == model
        assert [entry.operation for entry in table.history(user="ann")] == ["WRITE"], "one commit"
        assert len([path for path in scope_path(lake, "ann").rglob("*.parquet") if _is_part(str(path))]) > 1


def _is_part(key: str) -> bool:
    """Of a file that Spark itself wrote."""
    return "/part-" in key and key.endswith(".parquet")


def _await(flush: subprocess.Popen[str], reached: Callable[[], bool]) -> None:
    """Ends with the flush, or when pytest's own patience does: how quick the machine is does not matter."""
    while not reached():
        assert flush.poll() is None, flush.communicate()
        time.sleep(0.02)


def _commits(proxy: Proxy) -> int:
    return sum(request.kind == "CREATE" and "/_delta_log/" in request.key for request in proxy.requests)
