"""Any direct writes on a partitioned table without a key do what they do to a list of rows; each version stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden import Column, Lakehouse
from lakewarden.log.once import WriterBatch
from lakewarden.tables.client import TableClient
from lakewarden.tables.direct.value import Decide, Edit
from tests.fixtures.examples import campaign

pytestmark = [pytest.mark.slow, pytest.mark.disk]

Row = tuple[int, int | None]
"""An id and a day."""
Rows = list[Row]
_ROWS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([None, 1, 2])), max_size=4)
_ID = st.integers(0, 3)
_DAY = st.sampled_from([1, 2])


@dataclass(frozen=True)
class Write:
    """A write, and what becomes of the rows by it. `number` is the write's in its sequence."""

    name: str
    run: Callable[[TableClient, int], object]
    model: Callable[[Rows], Rows]


def table_of(rows: Rows) -> pa.Table:
    ids, days = [row[0] for row in rows], [row[1] for row in rows]
    return pa.table({"id": pa.array(ids, pa.int64()), "day": pa.array(days, pa.int32())})


def changing(id_: int, new: Callable[[pa.Table], pa.Table]) -> Decide:
    def decide(rows: pa.Table) -> Edit:
        hit = pc.indices_nonzero(pc.equal(rows.column("id"), pa.scalar(id_))).cast(pa.int64())
        return Edit(hit, new(rows.take(hit).drop_columns(["_seq"])))

    return decide


def append(rows: Rows) -> Write:
    return Write(
        f"append {rows}",
        lambda table, n: table.direct.append([table_of(rows)], once=WriterBatch("m", n)),
        lambda old: old + rows,
    )


def overwrite(rows: Rows) -> Write:
    return Write(
        f"overwrite {rows}", lambda table, n: table.direct.overwrite([table_of(rows)], once=WriterBatch("m", n)), lambda _: rows
    )


def overwrite_day(ids: list[int], day: int) -> Write:
    rows: Rows = [(id_, day) for id_ in ids]
    return Write(
        f"overwrite day {day} by {ids}",
        lambda table, n: table.direct.overwrite([table_of(rows)], within=f"day = {day}", once=WriterBatch("m", n)),
        lambda old: [row for row in old if row[1] != day] + rows,
    )


def move(id_: int, day: int) -> Write:
    """To another partition."""

    def moved(rows: pa.Table) -> pa.Table:
        return rows.set_column(1, "day", pa.array([day] * rows.num_rows, pa.int32()))

    return Write(
        f"move {id_} to {day}",
        lambda table, n: table.direct.edit(changing(id_, moved), operation="UPDATE", predicate="", once=WriterBatch("m", n)),
        lambda old: [(row[0], day) if row[0] == id_ else row for row in old],
    )


def replace(id_: int, rows: Rows) -> Write:
    """Of one id, as of an object that is read again."""
    return Write(
        f"replace {id_} by {rows}",
        lambda table, n: table.direct.edit(
            changing(id_, lambda found: found.slice(0, 0)),
            operation="MERGE",
            predicate="",
            added=[table_of(rows)],
            once=WriterBatch("m", n),
        ),
        lambda old: [row for row in old if row[0] != id_] + rows,
    )


def delete_within(id_: int, day: int) -> Write:
    return Write(
        f"delete {id_} of day {day}",
        lambda table, n: table.direct.edit(
            changing(id_, lambda found: found.slice(0, 0)),
            operation="DELETE",
            predicate="",
            within=f"day = {day}",
            once=WriterBatch("m", n),
        ),
        lambda old: [row for row in old if row != (id_, day)],
    )


_WRITES = st.lists(
    st.one_of(
        st.builds(append, _ROWS),
        st.builds(overwrite, _ROWS),
        st.builds(overwrite_day, st.lists(_ID, max_size=2), _DAY),
        st.builds(move, _ID, _DAY),
        st.builds(replace, _ID, _ROWS),
        st.builds(delete_within, _ID, _DAY),
    ),
    min_size=1,
    max_size=7,
)


def found(table: TableClient, version: int | None = None) -> Rows:
    return ordered([(row["id"], row["day"]) for row in table.read(version=version).to_pylist()])


def ordered(rows: Rows) -> Rows:
    return sorted(rows, key=str)


@pytest.mark.parametrize("again", [False, True], ids=["once", "each twice"])
@campaign(15, gate=6)
@given(writes=_WRITES)
def test_writes_do_what_they_do_to_a_list(again: bool, writes: list[Write]) -> None:
    with TemporaryDirectory() as place, Lakehouse.open(str(Path(place) / "w")) as lake:
        lake.create_namespace("app")
        columns = [Column("id", "BIGINT"), Column("day", "INT")]
        table = lake.create_table("app.t", type="SHARED", columns=columns, primary_key=[], partition_by=["day"])
        rows: Rows = []
        past: dict[int, Rows] = {}
        for number, write in enumerate(writes):
            write.run(table, number)
            rows = write.model(rows)
            assert found(table) == ordered(rows), write.name
            past[number + 1] = ordered(rows)
            if again:
                write.run(table, number)
                lake.optimize("app.t")
                assert found(table) == ordered(rows), write.name
        if not again:
            assert {version: found(table, version) for version in past} == past
        assert not [finding for finding in lake.check() if not finding.passed]
