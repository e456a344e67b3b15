"""Statements that compare more rows with the live ones than fit into memory: share by share (docs/decisions/0086)."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import SqlSettings
from lakewarden.base.settings import Settings
from lakewarden.errors import ConstraintViolation, Unsupported
from lakewarden.sql.query_engine import in_process
from lakewarden.sql.results import AffectedRows, ResultRows
from lakewarden.storage.location import local_path
from lakewarden.tables.client.large_writes import ComparedWrite, Share
from lakewarden.tables.intake import Revision

_TABLES = """
CREATE NAMESPACE app;
CREATE SHARED TABLE app.shared (id BIGINT PRIMARY KEY, day TEXT, v TEXT NOT NULL DEFAULT 'none');
CREATE USER TABLE app.own (id BIGINT PRIMARY KEY, day TEXT, v TEXT NOT NULL DEFAULT 'none');
CREATE SHARED TABLE app.pairs (id BIGINT, day TEXT, v TEXT, PRIMARY KEY (day, id)) PARTITION BY (day);
CREATE SHARED TABLE app.last (id BIGINT PRIMARY KEY, day TEXT, v TEXT) WITH (ON_DUPLICATE = 'replace');
"""
_NAMES = ("app.shared", "app.own", "app.pairs", "app.last")
_MANY = 4500
_QUERY = f"SELECT i AS id, 'd' || (i % 3) AS day, 'value ' || i AS v FROM range({_MANY}) r(i)"
_TWICE = f"SELECT 2997 AS id, 'd0' AS day, '' AS v UNION ALL {_QUERY}"
_SETS = "WHEN MATCHED THEN UPDATE SET v = s.v"
_ADDS = "WHEN NOT MATCHED THEN INSERT *"
_IF_996 = "WHEN NOT MATCHED AND (SELECT count(*) FROM app.shared) = 996 THEN INSERT *"
_WHENS = (
    "WHEN MATCHED AND s.day = 'd0' THEN DELETE"
    " WHEN MATCHED THEN UPDATE SET v = s.v, day = t.day || (SELECT max(day) FROM app.pairs)"
    " WHEN NOT MATCHED AND s.day = 'd1' THEN INSERT (id, day) VALUES (s.id + 2, s.day)"
)
_SMALL = Settings(sql=SqlSettings(result_bytes=1 << 14))


@pytest.fixture(autouse=True)
def _several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_process, "_BATCH_ROWS", 2048)


def _filled(lake: Lakehouse) -> Lakehouse:
    """With live rows in Delta and in the log."""
    lake.sql(_TABLES)
    for name in _NAMES:
        lake.sql(f"INSERT INTO {name} SELECT i * 3, 'd' || (i % 2), 'live ' || i FROM range(1000) r(i)")
    lake.flush()
    for name in _NAMES:
        lake.sql(f"UPDATE {name} SET v = 'hot' WHERE id % 5 = 0 AND id < 300; DELETE FROM {name} WHERE id BETWEEN 90 AND 99")
    return lake


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of which each test has copies."""
    place = tmp_path_factory.mktemp("filled") / "w"
    with Lakehouse.open(str(place)) as opened:
        _filled(opened)
    return place


@pytest.fixture
def lake(warehouse_uri: str, filled: Path) -> Iterator[Lakehouse]:
    here = local_path(warehouse_uri)
    if here is not None:
        shutil.copytree(filled, here)
    with Lakehouse.open(warehouse_uri, settings=_SMALL) as opened:
        yield opened if here is not None else _filled(opened)


@pytest.fixture
def other(tmp_path: Path, filled: Path) -> Iterator[Lakehouse]:
    """What the same statement does to the same rows at once."""
    with Lakehouse.open(str(shutil.copytree(filled, tmp_path / "other"))) as opened:
        yield opened


@pytest.fixture
def shares(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of the live rows of each share that was decided on."""
    found: list[int] = []
    made = Share.__init__

    def counted(share: Share, keys: pa.Table, decide: object) -> None:
        def seen(live: pa.Table) -> Revision:
            found.append(live.nbytes)
            return decide(live)  # type: ignore[no-any-return, operator]

        made(share, keys, seen)

    monkeypatch.setattr(Share, "__init__", counted)
    return found


def _rows(lake: Lakehouse, name: str) -> list[tuple[object, ...]]:
    found = lake.table(name).read(user="root" if name == "app.own" else None).select(["id", "day", "v"])
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        f"INSERT INTO app.shared {_QUERY} ON CONFLICT DO NOTHING",
        f"INSERT INTO app.shared {_QUERY} ON CONFLICT (id) DO UPDATE SET v = excluded.v || shared.v WHERE shared.day > 'd0'",
        f"INSERT INTO app.shared {_QUERY} ON CONFLICT DO UPDATE SET v = (SELECT max(v) || count(*)::TEXT FROM app.shared)",
        f"INSERT INTO app.own {_QUERY} ON CONFLICT DO UPDATE SET v = excluded.v",
        f"INSERT INTO app.pairs (v, day, id) SELECT v, day, id FROM ({_QUERY}) ON CONFLICT DO UPDATE SET v = pairs.v || 'again'",
        f"MERGE INTO app.shared t USING ({_QUERY}) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        f"MERGE INTO app.shared t USING ({_QUERY} UNION ALL {_QUERY}) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        f"MERGE INTO app.shared t USING ({_QUERY}) s ON s.id + 2 = t.id {_WHENS}",
        f"MERGE INTO app.own t USING ({_QUERY}) s ON s.id + 2 = t.id {_WHENS}",
        f"MERGE INTO app.shared t USING (SELECT id * 0.5 AS id, v FROM ({_QUERY})) s ON t.id = s.id {_SETS}",
        f"MERGE INTO app.shared t USING ({_QUERY}) s ON t.id = s.id {_SETS} {_IF_996}",
        f"MERGE INTO app.pairs t USING ({_QUERY}) s ON t.id = s.id // 2 AND s.day = t.day {_SETS}",
        f"MERGE INTO app.shared t USING ({_QUERY}) s ON t.id = s.id WHEN MATCHED AND false THEN DELETE",
    ],
)
def test_the_outcome_is_that_of_all_rows_at_once(lake: Lakehouse, other: Lakehouse, shares: list[int], text: str) -> None:
    (expected,) = other.sql(text)
    assert not shares
    (found,) = lake.sql(text)
    assert len(shares) > 5
    assert isinstance(found, AffectedRows)
    assert isinstance(expected, AffectedRows)
    assert dataclasses.asdict(found) == dataclasses.asdict(expected)
    for name in _NAMES:
        assert _rows(lake, name) == _rows(other, name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        f"INSERT INTO app.shared {_TWICE} ON CONFLICT DO NOTHING",
        f"INSERT INTO app.last {_TWICE} ON CONFLICT DO UPDATE SET v = excluded.v",
        f"INSERT INTO app.shared {_QUERY} UNION ALL SELECT -1, 'd0', NULL ON CONFLICT DO NOTHING",
        f"INSERT INTO app.shared {_QUERY} ON CONFLICT DO UPDATE SET v = NULLIF(excluded.v, 'value 600')",
        f"MERGE INTO app.shared t USING ({_TWICE}) s ON t.id = s.id {_SETS} {_ADDS}",
        f"MERGE INTO app.shared t USING ({_TWICE}) s ON t.id = s.id WHEN MATCHED AND s.v = '' THEN DELETE {_SETS}",
        f"MERGE INTO app.shared t USING ({_TWICE.replace('2997', '4499')}) s ON t.id = s.id {_ADDS}",
        f"MERGE INTO app.last t USING ({_TWICE.replace('2997', '4499')}) s ON t.id = s.id {_ADDS}",
    ],
)
def test_one_row_that_does_not_fit_refuses_all(lake: Lakehouse, other: Lakehouse, shares: list[int], text: str) -> None:
    before = [_rows(lake, name) for name in _NAMES]
    with pytest.raises(ConstraintViolation):
        other.sql(text)
    with pytest.raises(ConstraintViolation):
        lake.sql(text)
    assert len(shares) > 1
    assert [_rows(lake, name) for name in _NAMES] == before
    assert not [path for path in Path(lake.warehouse.uri).glob("**/staged/**/*") if path.is_file()], "what was staged is gone"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"INSERT INTO app.shared {_QUERY} ON CONFLICT DO UPDATE SET v = row_number() OVER ()", "a window function compares"),
        (f"INSERT INTO app.shared {_QUERY} ON CONFLICT DO UPDATE SET v = (SELECT max(v) FROM excluded)", "a subquery reads"),
        (f"MERGE INTO app.shared t USING ({_QUERY}) s ON t.id = s.id::DOUBLE {_SETS}", "cast the value to BIGINT"),
        (
            f"MERGE INTO app.shared t USING ({_QUERY}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = max(s.v) OVER ()",
            "a window",
        ),
    ],
)
def test_what_needs_all_rows_at_once_says_so(lake: Lakehouse, text: str, why: str) -> None:
    before = _rows(lake, "app.shared")
    lake.sql("CREATE SHARED TABLE app.excluded (v TEXT)")
    session = lake.session(user="root", role="system")
    session.sql("USE app")
    with pytest.raises(Unsupported, match=why):
        session.sql(text)
    assert _rows(lake, "app.shared") == before


@pytest.mark.slow
def test_a_share_is_made_smaller_where_its_live_rows_are_large(lake: Lakehouse, shares: list[int]) -> None:
    lake.sql("DELETE FROM app.last WHERE true; INSERT INTO app.last SELECT i, 'd', repeat('x', 1000) || i FROM range(300) r(i)")
    (found,) = lake.sql(f"INSERT INTO app.last {_QUERY} ON CONFLICT DO UPDATE SET v = excluded.v")
    assert found == AffectedRows(_MANY)
    assert 1000 < max(shares) <= 1 << 12
    assert [row[2] for row in _rows(lake, "app.last")] == [f"value {number}" for number in range(_MANY)]
    assert len(shares) < 500


@pytest.mark.slow
def test_another_user_writes_meanwhile(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    batches = ComparedWrite._batches

    def beside(write: ComparedWrite, *args: object) -> object:
        begun.append(1)
        yield from batches(write, *args)  # type: ignore[arg-type]
        if len(begun) == 1:
            lake.sql("UPDATE app.shared SET v = 'theirs' WHERE id = 3")

    monkeypatch.setattr(ComparedWrite, "_batches", beside)
    lake.sql(f"INSERT INTO app.shared {_QUERY} ON CONFLICT DO UPDATE SET v = shared.v || '!'")
    assert len(begun) == 2
    assert (3, "d1", "theirs!") in _rows(lake, "app.shared")
    assert not [path for path in Path(lake.warehouse.uri).glob("**/staged/**/*.stage") if path.is_file()]


_MATCHED = "MERGE INTO app.shared t USING (VALUES (3)) AS s(id) ON t.id = s.id WHEN MATCHED THEN UPDATE SET v ="


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO app.shared VALUES (3, 'd1', 'x') ON CONFLICT DO UPDATE SET v = (SELECT count(*)::TEXT FROM app.shared)",
        f"{_MATCHED} (SELECT count(*)::TEXT FROM app.shared)",
        f"CREATE VIEW app.seen AS SELECT * FROM app.shared; {_MATCHED} (SELECT count(*)::TEXT FROM app.seen)",
    ],
)
def test_a_subquery_sees_all_rows_of_the_table_that_is_written(lake: Lakehouse, text: str) -> None:
    lake.sql(text)
    (found,) = lake.sql("SELECT v FROM app.shared WHERE id = 3")
    assert isinstance(found, ResultRows)
    assert found.to_pylist() == [{"v": "996"}]
