"""Statements that write the rows of a query of which there are more than fit into memory (docs/decisions/0074)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.measuring.memory import peak_bytes
from lakewarden import Lakehouse
from lakewarden.base.setting_sections import LogSettings, SqlSettings
from lakewarden.base.settings import Settings
from lakewarden.errors import ConstraintViolation, InvalidArgument, StorageUnavailable, Unsupported
from lakewarden.sql.query_engine import in_process
from lakewarden.sql.results import AffectedRows, ResultRows
from lakewarden.tables.client.reader import TableReader
from lakewarden.tables.keys.seen_keys import SeenKeys
from lakewarden.tables.rows.intake import RowParts
from tests.fixtures.lakes import lake_fixture

_TABLES = """
CREATE NAMESPACE app;
CREATE SHARED TABLE app.plain (id BIGINT, day TEXT, v TEXT NOT NULL DEFAULT 'none') PARTITION BY (day);
CREATE SHARED TABLE app.keyed (id BIGINT PRIMARY KEY, day TEXT, v TEXT NOT NULL DEFAULT 'none');
CREATE SHARED TABLE app.last (id BIGINT PRIMARY KEY, day TEXT, v TEXT) WITH (ON_DUPLICATE = 'replace');
CREATE USER TABLE app.mine (id BIGINT PRIMARY KEY, day TEXT, v TEXT);
INSERT INTO app.plain VALUES (-1, 'd0', 'old');
INSERT INTO app.keyed VALUES (-1, 'd0', 'old');
INSERT INTO app.mine VALUES (-1, 'd0', 'old');
"""
_MANY = 9000
_QUERY = f"SELECT i AS id, 'd' || (i % 3) AS day, 'value ' || i AS v FROM range({_MANY}) r(i)"
_SMALL = Settings(sql=SqlSettings(result_bytes=1 << 14))


@pytest.fixture(autouse=True)
def _several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_process, "_BATCH_ROWS", 2048)


lake = lake_fixture(sql=_TABLES, settings=_SMALL)


def _rows(lake: Lakehouse, name: str) -> list[tuple[object, ...]]:
    user = "root" if name == "app.mine" else None
    found = lake.table(name).read(user=user).select(["id", "day", "v"])
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("app.plain", f"INSERT INTO app.plain {_QUERY}"),
        ("app.plain", f"INSERT INTO app.plain (day, id) SELECT day, id FROM ({_QUERY})"),
        ("app.plain", f"INSERT OVERWRITE app.plain {_QUERY}"),
        ("app.keyed", f"INSERT INTO app.keyed {_QUERY}"),
        ("app.keyed", f"INSERT OVERWRITE app.keyed {_QUERY}"),
        ("app.last", f"INSERT INTO app.last SELECT id // 2 AS id, day, v FROM ({_QUERY}) ORDER BY v"),
        ("app.mine", f"INSERT INTO app.mine {_QUERY}"),
        ("app.mine", f"INSERT OVERWRITE app.mine {_QUERY}"),
        ("app.new", f"CREATE TABLE app.new PARTITION BY (day) AS {_QUERY}"),
        ("app.new", f"CREATE TABLE app.new PRIMARY KEY (id) AS {_QUERY}"),
    ],
)
def test_the_outcome_is_that_of_a_result_in_memory(lake: Lakehouse, tmp_path: Path, name: str, text: str) -> None:
    with Lakehouse.open(str(tmp_path / "other")) as other:
        other.sql(_TABLES)
        (expected,) = other.sql(text)
        (found,) = lake.sql(text)
        assert found == expected
        if isinstance(found, AffectedRows) and isinstance(expected, AffectedRows):
            assert (found.strategy, found.pending_drain, found.version, found.warnings, found.strategy_reason) == (
                expected.strategy,
                expected.pending_drain,
                expected.version,
                expected.warnings,
                expected.strategy_reason,
            )
        assert _rows(lake, name) == _rows(other, name)
        assert len(_rows(lake, name)) >= _MANY // 2


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (f"INSERT INTO app.keyed {_QUERY} UNION ALL SELECT 5, 'd0', 'twice'", ConstraintViolation),
        (f"INSERT INTO app.keyed {_QUERY} UNION ALL SELECT -1, 'd0', 'live'", ConstraintViolation),
        (f"INSERT INTO app.plain {_QUERY} UNION ALL SELECT 1, 'd0', NULL", ConstraintViolation),
        (f"INSERT INTO app.plain (v) {_QUERY.replace('AS day', 'AS day, 1 AS more')}", InvalidArgument),
        (f"INSERT OVERWRITE app.keyed {_QUERY} UNION ALL SELECT 5, 'd0', 'twice'", ConstraintViolation),
        (f"INSERT INTO app.mine {_QUERY} UNION ALL SELECT 5, 'd0', 'twice'", ConstraintViolation),
        (f"CREATE TABLE app.new PRIMARY KEY (id) AS {_QUERY} UNION ALL SELECT 5, 'd0', 'twice'", ConstraintViolation),
    ],
)
def test_one_row_that_does_not_fit_refuses_all(lake: Lakehouse, text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        lake.sql(text)
    for name in ("app.plain", "app.keyed", "app.mine"):
        assert _rows(lake, name) == [(-1, "d0", "old")]
    (found,) = lake.sql("SELECT table_name FROM system.tables ORDER BY 1")
    assert isinstance(found, ResultRows)
    assert found.table.column(0).to_pylist() == ["keyed", "last", "mine", "plain"]


@pytest.mark.slow
def test_rows_with_references_to_files_are_written_by_parts(lake: Lakehouse) -> None:
    lake.sql(
        "CREATE SHARED TABLE app.filed (id BIGINT PRIMARY KEY, doc FILE);"
        " CREATE USER TABLE app.own (id BIGINT PRIMARY KEY, doc FILE)"
    )
    for name, user in (("app.filed", None), ("app.own", "root")):
        client = lake.table(name)
        client.put_file({"id": -1}, "doc", b"one", name="a.txt", user=user)
        copies = f"SELECT id, (SELECT doc FROM {name} WHERE id = -1) AS doc FROM range(400) r(id)"
        for text in (
            f"INSERT INTO {name} {copies}",
            f"INSERT INTO {name} {copies} ON CONFLICT DO UPDATE SET doc = excluded.doc",
            f"MERGE INTO {name} t USING ({copies}) s ON t.id = s.id WHEN MATCHED AND s.id > 10 THEN DELETE",
            f"INSERT OVERWRITE {name} {copies} UNION ALL FROM {name} WHERE id = -1",
        ):
            lake.sql(text)
            assert client.get_file({"id": 7}, "doc", user=user) == b"one", text
            assert client.get_file({"id": -1}, "doc", user=user) == b"one", text


def test_a_temporary_table_takes_what_its_own_bound_allows(warehouse_uri: str) -> None:
    bounds = SqlSettings(result_bytes=1 << 14, temporary_bytes=1 << 20)
    with Lakehouse.open(warehouse_uri, settings=Settings(sql=bounds)) as lake:
        lake.sql("CREATE NAMESPACE app")
        session = lake.session(user="root", role="system")
        session.sql("CREATE TEMPORARY TABLE app.held (id BIGINT PRIMARY KEY, v TEXT)")
        session.sql(f"INSERT INTO app.held SELECT id, v FROM ({_QUERY})")
        with pytest.raises(ConstraintViolation):
            session.sql(f"INSERT INTO app.held SELECT id + 8999, v FROM ({_QUERY})")
        session.sql(f"INSERT INTO app.held SELECT id + 9000, v FROM ({_QUERY})")
        with pytest.raises(Unsupported, match=r"sql\.temporary_bytes"):
            session.sql("INSERT INTO app.held SELECT id + 18000, repeat(v, 100) FROM app.held")
        (found,) = session.sql("SELECT count(*) AS n, sum(id) AS s FROM app.held")
        assert isinstance(found, ResultRows)
        assert found.to_pylist() == [{"n": 2 * _MANY, "s": sum(range(2 * _MANY))}]


@pytest.mark.slow
def test_a_dynamic_table_is_overwritten_by_the_partitions_that_come(lake: Lakehouse) -> None:
    lake.sql(
        "CREATE DYNAMIC TABLE app.d (id BIGINT, v TEXT, day TEXT) PARTITIONED BY (day);"
        " INSERT INTO app.d VALUES (-1, 'old', 'd0'), (-2, 'kept', 'e')"
    )
    lake.sql(f"INSERT OVERWRITE app.d SELECT id, v, day FROM ({_QUERY})")
    assert len(_rows(lake, "app.d")) == _MANY + 1
    lake.sql(f"INSERT OVERWRITE app.d PARTITION (day = 'e') SELECT id, v FROM ({_QUERY})")
    assert len(_rows(lake, "app.d")) == 2 * _MANY


@pytest.mark.slow
@pytest.mark.parametrize("flushed", [True, False])
def test_live_rows_whose_keys_are_on_disk_are_replaced(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch, flushed: bool) -> None:
    monkeypatch.setattr(SeenKeys.__init__, "__defaults__", (0,))
    lake.sql(f"INSERT INTO app.mine {_QUERY}")
    if flushed:
        lake.flush("app.mine")
    (done,) = lake.sql(f"INSERT OVERWRITE app.mine SELECT id + 5000 AS id, day, v FROM ({_QUERY})")
    assert isinstance(done, AffectedRows)
    assert done.rows == _MANY
    expected = [(number + 5000, f"d{number % 3}", f"value {number}") for number in range(_MANY)]
    assert _rows(lake, "app.mine") == expected
    lake.flush("app.mine")
    assert _rows(lake, "app.mine") == expected


def test_another_user_writes_after_the_keys_were_read(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    look = TableReader.first_of

    def beside(*args: object) -> object:
        found = look(*args)  # type: ignore[arg-type]
        looked.append(1)
        if len(looked) == 1:
            lake.table("app.keyed").write([{"id": 7, "day": "d0", "v": "theirs"}])
        return found

    monkeypatch.setattr(TableReader, "first_of", beside)
    with pytest.raises(ConstraintViolation, match="'id': 7"):
        lake.sql(f"INSERT INTO app.keyed {_QUERY}")
    assert len(looked) == 2
    assert _rows(lake, "app.keyed") == [(-1, "d0", "old"), (7, "d0", "theirs")]
    assert not [path for path in Path(lake.warehouse.uri).glob("**/staged/**/*") if path.is_file()], "what was staged is gone"


def test_an_insert_refuses_a_live_key_where_a_later_row_would_replace_an_earlier(lake: Lakehouse) -> None:
    client = lake.table("app.last")
    parts = [pa.table({"id": [1, 1, id_], "v": ["first", "last", "other"]}) for id_ in (2, 3)]
    client.write_parts(RowParts(lambda: iter(parts)), mode="insert")
    assert [row[0] for row in _rows(lake, "app.last")] == [1, 2, 3]
    with pytest.raises(ConstraintViolation, match="'id': 3"):
        client.write_parts(RowParts(lambda: iter([pa.table({"id": [4]}), pa.table({"id": [3]})])), mode="insert")
    assert [row[0] for row in _rows(lake, "app.last")] == [1, 2, 3]


def test_a_disk_that_is_full_is_said(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_options: object) -> object:
        return Path("/dev/full").open("r+b", buffering=0)

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(StorageUnavailable, match="nothing was written"):
        lake.sql(f"INSERT INTO app.plain {_QUERY}")
    assert _rows(lake, "app.plain") == [(-1, "d0", "old")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["app.plain", pytest.param("app.last", marks=pytest.mark.night)])
def test_memory_does_not_grow_with_the_result(tmp_path: Path, name: str) -> None:
    peaks = []
    for rows in (200_000, 2_000_000):
        code = "import sys; from tests.sql.test_large_results import insert_alone; insert_alone(*sys.argv[1:])"
        given = [sys.executable, "-c", code, str(tmp_path / str(rows)), name, str(rows)]
        peaks.append(int(subprocess.run(given, check=True, capture_output=True, text=True).stdout))
    # What is under way at once varies with the load by some 50 MiB; rows that are held take all of their bytes.
    assert peaks[1] < peaks[0] + (115 << 20), "half of 230 MiB more of rows"


def insert_alone(warehouse: str, name: str, rows: str) -> None:
    """In a process of its own: writes the most memory that it had."""
    small = Settings(sql=SqlSettings(result_bytes=8 << 20, memory_bytes=1 << 26), log=LogSettings(segment_max_bytes=4 << 20))
    with Lakehouse.open(warehouse, settings=small) as lake:
        lake.sql(_TABLES)
        lake.sql("ALTER TABLE app.plain SET TBLPROPERTIES (TARGET_FILE_SIZE = 4194304)")
        query = f"SELECT i AS id, 'd' AS day, repeat('x', 90) || i AS v FROM range({rows}) r(i)"
        (found,) = lake.sql(f"INSERT INTO {name} {query}")
        assert isinstance(found, AffectedRows)
        assert found.rows == int(rows)
    sys.stdout.write(str(peak_bytes()))
