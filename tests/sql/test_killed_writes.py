"""Statements that write by parts and die before each of their changes: all rows are there, or none, and they can run again."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import LogSettings, SqlSettings
from lakewarden.base.settings import Settings
from lakewarden.sql.query_engine import in_process
from tests.ingest.kills import dies_before_change
from tests.maintenance.steps import Died

pytestmark = [pytest.mark.slow, pytest.mark.disk]

_PARTS = Settings(sql=SqlSettings(result_bytes=1 << 15), log=LogSettings(segment_max_bytes=1 << 14))
_MANY = 2500
_QUERY = f"SELECT i AS id, 'd' || (i % 2) AS day, 'value ' || i AS v FROM range({_MANY}) r(i)"
_NEW = [(id_, f"d{id_ % 2}", f"value {id_}") for id_ in range(_MANY)]
_LOWER = f"SELECT id - 2 AS id, day, v FROM ({_QUERY})"
_WHENS = "WHEN MATCHED AND s.id = -2 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
_OLD = [(-2, "d0", "flushed"), (-1, "d1", "pending")]
_COLUMNS = "(id BIGINT PRIMARY KEY, day TEXT, v TEXT)"

_Rows = list[tuple[object, ...]]


def _rows(lake: Lakehouse, name: str) -> _Rows:
    user = "root" if lake.table(name).table.type == "USER" else None
    found = lake.table(name).read(user=user).select(["id", "day", "v"])
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


def _dies(uri: str, text: str, changes: int) -> bool:
    """Whether it died before the change of that number."""
    with pytest.MonkeyPatch.context() as patch, Lakehouse.open(uri, settings=_PARTS) as lake:
        dies_before_change(patch, changes)
        try:
            lake.sql(text)
        except Died:
            return True
    return False


@pytest.mark.parametrize(
    ("columns", "text", "after"),
    [
        pytest.param(
            f"SHARED TABLE {{}} {_COLUMNS.replace(' PRIMARY KEY', '')} PARTITION BY (day)",
            f"INSERT INTO {{}} {_QUERY}",
            [*_OLD, *_NEW],
            id="appended",
            marks=pytest.mark.night,
        ),
        pytest.param(f"SHARED TABLE {{}} {_COLUMNS}", f"INSERT INTO {{}} {_QUERY}", [*_OLD, *_NEW], id="staged"),
        pytest.param(
            f"SHARED TABLE {{}} {_COLUMNS} PARTITION BY (day)", f"INSERT OVERWRITE {{}} {_QUERY}", _NEW, id="overwritten"
        ),
        pytest.param(
            f"USER TABLE {{}} {_COLUMNS}",
            f"INSERT OVERWRITE {{}} {_QUERY}",
            _NEW,
            id="replaced",
            marks=pytest.mark.night,
        ),
        pytest.param(
            f"USER TABLE {{}} {_COLUMNS}",
            f"INSERT INTO {{}} {_LOWER} ON CONFLICT DO UPDATE SET v = 'again'",
            [(-2, "d0", "again"), (-1, "d1", "again"), *[(id_ - 2, day, text) for id_, day, text in _NEW[2:]]],
            id="on conflict",
            marks=pytest.mark.night,
        ),
        pytest.param(
            f"SHARED TABLE {{}} {_COLUMNS}",
            f"MERGE INTO {{}} t USING ({_LOWER}) s ON t.id = s.id {_WHENS}",
            [(id_ - 2, day, text) for id_, day, text in _NEW[1:]],
            id="merged",
        ),
    ],
)
def test_a_statement_that_died_did_all_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str, text: str, after: _Rows
) -> None:
    monkeypatch.setattr(in_process, "_BATCH_ROWS", 2048)
    uri, changes, left = str(tmp_path / "w"), 0, set[bool]()
    with Lakehouse.open(uri) as lake:
        lake.sql("CREATE NAMESPACE n")
    died = True
    while died:
        name = f"n.t{changes}"
        with Lakehouse.open(uri) as lake:
            lake.sql(f"CREATE {columns.format(name)}; INSERT INTO {name} VALUES (-2, 'd0', 'flushed')")
            lake.flush()
            lake.sql(f"INSERT INTO {name} VALUES (-1, 'd1', 'pending')")
        died = _dies(uri, text.format(name), changes)
        with Lakehouse.open(uri) as lake:
            found = _rows(lake, name)
            assert found in (sorted(_OLD), sorted(after)), f"died before change {changes}"
            left.add(found == sorted(after))
            if found == sorted(_OLD):
                lake.sql(text.format(name))
            lake.flush()
            assert _rows(lake, name) == sorted(after), f"died before change {changes}, and ran again"
        changes += 1
    assert left == {True, False}
    assert changes > 5, "parts, their commit or segment, and notes in the log and the state"
    with Lakehouse.open(uri) as lake:
        assert not [finding for finding in lake.check() if not finding.passed]
