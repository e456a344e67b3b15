"""A log of ours that names a file outside of its table: no door reads it, and each says why."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewarden import Lakehouse
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import LakewardenError
from tests.delta.hand_written import add
from tests.delta.replay.test_border import SPELLINGS
from tests.fixtures.lakes import NOTES, make_notes, notes, scope_path

pytestmark = pytest.mark.disk

_SAMPLE = ("above", "absolute", "file:///", "above, escaped twice", "s3")

_DOORS: Mapping[str, Callable[[Lakehouse, Path], object]] = {
    "read": lambda lake, _: lake.table(NOTES).read(user="ann"),
    "SELECT": lambda lake, _: lake.sql(f"SELECT * FROM {NOTES}", user="ann"),
    "delta()": lambda lake, _: lake.sql(f"SELECT * FROM delta('{scope_path(lake, 'ann')}')"),
    "version": lambda lake, _: lake.table(NOTES).read(user="ann", version=3),
    "export": lambda lake, root: lake.export("ann", str(root / "out")),
    "compact": lambda lake, _: lake.compact(NOTES, user="ann"),
    "optimize": lambda lake, _: lake.optimize(NOTES, user="ann"),
}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    (tmp_path / "other").mkdir()
    with Lakehouse.open(str(tmp_path / "w")) as opened:
        table = make_notes(opened)
        for number in range(3):
            table.write(notes({number: "a"}), user="ann")
            opened.flush()
        yield opened


@pytest.mark.parametrize(
    "spelling", [name if name in _SAMPLE else pytest.param(name, marks=pytest.mark.night) for name in SPELLINGS]
)
def test_a_file_outside_is_refused_by_name_at_every_door(lake: Lakehouse, tmp_path: Path, spelling: str) -> None:
    scope = Path(scope_path(lake, "ann"))
    inside = next(path for path in scope.glob("*.parquet"))
    pq.write_table(pq.read_table(inside).set_column(1, "content", pa.array(["secret"])), tmp_path / "other" / "secret.parquet")
    up = "../" * len(scope.relative_to(tmp_path).parts)
    path = SPELLINGS[spelling](tmp_path).replace("../other", f"{up}other")
    (scope / "_delta_log" / f"{3:020d}.json").write_text(json.dumps(add(path, size=999)))
    for door, through in _DOORS.items():
        assert "outside-path" in _said(lake, tmp_path, through), door
    assert not [found for found in (tmp_path / "out").rglob("*") if found.is_file() and b"secret" in found.read_bytes()]


def _said(lake: Lakehouse, root: Path, through: Callable[[Lakehouse, Path], object]) -> str:
    try:
        found = through(lake, root)
    except LakewardenError as error:
        return error.message
    reports = found if isinstance(found, list) else getattr(found, "tables", [])
    return "; ".join(one.reason for one in reports if isinstance(one, ScopeReport)) or repr(found)[:200]
