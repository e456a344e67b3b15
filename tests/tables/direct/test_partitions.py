"""Direct writes of partitioned tables: they replace and read single partitions, and yield only to changes of those."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakewarden import Column, Lakehouse
from lakewarden.catalog.evolution import AddColumn
from lakewarden.delta.reading.bounds import Bound
from lakewarden.errors import ConstraintViolation, InvalidArgument
from lakewarden.maintenance.engine import WorkEngine, silent
from lakewarden.tables.client import TableClient
from lakewarden.tables.direct.commit import DirectWrite
from lakewarden.tables.direct.revise import Revise, Spread
from lakewarden.tables.direct.run import DirectRun
from lakewarden.tables.direct.value import Decide, Edit
from tests.fixtures.change_data import counted, fed
from tests.fixtures.lakes import lake_fixture
from tests.maintenance.steps import then
from tests.tables.direct.boards import once, setting

SALES = "chat.sales"


lake = lake_fixture()


@pytest.fixture
def sales(lake: Lakehouse) -> TableClient:
    """A row in each of three partitions, and one without a value."""
    lake.create_namespace("chat")
    columns = [Column("id", "BIGINT"), Column("text", "TEXT"), Column("day", "INT")]
    table = lake.create_table(SALES, type="SHARED", columns=columns, primary_key=[], partition_by=["day"])
    table.direct.append([rows((1, "a", 1), (2, "b", 2), (3, "c", 3), (4, "d", None))])
    return table


def rows(*found: tuple[int, str, int | None]) -> pa.Table:
    ids, texts, days = zip(*found, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "text": pa.array(texts), "day": pa.array(days, pa.int32())})


def texts(table: TableClient) -> dict[int, str]:
    return {row["id"]: row["text"] for row in table.read().to_pylist()}


@pytest.mark.slow
def test_an_overwrite_replaces_the_partitions_that_a_condition_names(sales: TableClient) -> None:
    did = sales.direct.overwrite([rows((5, "new", 2))], within="day >= 2")
    assert (did.rows_deleted, did.rows_inserted) == (2, 1)
    assert texts(sales) == {1: "a", 4: "d", 5: "new"}
    assert sales.history(limit=1)[0].parameters == {"mode": "Overwrite", "predicate": "day >= 2"}


def test_an_overwrite_refuses_rows_of_other_partitions_and_conditions_on_other_columns(
    lake: Lakehouse, sales: TableClient
) -> None:
    with pytest.raises(ConstraintViolation, match="day = 7"):
        sales.direct.overwrite([rows((5, "new", 7))], within="day = 2")
    with pytest.raises(InvalidArgument, match="not a partition column"):
        sales.direct.overwrite([], within="id = 2")
    assert len(texts(sales)) == 4
    assert not [finding.message for finding in lake.check() if "no commit names" in finding.message]


def test_an_edit_reads_the_partitions_within_and_moves_rows_to_others(sales: TableClient) -> None:
    seen: list[object] = []

    def decide(found: pa.Table) -> Edit:
        seen.extend(found.column("id").to_pylist())
        moved = found.drop_columns(["_seq"]).set_column(2, "day", pa.array([9] * found.num_rows, pa.int32()))
        return Edit(pa.array(range(found.num_rows), pa.int64()), moved)

    sales.direct.edit(decide, operation="UPDATE", predicate="day = 2", within="day = 2")
    assert seen == [2]
    assert {row["id"]: row["day"] for row in sales.read().to_pylist()} == {1: 1, 2: 9, 3: 3, 4: None}


@pytest.mark.parametrize(("day", "runs"), [(3, 1), (2, 2)])
def test_an_update_runs_again_only_where_a_partition_that_it_read_was_changed(
    lake: Lakehouse, sales: TableClient, day: int, runs: int
) -> None:
    ran: list[None] = []

    def decide(found: pa.Table) -> Edit:
        ran.extend([None] * (2 in found.column("id").to_pylist()))
        return setting("new", 2, 8)(found)

    def other() -> None:
        sales.direct.append([rows((8, "late", day))])

    write = DirectWrite("UPDATE", Revise(decide, [Bound("day", 2, 2)]), (), {"predicate": "day = 2"})
    DirectRun(lake.warehouse, sales.table, write, then("direct:committing", once(other))).run()
    assert len(ran) == runs
    assert texts(sales)[2] == "new"
    assert texts(sales)[8] == ("new" if day == 2 else "late"), "what came into the partition is changed too"


def spread(lake: Lakehouse, decide: Decide) -> Spread:
    """Tasks for files of any size, in this process."""
    run = WorkEngine(lake.warehouse.settings, silent, None).run
    return Spread(run, decide, 0, decide, lake.warehouse.clock(), lake.warehouse.clock)


def test_tasks_change_files_side_by_side_with_numbers_of_their_own(lake: Lakehouse, sales: TableClient) -> None:
    change = setting("new", 1, 2, 4)
    did = sales.direct.edit(spread(lake, change), operation="UPDATE", predicate="", within="day > 0")
    assert (did.rows_updated, did.rows_deleted) == (2, 0)
    assert texts(sales) == {1: "new", 2: "new", 3: "c", 4: "d"}
    seqs = [row["_seq"] for row in stranger_rows(sales)]
    assert len(set(seqs)) == 4
    assert not [finding for finding in lake.check() if not finding.passed]


@pytest.mark.slow
@pytest.mark.usefixtures("sales")
def test_a_change_data_feed_has_what_tasks_change_and_nothing_of_a_run_that_lost(lake: Lakehouse) -> None:
    lake.sql(f"ALTER TABLE {SALES} SET TBLPROPERTIES (CHANGE_DATA_FEED = on)")
    table = lake.table(SALES)
    uri, change = table.reader.target(None).uri, setting("new", 1, 2, 4)
    table.direct.edit(spread(lake, change), operation="UPDATE", predicate="", within="day > 0")
    assert sorted(fed(uri, DeltaTable(uri).version(), ["id", "text"])) == [
        *(("update_postimage", (id_, "new")) for id_ in (1, 2)),
        *(("update_preimage", (id_, text)) for id_, text in ((1, "a"), (2, "b"))),
    ]

    def other() -> None:
        table.direct.append([rows((8, "late", 2))])

    write = DirectWrite("UPDATE", Revise(setting("last", 2, 8), [Bound("day", 2, 2)]), (), {"predicate": "day = 2"})
    DirectRun(lake.warehouse, table.table, write, then("direct:committing", once(other))).run()
    assert counted(fed(uri, DeltaTable(uri).version(), ["id"])) == {"update_preimage": 2, "update_postimage": 2}
    assert not [finding.message for finding in lake.check() if "no commit names" in finding.message]


@pytest.mark.slow
@pytest.mark.usefixtures("sales")
def test_a_change_data_feed_has_what_an_overwrite_removes_and_nothing_of_the_files_that_it_brings_to_new_columns(
    lake: Lakehouse,
) -> None:
    lake.sql(f"ALTER TABLE {SALES} SET TBLPROPERTIES (CHANGE_DATA_FEED = on)")
    lake.alter_table(SALES, AddColumn(Column("n", "INT", nullable=False, default="7")))
    table = lake.table(SALES)
    new = rows((5, "new", 2)).append_column("n", pa.array([8], pa.int32()))
    table.direct.overwrite([new], within="day = 2")
    uri = table.reader.target(None).uri
    assert sorted(fed(uri, DeltaTable(uri).version(), ["id", "text"])) == [("delete", (2, "b")), ("insert", (5, "new"))]
    assert {row["id"]: row["n"] for row in table.read().to_pylist()} == {1: 7, 3: 7, 4: 7, 5: 8}


def test_a_task_that_fails_ends_the_write_and_leaves_no_file(lake: Lakehouse, sales: TableClient) -> None:
    def decide(found: pa.Table) -> Edit:
        if 2 in found.column("id").to_pylist():
            raise ConstraintViolation("this one does not fit")
        return setting("new", 1, 3)(found)

    with pytest.raises(ConstraintViolation, match="does not fit"):
        sales.direct.edit(spread(lake, decide), operation="UPDATE", predicate="")
    assert texts(sales) == {1: "a", 2: "b", 3: "c", 4: "d"}
    assert not [finding.message for finding in lake.check() if "no commit names" in finding.message]


def stranger_rows(table: TableClient) -> list[dict[str, int]]:
    return list(DeltaTable(table.reader.target(None).uri).to_pyarrow_table().to_pylist())
