"""What operations on a pipeline's table do to its ledger, its rule and its rejects, and what they leave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.errors import FailedPrecondition, InUse
from tests.ingest.pipelines.uploads import ingest, make, place, rejects, rows, table, upload
from tests.maintenance.steps import Died, dies

A = "id,name\n1,a\n2,b\n"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "w")) as opened:
        make(opened)
        yield opened


def test_a_table_without_a_schema_is_described_and_cannot_be_read(lake: Lakehouse) -> None:
    assert rows(lake, "DESCRIBE n.t") == []
    with pytest.raises(FailedPrecondition, match="schema not materialized yet"):
        table(lake)
    upload(lake, {"a.csv": A})
    ingest(lake)
    assert [row["column_name"] for row in rows(lake, "DESCRIBE n.t")] == ["id", "name"]


@pytest.mark.slow
def test_a_move_takes_the_ledger_along(lake: Lakehouse, tmp_path: Path) -> None:
    """A batch is open while the table moves."""
    upload(lake, {"a.csv": A})
    ingest(lake)
    upload(lake, {"a.csv": "id,name\n1,new\n", "b.csv": "id,name\n3,c\n"})
    with pytest.raises(Died):
        ingest(lake, reach=dies("ingest:named"))
    lake.sql(f"CREATE STORAGE other TYPE filesystem BASE_DIRECTORY '{tmp_path / 'other'}'")
    lake.move("n.t", to="other")
    assert (ingest(lake).ingested, ingest(lake).batches) == (2, 0)
    assert table(lake) == [(1, "new"), (3, "c")]
    upload(lake, {"b.csv": "id,name\n4,d\n"})
    ingest(lake)
    assert table(lake) == [(1, "new"), (4, "d")]


def test_a_restore_takes_rows_back_and_nothing_brings_them_but_a_trigger(lake: Lakehouse) -> None:
    upload(lake, {"a.csv": A})
    ingest(lake)
    upload(lake, {"b.csv": "id,name\n3,c\n"})
    ingest(lake)
    lake.restore("n.t", version=0, dry_run=False)
    assert ingest(lake).batches == 0
    assert table(lake) == [(1, "a"), (2, "b")]
    ingest(lake, "b.csv")
    assert table(lake) == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.slow
def test_a_dropped_table_leaves_its_rejects_and_the_next_one_has_its_own(lake: Lakehouse) -> None:
    upload(lake, {"a.csv": A, "bad.csv": "id,name\n1\n"})
    ingest(lake)
    lake.sql("DROP TABLE n.t")
    assert list(rejects(lake)) == ["bad.csv"]
    with pytest.raises(InUse, match=r"n\.t_rejects"):
        lake.sql("DROP NAMESPACE n")
    (place(lake) / "bad.csv").unlink()
    lake.sql("CREATE SHARED TABLE n.t FROM TEMPLATE csv")
    ingest(lake)
    assert lake.pipelines.standing_rejects("n.t") == [], "those of the other pipeline do not stand against this one"
    lake.sql("DROP NAMESPACE n CASCADE")
    assert [rows(lake, f"SHOW {what}") for what in ("PIPELINES", "RULES")] == [[], []]
    lake.sql("CREATE NAMESPACE n")
    lake.sql("CREATE SHARED TABLE n.t FROM TEMPLATE csv")
    assert ingest(lake).ingested == 1


def test_an_erasure_leaves_uploads_and_the_ledger_names_nobody(lake: Lakehouse) -> None:
    """As the rows of SHARED tables, the keys of uploads belong to no user; a batch names them until it is finished."""
    upload(lake, {"annabel/a.csv": A})
    with pytest.raises(Died):
        ingest(lake, reach=dies("ingest:batch"))
    lake.erase("annabel", even_if_unknown=True)
    ingest(lake)
    assert lake.erase("annabel", even_if_unknown=True).result == "complete"
    ledger = Path(lake.warehouse.uri, "_lakewarden", "pipelines")
    kept = [path.read_bytes() for path in ledger.rglob("*") if path.is_file()]
    assert kept
    assert not any(b"annabel" in data for data in kept)
    assert (place(lake) / "annabel" / "a.csv").exists()
    assert table(lake) == [(1, "a"), (2, "b")]


def test_an_export_has_no_part_of_it(lake: Lakehouse) -> None:
    upload(lake, {"a.csv": A})
    ingest(lake)
    lake.sql("EXPORT USER DATA")
    upload(lake, {"a.csv": "id,name\n7,x\n"})
    assert (ingest(lake).ingested, table(lake)) == (1, [(7, "x")])
