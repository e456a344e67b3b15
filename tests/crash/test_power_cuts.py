"""Power cuts below the process, on real file systems: what was acknowledged is there afterwards, and nothing else.

`LAKEWARDEN_CUTS` says how many, over all kinds of file systems; `make torture` takes 300, `make test` a sample. A cut that
broke a promise says how to make it again; `LAKEWARDEN_CUT_SEED=<seed>` begins elsewhere.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lakewarden.storage.local import LocalObjects
from tests.crash.disk import FILE_SYSTEMS, Disk, NoDisk, cut, formatted, room
from tests.fixtures.gate import in_the_gate
from tests.fixtures.servers import unavailable

_CUTS = int(os.environ.get("LAKEWARDEN_CUTS", "24"))
_SEED = int(os.environ.get("LAKEWARDEN_CUT_SEED", "1005"))
_DEAF_CUTS = 6
_DEAF_CAMPAIGNS = 10

pytestmark = [pytest.mark.crash, pytest.mark.disk]


@pytest.fixture(params=in_the_gate(FILE_SYSTEMS, "ext4-ordered", "xfs"))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def disk(kind: str, tmp_path: Path) -> Iterator[Disk]:
    """A new file system; the test is skipped where there can be none."""
    try:
        with formatted(kind, tmp_path) as disk:
            yield disk
    except NoDisk as why:
        unavailable("crash", f"{kind}: {why}")


def test_a_cut_loses_what_was_not_synced(disk: Disk) -> None:
    data = os.urandom(20_000)
    synced, unsynced = disk.mounted / "synced", disk.mounted / "unsynced"
    with synced.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    unsynced.write_bytes(data)
    with _power_cut(disk), pytest.raises(OSError, match="Input/output"):
        (disk.mounted / "too-late").write_bytes(data)
    assert synced.read_bytes() == data
    assert not unsynced.exists() or unsynced.read_bytes() != data


def test_what_was_put_in_place_of_another_survives_a_cut(disk: Disk) -> None:
    store = LocalObjects(str(disk.mounted / "store"))
    store.put("once", b"x" * 20_000)
    store.create("again", b"old")
    store.put("again", b"new")
    with _power_cut(disk):
        pass
    assert [store.get("once"), store.get("again")] == [b"x" * 20_000, b"new"]


@pytest.mark.usefixtures("disk")
def test_what_was_acknowledged_survives_a_cut(kind: str, tmp_path: Path) -> None:
    cuts = max(1, _CUTS // len(FILE_SYSTEMS))
    found = _campaign(tmp_path, "--kind", kind, "--seed", str(_SEED), "--cuts", str(cuts))
    assert [_told(one) for one in found if one["wrong"]] == []
    assert len(found) == cuts
    assert any(one["during"] for one in found), "no cut came in the middle of a step"


@pytest.mark.usefixtures("disk")
@pytest.mark.parametrize("kind", ["ext4-ordered"], indirect=True)
@pytest.mark.parametrize("deaf", in_the_gate(["fsync", "syncfs"], "fsync"))
def test_a_library_that_does_not_sync_is_found_out(kind: str, deaf: str, tmp_path: Path) -> None:
    """A few cuts find it nearly always; what a disk has written by itself when one comes is chance."""

    def wrong(seed: int) -> list[dict[str, Any]]:
        cuts = _campaign(tmp_path, "--kind", kind, "--seed", str(seed), "--cuts", str(_DEAF_CUTS), "--deaf", deaf)
        return [one for one in cuts if one["wrong"]]

    assert any(wrong(seed) for seed in range(1, _DEAF_CAMPAIGNS + 1))


@contextmanager
def _power_cut(disk: Disk) -> Iterator[None]:
    """The block runs after the cut; behind it the disk is mounted again."""
    descriptor = os.open(disk.mounted, os.O_RDONLY)
    cut(descriptor)
    yield
    os.close(descriptor)
    disk.remount()


def _campaign(tmp_path: Path, *words: str) -> list[dict[str, Any]]:
    """The cuts of a campaign, in an interpreter that has not used the library: it forks."""
    with tempfile.TemporaryDirectory(dir=room(tmp_path)) as below:
        command = [sys.executable, "-m", "tests.crash", "--room", below, *words]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        finally:
            for left in Path(below).glob("*/mounted"):  # by a campaign that was killed
                subprocess.run(["umount", "--lazy", str(left)], check=False)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _told(one: dict[str, Any]) -> str:
    again = f"python -m tests.crash --kind {one['kind']} --seed {one['seed']} --cuts {one['round'] + 1}"
    return "\n".join([f"cut {one['round']} of {again}, in the middle of {one['during']}:", *one["wrong"]])
