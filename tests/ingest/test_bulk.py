"""Loads of many bytes: tasks write the data files, one commit adds them; by key, all rows are staged and named at once."""

from __future__ import annotations

import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from benchmarks.measuring.memory import peak_bytes
from lakewarden import Column, Lakehouse
from lakewarden.base.scope import Scope, TableName
from lakewarden.base.setting_sections import LoadSettings, LogSettings, MaintenanceSettings
from lakewarden.base.settings import Settings
from lakewarden.errors import FailedPrecondition, InvalidArgument, RowsRejected, StorageUnavailable, Unsupported
from lakewarden.ingest.load_run import Load, LoadRequest
from lakewarden.ingest.load_sources import LoadReport
from lakewarden.log.objects.put import Puts
from lakewarden.log.once import Resume
from lakewarden.log.position import PartlyAppended
from lakewarden.tables.fanout import run_here
from tests.fixtures.bucket import BucketPath, path_of
from tests.fixtures.lakes import lake_fixture
from tests.ingest.kills import dies_before_change
from tests.maintenance.steps import Died, later

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TINY = Settings(load=LoadSettings(piece_bytes=1 << 10, in_process_bytes=0), log=LogSettings(segment_max_rows=100))
_COLUMNS = [Column("id", "BIGINT", nullable=False), Column("kind", "TEXT"), Column("name", "TEXT", default="'none'")]


def make_tables(lake: Lakehouse) -> None:
    lake.create_namespace("n")
    lake.create_table("n.plain", columns=_COLUMNS)
    lake.create_table("n.parted", columns=_COLUMNS, partition_by=["kind"])
    lake.create_table("n.keyed", columns=_COLUMNS, primary_key=["id"])
    lake.create_table("n.mine", type="USER", columns=_COLUMNS, primary_key=["id"])


lake = lake_fixture(make_tables, settings=_TINY)


@pytest.fixture
def lines(tmp_path: Path) -> str:
    """250 rows in some five pieces."""
    path = tmp_path / "lines.csv"
    path.write_text("id,kind\n" + "".join(f'{number},"k{number % 3}\n%"\n' for number in range(250)))
    return str(path)


def load(
    lake: Lakehouse,
    table: str,
    *paths: str,
    once: str | None = None,
    user: str | None = None,
    resume: Resume | None = None,
) -> LoadReport:
    """With tasks as Spark runs them, in threads of this process."""
    request = LoadRequest(paths, user=user, once=once, resume=resume)
    return Load(lake.table(table), request, run_here).run()


def place_of(lake: Lakehouse, table: str) -> Path | BucketPath:
    return path_of(lake.warehouse.target(lake.warehouse.catalog.read(), Scope(TableName.parse(table), None)).uri)


def _files(place: Path | BucketPath) -> list[str]:
    """Data files, and what was to become some."""
    return [str(path) for ending in ("parquet", "arrow") for path in place.rglob(f"*.{ending}")]


def ids(lake: Lakehouse, table: str, user: str | None = None) -> list[int]:
    return sorted(int(str(number)) for number in lake.table(table).read(user=user).column("id").to_pylist())


@pytest.mark.parametrize("table", ["n.plain", "n.parted"])
def test_tasks_write_the_files_of_one_commit(lake: Lakehouse, lines: str, table: str) -> None:
    report = load(lake, table, lines)
    assert (report.rows, report.version, report.repeated) == (250, 1, False)
    delta = DeltaTable(str(place_of(lake, table)))
    assert len(delta.file_uris()) == 3 if table == "n.parted" else len(delta.file_uris()) >= 3
    found = delta.to_pyarrow_table()
    assert [row["id"] for row in sorted(found.to_pylist(), key=lambda row: int(row["_seq"]))] == [*range(250)]
    assert len(set(found.column("_seq").to_pylist())) == 250
    assert set(found.column("kind").to_pylist()) == {"k0\n%", "k1\n%", "k2\n%"}
    assert not [finding for finding in lake.check() if not finding.passed]


@pytest.mark.parametrize("table", ["n.plain", "n.parted"])
@pytest.mark.parametrize("mode", ["refuse", "stop"])
def test_rejected_rows_leave_no_file_and_no_version(lake: Lakehouse, lines: str, tmp_path: Path, mode: str, table: str) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("id,kind\n" + "1,a\n" * 400 + "x,b\n")
    request = LoadRequest((lines, str(bad)), on_reject="refuse" if mode == "refuse" else "stop")
    with pytest.raises(RowsRejected, match="nothing was loaded") as refused:
        Load(lake.table(table), request, run_here).run()
    assert [(one.file, one.line) for one in refused.value.rejects] == [(str(bad), 402)]
    assert _files(place_of(lake, table)) == []
    assert ids(lake, table) == []


@pytest.mark.parametrize("table", ["n.plain", "n.parted"])
def test_a_task_that_fails_takes_the_files_of_the_others_along(lake: Lakehouse, lines: str, tmp_path: Path, table: str) -> None:
    broken = tmp_path / "z.csv"
    broken.write_text("id,kind\n" + "1,a\n" * 400 + '2,"open\n')
    with pytest.raises(InvalidArgument, match="never closed"):
        load(lake, table, lines, str(broken))
    assert _files(place_of(lake, table)) == []


def test_a_named_load_is_made_once(lake: Lakehouse, lines: str) -> None:
    first, again = load(lake, "n.plain", lines, once="a"), load(lake, "n.plain", lines, once="a")
    assert (first.rows, first.repeated, again.rows, again.repeated, again.version) == (250, False, 0, True, first.version)
    assert load(lake, "n.plain", lines, once="b").rows == 250
    with pytest.raises(Unsupported, match="written by key"):
        load(lake, "n.keyed", lines, once="a")


@pytest.mark.slow
@pytest.mark.disk
@pytest.mark.parametrize("table", ["n.parted", "n.keyed", "n.mine"])
def test_killed_before_any_change_and_repeated(warehouse_uri: str, lines: str, table: str) -> None:
    with Lakehouse.open(warehouse_uri, settings=_TINY) as lake:
        make_tables(lake)
    user, once = ("u" if table == "n.mine" else None), ("a" if table == "n.parted" else None)
    for number in count():
        with pytest.MonkeyPatch.context() as patch, Lakehouse.open(warehouse_uri, settings=_TINY) as dying:
            dies_before_change(patch, number)
            try:
                load(dying, table, lines, once=once, user=user)
                break
            except Died:
                pass
        with Lakehouse.open(warehouse_uri, settings=_TINY) as lake:
            assert ids(lake, table, user) in ([], [*range(250)])
    assert number >= 5
    with Lakehouse.open(warehouse_uri, settings=_TINY) as lake:
        load(lake, table, lines, once=once, user=user)
        assert ids(lake, table, user) == [*range(250)]
        lake.flush()
        assert ids(lake, table, user) == [*range(250)]
        assert not [finding for finding in lake.check() if not finding.passed]


def test_vacuum_removes_what_a_dead_load_wrote(warehouse_uri: str, lines: str) -> None:
    with Lakehouse.open(warehouse_uri, settings=_TINY) as lake:
        make_tables(lake)
    with pytest.MonkeyPatch.context() as patch, Lakehouse.open(warehouse_uri, settings=_TINY) as dying:
        patch.setattr("lakewarden.tables.direct.commit.DirectCommit._commit", _dead)
        patch.setattr("lakewarden.tables.direct.outputs.Outputs.discard", lambda *_given: None)
        with pytest.raises(Died):
            load(dying, "n.parted", lines)
    with Lakehouse.open(warehouse_uri, settings=_TINY, clock=later(days=30)) as lake:
        place = place_of(lake, "n.parted")
        assert [*place.rglob("*.parquet")]
        assert ids(lake, "n.parted") == []
        lake.vacuum("n.parted", look=True, dry_run=False)
        assert [*place.rglob("*.parquet")] == []


def _dead(*_given: object) -> None:
    raise Died("commit")


def test_rows_of_many_users_are_reported_by_user_where_it_stops(lake: Lakehouse, tmp_path: Path) -> None:
    path = tmp_path / "users.csv"
    path.write_text("id,tenant\n" + "".join(f"{number},u{number // 60}\n" for number in range(300)))
    request = LoadRequest((str(path),), user_column="tenant")
    whole = Load(lake.table("n.mine"), request, run_here)
    put, puts = Puts.put, count()

    def fails(self: Puts, *given: object) -> int:
        if next(puts) == 1:
            raise StorageUnavailable("the disk is gone")
        return put(self, *given)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Puts, "put", fails)
        with pytest.raises(PartlyAppended, match="load again, which replaces rows by their keys") as stopped:
            whole.run()
    done = [f"u{number}" for number in range(5) if len(ids(lake, "n.mine", f"u{number}")) == 60]
    assert stopped.value.users == {*done}
    assert 0 < stopped.value.rows < 300
    assert len(done) in range(1, 5)
    assert whole.run().rows == 300
    assert all(len(ids(lake, "n.mine", f"u{number}")) == 60 for number in range(5))


@pytest.mark.slow
def test_in_tasks_of_spark(warehouse_uri: str, lines: str, spark: SparkSession) -> None:
    with Lakehouse.open(warehouse_uri, settings=_TINY, spark=lambda: spark) as lake:
        make_tables(lake)
        report = lake.load("n.parted", lines)
        assert (report.rows, report.version) == (250, 1)
        assert ids(lake, "n.parted") == [*range(250)]
        files = len(_files(place_of(lake, "n.parted")))
        assert files == 3, "one for each partition"
        with pytest.raises(RowsRejected, match="1 of 251 rows do not fit"):
            lake.load("n.parted", [lines, _bad(Path(lines).parent)])
        assert len(_files(place_of(lake, "n.parted"))) == files
        assert not [finding for finding in lake.check() if not finding.passed]


def _bad(directory: Path) -> str:
    path = directory / "bad.csv"
    path.write_text("id,kind\nx,a\n")
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize("table", ["n.plain", "n.mine"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, table: str) -> None:
    peaks: list[int] = []
    for groups in (8, 104):  # the buffers of Arrow and of the engine are full behind the first few
        path = tmp_path / f"{groups}.parquet"
        rows = pa.table({"id": pa.array(range(1 << 16)), "name": pa.array(["x" * 30] * (1 << 16))})
        with pq.ParquetWriter(path, rows.schema) as writer:
            for _ in range(groups):
                writer.write_table(rows)
        peaks.append(_peak_of_load(tmp_path / f"w{groups}", table, path))
    # What is under way at once varies with the load by some 50 MiB; rows that are held take all of their bytes.
    assert peaks[1] < peaks[0] + (115 << 20), "half of 230 MiB more of rows"


def _peak_of_load(warehouse: Path, table: str, path: Path) -> int:
    """Bytes that a process has in memory at most."""
    code = "import sys; from tests.ingest.test_bulk import load_alone; load_alone(*sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(warehouse), table, str(path)], check=True, capture_output=True, text=True
    )
    return int(done.stdout)


def load_alone(warehouse: str, table: str, path: str) -> None:
    """In a process of its own: writes the most memory that it had."""
    small = Settings(
        load=LoadSettings(piece_bytes=1 << 20, in_process_bytes=0),
        log=LogSettings(segment_max_bytes=4 << 20),
        maintenance=MaintenanceSettings(target_file_size=4 << 20),
    )
    with Lakehouse.open(warehouse, settings=small) as lake:
        make_tables(lake)
        load(lake, table, path, user="u" if table == "n.mine" else None)
    sys.stdout.write(str(peak_bytes()))


@pytest.mark.disk
def test_a_named_load_whose_rows_a_repair_lost_is_made_again_on_request(lake: Lakehouse, lines: str) -> None:
    load(lake, "n.plain", lines, once="a")
    for file in place_of(lake, "n.plain").rglob("*.parquet"):
        file.unlink()
    (one,) = (one for one in lake.repair("n.plain") if one.writers_uncertain)
    assert [writer.name for writer in one.writers_uncertain] == ["load/a"]
    with pytest.raises(FailedPrecondition, match="load/a"):
        load(lake, "n.plain", lines, once="a")
    assert load(lake, "n.plain", lines, once="a", resume="repeat").rows == 250
    assert load(lake, "n.plain", lines, once="a", resume="repeat").repeated
