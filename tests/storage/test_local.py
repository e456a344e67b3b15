"""What only a disk has: syncs, killed writers, full and read-only places."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.base.connection import Location
from lakewarden.errors import StorageRefused
from lakewarden.storage.disk import sync
from lakewarden.storage.local import LocalObjects
from lakewarden.storage.objects import AlreadyThere
from lakewarden.storage.open import open_store
from lakewarden.storage.probe import probe
from tests.fixtures.mounts import tmpfs
from tests.fixtures.syncs import written_down

_CONTENT = b"x" * 20_000


def _create_forever(root: str, number: int) -> None:
    store = LocalObjects(root)
    for at in range(1_000_000):
        store.create(f"log/{number}/{at:08d}", _CONTENT)


def test_nothing_is_left_beside_what_was_created(tmp_path: Path) -> None:
    store = LocalObjects(str(tmp_path / "root"))
    store.create("a/b", b"x")
    store.put("a/c", b"y")
    with pytest.raises(AlreadyThere):
        store.create("a/b", b"z")
    assert sorted(path.name for path in (tmp_path / "root").rglob("*") if path.is_file()) == ["b", "c"]


@pytest.mark.slow
def test_a_killed_writer_leaves_whole_objects_only(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_create_forever, args=(str(tmp_path), number)) for number in range(2)]
    for writer in writers:
        writer.start()
    store = LocalObjects(str(tmp_path))
    while len(store.list("log")) < 50:
        assert all(writer.is_alive() for writer in writers)
        time.sleep(0.01)
    for writer in writers:
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
    found = store.list("log")
    assert len(found) >= 50
    assert {stored.size for stored in found} == {len(_CONTENT)}
    assert all(store.get(stored.key) == _CONTENT for stored in found)


def test_what_killed_writers_left_is_swept_when_a_day_old(tmp_path: Path) -> None:
    junk = tmp_path / ".tmp"
    junk.mkdir()
    (junk / "old").write_bytes(b"x")
    (junk / "new").write_bytes(b"x")
    yesterday = (datetime.now(UTC) - timedelta(hours=25)).timestamp()
    os.utime(junk / "old", (yesterday, yesterday))
    store = LocalObjects(str(tmp_path))
    assert store.list("") == []
    store.create("a", b"x")
    assert [path.name for path in junk.iterdir()] == ["new"]


def test_a_directory_that_vanished_is_made_again(tmp_path: Path) -> None:
    store = LocalObjects(str(tmp_path / "root"))
    store.create("log/x/1", b"x")
    shutil.rmtree(tmp_path / "root" / "log")
    store.create("log/x/2", b"x")
    shutil.rmtree(tmp_path / "root")
    store.create("log/x/3", b"x")
    assert [stored.key for stored in store.list("")] == ["log/x/3"]


def test_a_thousand_objects_are_listed_in_order(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    for number in range(1000):
        (tmp_path / "log" / f"{number:020d}").touch()
    found = LocalObjects(str(tmp_path)).list("log")
    assert [stored.key for stored in found] == [f"log/{number:020d}" for number in range(1000)]


def test_a_file_in_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageRefused, match="there is a file where a directory should be"):
        LocalObjects(str(tmp_path / "file")).create("a/b", b"x")


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mount") is None, reason="mounting a file system takes root")
class TestSmallDisk:
    @pytest.fixture
    def disk(self, tmp_path: Path) -> Iterator[Path]:
        with tmpfs(tmp_path / "disk", "size=256k") as place:
            yield place

    def test_a_full_disk_is_told_and_nothing_is_left(self, disk: Path) -> None:
        store = LocalObjects(str(disk))
        store.create("small", b"x" * 1000)
        with pytest.raises(StorageRefused, match=r"cannot create large in .*: the disk is full"):
            store.create("large", b"x" * 1_000_000)
        assert [stored.key for stored in store.list("")] == ["small"]
        assert list(disk.glob(".tmp/*")) == []
        store.create("again", b"x" * 1000)

    def test_a_read_only_file_system_is_told(self, disk: Path) -> None:
        store = LocalObjects(str(disk))
        store.create("before", b"x")
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        with pytest.raises(StorageRefused, match="the file system is read-only"):
            store.create("after", b"x")
        assert store.get("before") == b"x"

    def test_another_file_system_below_the_root_is_told(self, disk: Path) -> None:
        with pytest.raises(StorageRefused, match="another file system is mounted below the root"):
            LocalObjects(str(disk.parent)).create(f"{disk.name}/a", b"x")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_forbidden_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(StorageRefused, match="this process may not write"):
        LocalObjects(str(tmp_path / "closed")).create("a", b"x")


def test_sync_takes_places_that_are_not_there_yet_and_no_remote_ones(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    with written_down() as syncs:
        sync([str(tmp_path), f"file://{tmp_path}/not/yet", "s3://lake/x"])
        assert syncs.whole == [tmp_path], "one file system, once"
        sync([])
    assert syncs.whole == [tmp_path]


@pytest.mark.parametrize("uri", ["disk", "memory://probe"])
def test_a_probe_leaves_nothing_and_sees_the_case(uri: str, tmp_path: Path) -> None:
    store = open_store(Location(str(tmp_path) if uri == "disk" else uri))
    assert not probe(store, lambda: "0" * 32)
    assert store.list("") == []
    assert list((tmp_path / ".lakewarden-probe").glob("*")) == []


def test_a_probe_of_a_place_that_cannot_be_written_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageRefused):
        probe(open_store(Location(str(tmp_path / "file"))), lambda: "0" * 32)
