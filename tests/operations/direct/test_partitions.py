"""Direct writes of partitioned tables: they replace and read single partitions, and yield only to changes of those."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakewarden import Column, Lakehouse
from lakewarden.delta.reading.bounds import Bound
from lakewarden.errors import ConstraintViolation, InvalidArgument
from lakewarden.operations.direct.commit import DirectWrite
from lakewarden.operations.direct.revise import Revise
from lakewarden.operations.direct.run import DirectRun
from lakewarden.operations.direct.value import Edit
from lakewarden.table import TableClient
from tests.operations.direct.boards import setting
from tests.operations.direct.test_keyless import once
from tests.operations.steps import then

SALES = "chat.sales"


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    with Lakehouse.open(warehouse_uri) as opened:
        yield opened


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
    with pytest.raises(InvalidArgument, match="no partition column"):
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
