"""Storages on several stores in one process, what may not be declared, and failures that are told in time."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.connection import Connection, Location
from lakewarden.cli.main import main
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import InUse, InvalidArgument, LakewardenError, NotFound, StorageRefused, StorageUnavailable, Unsupported
from lakewarden.storage.open import open_store
from tests.fixtures.lakes import NOTES, eventual, make_notes, notes, strong
from tests.fixtures.minio import MinioServer, serve_minio

pytestmark = pytest.mark.disk  # they look into the directories themselves

_SENTINEL = "sentinel-secret-7f3a9c"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lakehouse]:
    """A warehouse on disk, with no store in its environment."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with Lakehouse.open(str(tmp_path / "warehouse")) as opened:
        yield opened


@pytest.fixture(scope="module")
def other_minio() -> Iterator[MinioServer]:
    """A second server, whose keys the first does not know."""
    with serve_minio("somebody-else", _SENTINEL) as server:
        yield server


def test_two_endpoints_in_one_process(
    lake: Lakehouse,
    minio: MinioServer,
    other_minio: MinioServer,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    wrong = {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    given = minio.credentials("A") | other_minio.credentials("B")
    for name, value in (wrong | {"AWS_SESSION_TOKEN": "x"} | given).items():
        monkeypatch.setenv(name, value)
    for name, server in (("a", minio), ("b", other_minio)):
        connection = Connection(server.endpoint, credentials=f"env:{name.upper()}")
        made = lake.create_storage(name, type="s3", bucket="lake", base=f"{request.node.name}", connection=connection)
        assert made.base == f"s3://lake/{request.node.name}"
        lake.create_namespace(name)
        table = lake.create_table(
            f"{name}.t", type="USER", columns=[Column("id", "BIGINT")], primary_key=["id"], options={"STORAGE_ID": name}
        )
        for round_ in range(6):
            table.write([{"id": round_}], user="u")
            assert [report.outcome for report in lake.flush(f"{name}.t")] == ["done"]
        assert table.read(user="u", freshness="eventual").num_rows == 6
        assert [report.outcome for report in lake.compact(f"{name}.t")] == ["done"]
        assert table.history(user="u")[0].version == 6
        vacuum = lake.vacuum(f"{name}.t", retain_hours=0, force=True, dry_run=False)
        assert [report.fault for report in vacuum] == [None]
        lake.restore(f"{name}.t", user="u", version=vacuum[0].version or 0, dry_run=False)
        assert all(finding.passed for finding in lake.check(name))
    assert lake.health("a")[0].used_bytes
    lake.drop_table("a.t")
    lake.drop_storage("a")
    with pytest.raises(InUse, match=r"1 table.* still using it"):
        lake.drop_storage("b")


def test_a_warehouse_in_a_bucket_with_a_table_on_disk(s3_warehouse_uri: str, tmp_path: Path) -> None:
    with Lakehouse.open(s3_warehouse_uri) as lake:
        lake.create_storage("disk", type="filesystem", base=str(tmp_path / "disk"))
        table = make_notes(lake, options={"STORAGE_ID": "disk"})
        table.write(notes({1: "a"}), user="u")
        lake.flush()
        assert (tmp_path / "disk" / "chat" / "notes" / "u" / "_delta_log").is_dir()
        assert strong(table, "u") == eventual(table, "u") == {1: "a"}


def _run(*arguments: str) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 0


def test_by_command_line_a_table_of_a_local_warehouse_lies_in_a_bucket(
    minio: MinioServer, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    warehouse = str(tmp_path / "warehouse")
    place = ["--bucket", minio.bucket, "--base-directory", request.node.name, "--endpoint", minio.endpoint, "--path-style"]
    _run("storage", "create", "cold", "--preset", "minio", *place, "--warehouse", warehouse, "--format", "json")
    (made,) = json.loads(capsys.readouterr().out)
    assert (made["storage_type"], made["endpoint"], made["path_style"]) == ("s3", minio.endpoint, True)
    with Lakehouse.open(warehouse) as lake:
        table = make_notes(lake, options={"STORAGE_ID": "cold"})
        table.write(notes({1: "a"}), user="u")
    _run("flush", NOTES, "--warehouse", warehouse)
    _run("check", "cold", "--extended", "--warehouse", warehouse, "--format", "json")
    (row,) = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert list(row) == [
        *("storage_id", "status", "readable", "writable", "listable", "deletable", "latency_ms"),
        *("total_bytes", "used_bytes", "error", "tested_at"),
    ]
    assert (row["status"], row["error"], row["total_bytes"]) == ("healthy", None, None)
    assert row["used_bytes"] > 0
    found = ScopeTable.open(Location(f"s3://{minio.bucket}/{request.node.name}/chat/notes/u"))
    assert found is not None
    assert found.version == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"type": "s3", "bucket": "b", "connection": Connection(credentials=_SENTINEL)}, InvalidArgument),
        ({"type": "s3", "bucket": "b", "connection": Connection(credentials=f'{{"secret": "{_SENTINEL}"}}')}, InvalidArgument),
        ({"type": "s3", "bucket": "b", "connection": Connection(credentials=f"env:A={_SENTINEL}")}, InvalidArgument),
        ({"type": "s3", "bucket": "b", "connection": Connection(endpoint=f"http://u:{_SENTINEL}@host")}, InvalidArgument),
        ({"type": "s3", "bucket": "b", "connection": Connection(endpoint=f"http://host?k={_SENTINEL}")}, InvalidArgument),
        ({"type": "s3", "bucket": "b", "connection": Connection(endpoint="host:9000")}, InvalidArgument),
        ({"type": "s3", "bucket": "b", "connection": Connection(endpoint="http://host:x")}, InvalidArgument),
        ({"type": "s3", "base": f"s3://u:{_SENTINEL}@b/p"}, InvalidArgument),
        ({"type": "s3", "bucket": f"u:{_SENTINEL}@b"}, InvalidArgument),
        ({"type": "azure", "base": f"az://c/x?sig={_SENTINEL}"}, InvalidArgument),
        ({"type": "s3", "bucket": "b", "base": "s3://b/p"}, InvalidArgument),
        ({"type": "s3", "bucket": "b", "base": "../up"}, InvalidArgument),
        ({"type": "s3"}, InvalidArgument),
        ({"type": "s3", "base": "gs://b"}, InvalidArgument),
        ({"type": "gcs", "base": "s3://b"}, InvalidArgument),
        ({"type": "filesystem", "base": "s3://b"}, InvalidArgument),
        ({"type": "filesystem"}, InvalidArgument),
        ({"type": "filesystem", "bucket": "b"}, InvalidArgument),
        ({"type": "s3", "bucket": "../b"}, InvalidArgument),
        ({"type": "s3", "bucket": "b", "base": "new\nline"}, InvalidArgument),
        ({"type": "s3", "bucket": "b", "base": "a%2e%2eb"}, Unsupported),
        ({"type": "filesystem", "base": "d%20"}, Unsupported),
        ({"type": "filesystem", "base": "d", "connection": Connection(region="eu-1")}, InvalidArgument),
        ({"type": "gcs", "bucket": "b", "connection": Connection(region="eu-1")}, InvalidArgument),
        ({"type": "ftp", "base": "d"}, InvalidArgument),
        ({"type": "hdfs", "base": "hdfs://n/d"}, Unsupported),
    ],
    ids=str,
)
def test_what_cannot_be_declared(
    lake: Lakehouse, arguments: dict[str, object], code: type[LakewardenError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(code) as refusal:
        lake.create_storage("s", **arguments)  # type: ignore[arg-type]
    assert _SENTINEL not in refusal.value.message
    assert [storage.id for storage in lake.storages()] == ["local"]
    assert [path.name for path in tmp_path.iterdir()] == ["warehouse"]


@pytest.mark.parametrize("place", ["data", "data/", "data/chat", "_lakewarden", "_lakewarden/jobs", "link/inside"])
def test_what_the_warehouse_keeps_is_no_place_for_a_storage(lake: Lakehouse, tmp_path: Path, place: str) -> None:
    make_notes(lake)
    (tmp_path / "warehouse" / "link").symlink_to(tmp_path / "warehouse" / "data")
    with pytest.raises(InvalidArgument, match="choose another"):
        lake.sql(f"CREATE STORAGE cold TYPE filesystem PATH '{tmp_path}/warehouse/{place}'")
    assert list(lake.warehouse.catalog.read().storages) == ["local"]
    lake.sql(f"CREATE STORAGE cold TYPE filesystem PATH '{tmp_path}/warehouse/cold'")


@pytest.mark.parametrize("place", ["/", "//", "/..", "file:///"])
def test_the_root_of_the_file_system_is_no_place_for_a_storage(lake: Lakehouse, place: str) -> None:
    with pytest.raises(InvalidArgument, match="the root of the file system"):
        lake.sql(f"CREATE STORAGE cold TYPE filesystem PATH '{place}'")


def test_local_is_another_word_for_filesystem_and_its_directory_is_made(lake: Lakehouse, tmp_path: Path) -> None:
    made = lake.create_storage("cold", type="LOCAL", base=str(tmp_path / "new" / "cold"))
    assert made.type == "filesystem"
    assert (tmp_path / "new" / "cold").is_dir()
    assert lake.drop_storage("cold")
    assert not lake.drop_storage("cold", if_exists=True)
    with pytest.raises(NotFound):
        lake.drop_storage("cold")


def test_alter_tries_the_place_and_changes_nothing_where_that_fails(
    lake: Lakehouse, minio: MinioServer, other_minio: MinioServer, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    for name, value in (minio.credentials("A") | other_minio.credentials("B")).items():
        monkeypatch.setenv(name, value)
    connection = Connection(minio.endpoint, credentials="env:A")
    made = lake.create_storage("s", type="s3", bucket="lake", base=request.node.name, connection=connection)
    with pytest.raises(StorageRefused, match="not accept these credentials"):
        lake.alter_storage("s", credentials="env:B")
    with pytest.raises(StorageRefused, match="NOWHERE_ACCESS_KEY_ID is not in the environment"):
        lake.alter_storage("s", credentials="env:NOWHERE")
    with pytest.raises(InUse, match="belongs to no warehouse"):  # an empty place elsewhere is not where the tables lie
        lake.alter_storage("s", endpoint=other_minio.endpoint, credentials="env:B")
    with pytest.raises(StorageUnavailable):
        lake.alter_storage("s", endpoint="http://127.0.0.1:1")
    assert lake.storages()[1] == made
    same = minio.endpoint.replace("127.0.0.1", "localhost")
    assert lake.alter_storage("s", endpoint=same, description="x").connection.endpoint == same


@contextmanager
def _silent_server() -> Iterator[str]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)  # the kernel accepts, nobody answers
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


_FAILURES = {
    "no bucket": ("no-such-bucket", "A", "", StorageRefused, "no such bucket|there is no bucket"),
    "wrong secret": ("lake", "WRONG", "", StorageRefused, "does not accept these credentials"),
    "unknown key": ("lake", "NOBODY", "", StorageRefused, "does not accept these credentials"),
    "may not list": ("lake", "BLIND", "", StorageRefused, "do not permit that"),
    "refuses": ("lake", "A", "http://127.0.0.1:1", StorageUnavailable, "nothing listens there"),
    "unknown host": ("lake", "A", "http://no-such-host.invalid:9000", StorageUnavailable, "no such host"),
    "silent": ("lake", "A", "silent", StorageUnavailable, "does not answer"),
}


@pytest.mark.parametrize(
    "failure", [pytest.param(name, marks=pytest.mark.slow if name == "silent" else ()) for name in _FAILURES]
)
def test_a_failure_is_told_in_words(lake: Lakehouse, minio: MinioServer, monkeypatch: pytest.MonkeyPatch, failure: str) -> None:
    bucket, keys, endpoint, kind, words = _FAILURES[failure]
    good = minio.credentials("A")
    wrong = {"WRONG_ACCESS_KEY_ID": minio.user, "WRONG_SECRET_ACCESS_KEY": _SENTINEL}
    nobody = {"NOBODY_ACCESS_KEY_ID": "nobody", "NOBODY_SECRET_ACCESS_KEY": _SENTINEL}
    blind = minio.session("BLIND", "s3:GetObject", "s3:PutObject", "s3:DeleteObject")
    for name, value in (good | wrong | nobody | blind).items():
        monkeypatch.setenv(name, value)
    with _silent_server() as silent:
        connection = Connection({"silent": silent}.get(endpoint, endpoint or minio.endpoint), credentials=f"env:{keys}")
        location = Location(f"s3://{bucket}/failures", connection)
        with _told(kind, words):
            lake.create_storage("s", type="s3", base=location.uri, connection=connection)
        with _told(kind, words):
            open_store(location).list("")
        with _told(kind, words):
            ScopeTable.open(location.below("chat/notes/u"))
    assert [storage.id for storage in lake.storages()] == ["local"]


@contextmanager
def _told(kind: type[LakewardenError], words: str) -> Iterator[None]:
    with pytest.raises(kind, match=words) as told:
        yield
    assert told.value.code == "STORAGE_UNAVAILABLE"
    assert _SENTINEL not in told.value.message
    assert "<" not in told.value.message, "no XML for people"


@pytest.mark.slow
def test_a_storage_that_went_away_is_unreachable(lake: Lakehouse, capsys: pytest.CaptureFixture[str]) -> None:
    with serve_minio() as server, pytest.MonkeyPatch.context() as environment:
        for name, value in server.credentials("A").items():
            environment.setenv(name, value)
        lake.create_storage("s", type="s3", bucket="lake", connection=Connection(server.endpoint, credentials="env:A"))
        assert lake.health("s")[0].status == "healthy"
    (found,) = lake.health("s")
    assert (found.status, found.writable, found.listable, found.used_bytes) == ("unreachable", False, False, None)
    with pytest.raises(SystemExit) as left:
        main(["check", "s", "--extended", "--warehouse", lake.warehouse.uri, "--format", "json"])
    rows, error = capsys.readouterr().out.splitlines()
    assert left.value.code == 1
    assert json.loads(rows)[0]["status"] == "unreachable"
    assert json.loads(error)["error"]["code"] == "STORAGE_UNAVAILABLE"


def test_a_storage_that_may_not_be_listed_is_degraded(
    lake: Lakehouse, minio: MinioServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in minio.credentials("A").items():
        monkeypatch.setenv(name, value)
    lake.create_storage("s", type="s3", bucket="lake", base="half", connection=Connection(minio.endpoint, credentials="env:A"))
    for name, value in minio.session("A", "s3:GetObject", "s3:PutObject").items():
        monkeypatch.setenv(name, value)
    (found,) = lake.health("s")
    assert (found.status, found.readable, found.writable) == ("degraded", True, True)
    assert (found.listable, found.deletable) == (False, False)
    assert "cannot list" in str(found.error)


@pytest.mark.slow
def test_no_secret_is_printed_or_kept(
    other_minio: MinioServer, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole life by the command line, with right and wrong keys; then everything that was said and written is searched.

    The commands run in this process, but for one that fails and one that does its work: a program may say more at its end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= other_minio.credentials("T") | {
        "W_ACCESS_KEY_ID": other_minio.user,
        "W_SECRET_ACCESS_KEY": f"{_SENTINEL}-wrong",
    }
    warehouse = str(tmp_path / "warehouse")
    for name in [name for name in os.environ if name not in environment]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    said = []

    def run_program(*arguments: str) -> int:
        command = [str(Path(sys.executable).parent / "lakewarden"), *arguments, "--warehouse", warehouse, "--debug"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        said.append(f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done.returncode

    def run(*arguments: str) -> int:
        with pytest.raises((SystemExit, LakewardenError)) as left:
            main([*arguments, "--warehouse", warehouse, "--debug"])
        trace = "".join(traceback.format_exception(left.value))
        said.append(f"{arguments}\n{''.join(capfd.readouterr())}{trace}")
        return left.value.code if isinstance(left.value, SystemExit) and isinstance(left.value.code, int) else 1

    make = ["storage", "create", "s", "--type", "s3", "--endpoint", other_minio.endpoint]
    assert run_program(*make, "--bucket", "lake", "--credentials", "env:W") != 0
    assert run(*make, "--bucket", "no-such-bucket", "--credentials", "env:T") != 0
    assert run(*make, "--bucket", "lake", "--credentials", "env:T") == 0
    with Lakehouse.open(warehouse) as lake:
        table = make_notes(lake, options={"STORAGE_ID": "s"})
        for number in range(6):
            table.write(notes({number: "x"}), user="u")
            lake.flush()
        table.write(notes({9: "hot"}), user="u")
        assert lake.warehouse.logs.views().sound
    assert run_program("flush", NOTES) == 0
    for words in ("compact", "history", "optimize", "vacuum"):
        assert run(words, NOTES, *(["--user", "u"] if words == "history" else [])) == 0
    for listing in (["storage", "list"], ["check"], ["check", "s", "--extended"], ["status"], ["jobs", "list"]):
        assert run(*listing) == 0
    assert run("storage", "alter", "s", "--credentials", "env:W") != 0
    assert run("storage", "alter", "s", "--credentials", _SENTINEL.upper()) != 0
    spoken = "\n".join(said)
    assert "env:T" in spoken
    own_words = re.compile(rf"\('storage', 'alter', 's', '--credentials', '{_SENTINEL.upper()}'\)")
    assert _SENTINEL not in own_words.sub("", spoken).lower()
    kept = [path for path in (tmp_path / "warehouse").rglob("*") if path.is_file()]
    bucket = open_store(Location("s3://lake", Connection(other_minio.endpoint, credentials="env:T")))
    objects = [bucket.get(found.key) for found in bucket.list("")]
    assert kept
    assert len(objects) > 10
    assert not [path for path in kept if _SENTINEL.encode() in path.read_bytes()]
    assert not [data for data in objects if _SENTINEL.encode() in data]
