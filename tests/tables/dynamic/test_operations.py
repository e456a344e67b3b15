"""What is there for every table works for dynamic ones: plans, jobs, versions, columns, moves, checks and rights."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.catalog.buckets import bucket_named
from lakewarden.catalog.evolution import AddColumn, RenameColumn
from lakewarden.errors import Ended, PermissionDenied
from lakewarden.sql.results import ResultRows

Listed = list[tuple[object, ...]]


def rows(lake: Lakehouse) -> Listed:
    return sorted(tuple(row.values()) for row in lake.table("n.every").read().to_pylist())


def write(lake: Lakehouse, first: int, last: int, value: int) -> None:
    lake.table("n.every").write([{"dt": "xy"[key % 2], "id": key, "v": value} for key in range(first, last)])


@pytest.mark.slow
def test_operations_keep_rows_and_buckets(warehouse_uri: str, tmp_path: Path) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql(
            "CREATE NAMESPACE n; CREATE DYNAMIC TABLE n.every (dt TEXT, id INT, v INT, PRIMARY KEY (dt, id)) PARTITIONED BY (dt)"
            " WITH ('bucket' = '2')"
        )
        write(lake, 0, 40, 1)
        assert [report.outcome for report in lake.apply(lake.plan("flush", "n.every"))] == ["done"]
        write(lake, 20, 60, 2)
        job = lake.enqueue("flush", "n.every")
        assert [done.status for done in lake.run_jobs([job.job_id])] == ["completed"]
        wanted = rows(lake)
        assert [(len(wanted), wanted[0], wanted[-1])] == [(60, ("x", 0, 1), ("y", 59, 2))]
        kept = lake.table("n.every").history()[0].version
        write(lake, 0, 5, 9)
        lake.sql("STORAGE FLUSH TABLE n.every; ALTER TABLE n.every COMPACT; VACUUM n.every DRY RUN")
        assert [report.outcome for report in lake.restore("n.every", version=kept, dry_run=False)] == ["done"]
        assert rows(lake) == wanted
        lake.alter_table("n.every", AddColumn(Column("note", "TEXT")))
        lake.alter_table("n.every", RenameColumn("v", "value"))
        lake.sql("ALTER TABLE n.every RENAME COLUMN id TO number")
        lake.sql(f"CREATE STORAGE other TYPE filesystem PATH '{tmp_path / 'other'}'; STORAGE MOVE TABLE n.every TO other")
        lake.sql("INSERT INTO n.every VALUES ('x', 100, 3, 'moved'); STORAGE FLUSH TABLE n.every")
        assert rows(lake) == sorted([*((*row, None) for row in wanted), ("x", 100, 3, "moved")], key=lambda row: row[:2])
        moved = list((tmp_path / "other").rglob("*.parquet"))
        assert {bucket_named(path.name) for path in moved if "_delta_log" not in path.parts} == {0, 1}
        assert [finding for finding in lake.check() if not finding.passed] == []
        (described,) = lake.sql("DESCRIBE TABLE EXTENDED n.every")
        assert isinstance(described, ResultRows)
        assert described.to_pylist()[0]["file.path"] == str(tmp_path / "other" / "n" / "every")
        with pytest.raises(PermissionDenied):
            lake.session(user="ann", role="user").sql("SELECT * FROM n.every")
        lake.sql("ALTER TABLE n.every SET ACCESS LEVEL PUBLIC")
        assert len(lake.session(user="ann", role="user").sql("SELECT * FROM n.every")) == 1


@pytest.mark.slow
def test_an_export_and_an_erasure_of_a_user_leave_it_as_it_is(warehouse_uri: str, tmp_path: Path) -> None:
    """It is shared: what it says of a user, in values, names of partitions, buckets and kept changes, is counted and stays."""
    ann = "ann-7f3a"
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql(
            "CREATE NAMESPACE n; CREATE USER TABLE n.notes (id INT PRIMARY KEY, v INT);"
            " CREATE DYNAMIC TABLE n.every (dt TEXT, id INT, v INT, PRIMARY KEY (dt, id)) PARTITIONED BY (dt)"
            " WITH ('bucket' = '2')"
        )
        notes, every = lake.table("n.notes"), lake.table("n.every")
        for value in (1, 2):  # the second replaces, so rows from before are kept
            for user in (ann, "bob"):
                notes.write([{"id": 1, "v": value}], user=user)
            every.write([{"dt": ann, "id": id_, "v": value} for id_ in range(8)])
            lake.flush()
        every.write([{"dt": "x", "id": 1, "v": 3}])
        wanted, said = rows(lake), every.changes(after=-1).rows
        exported = lake.export(ann, str(tmp_path / "out"))
        assert [table.name for table in exported.tables] == ["n.notes"]
        certificate = lake.erase(ann, deep=True)
        assert certificate.coincidences > 0, "values of others' rows"
        assert lake.verify_erased(ann, deep=True).findings == ()
        assert rows(lake) == wanted
        assert every.changes(after=-1).rows.equals(said)
        assert [row["v"] for row in notes.changes(after=-1, user="bob").rows.to_pylist()] == [1, 1, 2]
        with pytest.raises(Ended):
            notes.changes(after=-1)
        trail = lake.warehouse.log(notes.table).trail(-1)
        assert {each.user for each in trail.every_range(-1)} == {"bob"}, "nothing of her is kept for subscribers"
        lake.sql(f"INSERT OVERWRITE n.every PARTITION (dt = '{ann}') SELECT id, v FROM n.every WHERE false")
        lake.sql("STORAGE FLUSH TABLE n.every")
        assert rows(lake) == [("x", 1, 3)]
        assert [finding for finding in lake.check() if not finding.passed] == []
