"""What was made durable, and before what: the order alone tells, since no process that lives sees a difference."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from pathlib import Path

import pytest

from lakewarden.errors import LakewardenError, NotDurable
from lakewarden.storage import disk as posix
from lakewarden.storage.disk import sync
from lakewarden.storage.local import LocalObjects
from lakewarden.storage.objects import AlreadyThere
from tests.fixtures.mounts import tmpfs
from tests.fixtures.syncs import written_down


@pytest.fixture(params=["unnamed", "named"])
def new_files(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a file is until it gets its name; not every file system has unnamed ones."""
    if request.param == "named":
        monkeypatch.setattr(posix, "_UNNAMED", 0)
    return str(request.param)


def test_an_object_is_durable_before_its_name_and_its_name_before_the_return(tmp_path: Path, new_files: str) -> None:
    store, seen = LocalObjects(str(tmp_path / "new" / "root")), []
    with written_down() as syncs:

        def linked(source: Path, name: Path) -> None:
            assert syncs.files[source.stat().st_ino] == 4, f"{name} is made before its bytes are durable"
            assert source.is_relative_to(tmp_path) == (new_files == "named")
            seen.append(name)

        syncs.at_name = linked
        store.create("a/b/1", b"1234")
        assert syncs.keeps(tmp_path / "new/root/a/b/1", tmp_path)
        store.create("a/b/2", b"5678")
        assert syncs.keeps(tmp_path / "new/root/a/b/2", tmp_path)
    assert len(seen) == 2
    assert list((tmp_path / "new/root").glob(".tmp/*")) == []


def test_where_there_are_no_unnamed_files_objects_are_created_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def refuse(path: str, flags: int, *rest: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return opened(path, flags, *rest)

    monkeypatch.setattr(os, "open", refuse)
    LocalObjects(str(tmp_path)).create("a/1", b"1234")
    assert (tmp_path / "a/1").read_bytes() == b"1234"


def test_what_replaces_an_object_is_durable(tmp_path: Path) -> None:
    store = LocalObjects(str(tmp_path))
    with written_down() as syncs:
        for data in (b"1234", b"56789"):
            store.put("a/b", data)
            assert syncs.keeps(tmp_path / "a/b", tmp_path.parent)


def test_a_directory_that_another_process_made_is_made_durable_too(tmp_path: Path) -> None:
    """Its maker may not have come to it yet."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    with written_down() as syncs:
        LocalObjects(str(tmp_path)).create("a/b/1", b"1234")
        assert syncs.keeps(tmp_path / "a/b/1", tmp_path.parent)


@pytest.mark.parametrize("failing", [1, 2], ids=["of the file", "of the directory"])
@pytest.mark.usefixtures("new_files")
def test_an_fsync_that_fails_is_no_creation(tmp_path: Path, failing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    store, fsync, calls = LocalObjects(str(tmp_path)), os.fsync, [0]
    store.create("a/0", b"x")

    def fail(descriptor: int) -> None:
        calls[0] += 1
        if calls[0] == failing:
            raise OSError(5, "Input/output error")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(NotDurable, match="Input/output error"):
        store.create("a/1", b"x")


def test_what_is_confirmed_is_durable_whoever_made_it(tmp_path: Path) -> None:
    store = LocalObjects(str(tmp_path))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1").write_bytes(b"1234")
    with written_down() as syncs:
        store.confirm("a/1")
        assert syncs.keeps(tmp_path / "a/1", tmp_path / "a")


def test_a_creation_that_lost_syncs_nothing(tmp_path: Path) -> None:
    store = LocalObjects(str(tmp_path))
    store.create("a/1", b"x")
    with written_down() as syncs:
        with pytest.raises(AlreadyThere):
            store.create("a/1", b"y")
        assert syncs.files == {}


def test_a_job_syncs_every_file_system_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with written_down(tmp_path) as syncs:
        sync([str(tmp_path / "a"), f"file://{tmp_path}/b", str(tmp_path / "not" / "yet"), "s3://lake/x"])
        assert [each.stat().st_dev for each in syncs.whole] == [tmp_path.stat().st_dev]


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mount") is None, reason="mounting a file system takes root")
def test_a_job_syncs_the_other_file_systems_too(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", "size=256k") as disk, written_down() as syncs:
        sync([str(tmp_path), str(disk)])
        assert {each.stat().st_dev for each in syncs.whole} == {tmp_path.stat().st_dev, disk.stat().st_dev}


def test_a_sync_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def __init__(self, *_: object, **__: object) -> None:
            self.syncfs = lambda descriptor: -1

    monkeypatch.setattr(ctypes, "CDLL", Failing)
    with pytest.raises(LakewardenError, match="what was written last may be lost"):
        sync([str(tmp_path)])
