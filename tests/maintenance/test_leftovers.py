"""What a power cut or a kill left of a write may hold rows: erasures and vacuums remove it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.errors import Conflict
from lakewarden.storage.disk import AGE, TEMPORARY, machine_start
from tests.fixtures.lakes import NOTES, make_notes, notes, scope_path, strong

pytestmark = pytest.mark.disk

_DAY_OLD = time.time() - AGE.total_seconds() - 60
_BEFORE_THE_START = machine_start().timestamp() - 60


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    """A process that has written before: it does not sweep again with its first write."""
    with Lakehouse.open(warehouse_uri) as opened:
        table = make_notes(opened)
        for user in ("ann", "bob"):
            table.write(notes({1: f"of {user}"}), user=user)
        opened.flush()
        yield opened


def _left(root: Path, copy_of: Path, moment: float) -> Path:
    path = root / TEMPORARY / "left"
    path.parent.mkdir(exist_ok=True)
    shutil.copy(copy_of, path)
    os.utime(path, (moment, moment))
    return path


def _segment(lake: Lakehouse, user: str) -> Path:
    """A part of the write log that holds a row of the user."""
    lake.table(NOTES).write(notes({2: "secret"}), user=user)
    return max(Path(lake.warehouse.state.uri).glob("log/*/segments/*"))


@pytest.mark.parametrize("moment", [_DAY_OLD, _BEFORE_THE_START], ids=["a day ago", "before the machine was started"])
def test_an_erasure_removes_it(lake: Lakehouse, moment: float) -> None:
    left = _left(Path(lake.warehouse.state.uri), _segment(lake, "ann"), moment)
    assert lake.erase("ann").result == "complete"
    assert not left.exists()
    assert strong(lake.table(NOTES), "bob") == {1: "of bob"}


def test_what_may_still_be_written_stays_and_is_named(lake: Lakehouse) -> None:
    left = _left(Path(lake.warehouse.state.uri), _segment(lake, "ann"), time.time())
    with pytest.raises(Conflict, match="an erasure removes it after a day, or after the machine was restarted") as told:
        lake.erase("ann")
    assert str(left) in told.value.message
    os.utime(left, (_DAY_OLD, _DAY_OLD))
    assert lake.erase("ann").result == "complete"


def test_an_export_and_a_storage_too(lake: Lakehouse, tmp_path: Path) -> None:
    lake.export("ann", str(tmp_path / "out"))
    (file,) = (tmp_path / "out").rglob("*.parquet")
    left = [_left(root, file, _DAY_OLD) for root in (tmp_path / "out", Path(lake.warehouse.uri, "data"))]
    assert lake.erase("ann").result == "complete"
    assert not any(path.exists() for path in left)


def test_a_vacuum_removes_it(lake: Lakehouse) -> None:
    segment = _segment(lake, "ann")
    roots = [Path(lake.warehouse.state.uri), Path(lake.warehouse.uri, "data"), Path(str(scope_path(lake, "ann")))]
    old = [_left(root, segment, _DAY_OLD) for root in roots]
    young = [Path(shutil.copy(segment, path.with_name("young"))) for path in old]
    lake.vacuum(NOTES, look=True, dry_run=True)
    assert all(path.exists() for path in old)
    lake.vacuum(NOTES, look=True, dry_run=False)
    assert [path for path in old if path.exists()] == []
    assert all(path.exists() for path in young)
