"""What a sweep removes of a place in which no table is any more: files that late writers left, and no other table's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.base.connection import Location
from lakewarden.delta.parquet.files import batch_folder
from lakewarden.maintenance.vacuum.sweep import sweep_fence
from lakewarden.storage.steps import alone
from tests.delta.scopes import by


@pytest.mark.disk
def test_data_files_go_at_any_depth_of_partitions(tmp_path: Path) -> None:
    late = ["a.parquet", f"{batch_folder(0, lambda: '0' * 32)}/part-0.parquet", "kind=.._delta_log/day=1/b.parquet"]
    others = ["deeper/c.parquet", "user=ann/d.parquet", f"user=ann/_delta_log/{0:020d}.json"]
    for name in late + others:
        (tmp_path / "t" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "t" / name).write_bytes(b"rows")
    fate = alone(sweep_fence(Location(str(tmp_path / "t")), datetime.now(UTC) + timedelta(days=1), by("VC-1"), lambda: None))
    assert fate == "gone"
    assert sorted(
        path.relative_to(tmp_path / "t").as_posix() for path in (tmp_path / "t").rglob("*") if path.is_file()
    ) == sorted(others)
    assert not (tmp_path / "t" / "kind=.._delta_log").exists()
