"""An overwrite takes its position long before it commits: the images of writes that meet it are the rows before them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from threading import Event, Thread
from types import SimpleNamespace

import pyarrow as pa
import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.faults import Reach
from lakewarden.delta.commit_log.stamp import SILENT
from lakewarden.errors import Conflict, ConstraintViolation
from lakewarden.tables.client import TableClient
from lakewarden.tables.direct import barrier
from lakewarden.tables.direct.commit import DirectWrite
from lakewarden.tables.direct.effects import Replace
from lakewarden.tables.direct.run import DirectRun
from tests.fixtures.clock import Clock
from tests.fixtures.lakes import lake_fixture
from tests.fixtures.patience import PATIENCE
from tests.fixtures.sleepers import Sleeper
from tests.maintenance.steps import Died, dies
from tests.tables.images.held import ALL, held_after, listed, live, make, rows
from tests.tables.images.test_images import _WRITES

Begin = Callable[[Callable[[], object]], Thread]

_OVER = pa.Table.from_pylist(rows({1: "silent", 9: "silent"}))


lake = lake_fixture(clock=True)


@pytest.fixture
def other(lake: Lakehouse, clock: Clock) -> Iterator[Lakehouse]:
    """As another process."""
    with Lakehouse.open(lake.warehouse.uri, clock=clock) as opened:
        yield opened


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Begin:
    """Begins a write, and returns when it has looked twice for the commit of an overwrite, in vain."""
    looked, in_vain = Event(), Event()

    def pause(_: float) -> None:
        (in_vain if looked.is_set() else looked).set()
        time.sleep(0.001)

    def begun(write: Callable[[], object]) -> Thread:
        writer = Thread(target=write, daemon=True)
        writer.start()
        while writer.is_alive() and not in_vain.wait(0.005):
            pass
        assert writer.is_alive(), "it did not wait"
        return writer

    monkeypatch.setattr(barrier, "time", SimpleNamespace(monotonic=time.monotonic, sleep=pause))
    return begun


def _overwrite(table: TableClient, within: str = "", given: pa.Table = _OVER) -> Callable[[Reach], object]:
    parameters = {"mode": "Overwrite", **SILENT} | ({"predicate": within} if within else {})
    write = DirectWrite("WRITE", Replace(within), [given], parameters, again=0)
    return lambda reach: DirectRun(table.warehouse, table.table, write, reach).run()


def _filled(lake: Lakehouse, **options: str) -> TableClient:
    table = make(lake, **options)
    table.write(rows({1: "a", 2: "a"}))
    lake.flush("n.t")
    return table


@pytest.mark.parametrize("how", _WRITES)
def test_an_overwrite_that_has_only_its_position_is_refused_where_others_wrote(
    lake: Lakehouse, other: Lakehouse, how: str
) -> None:
    table = _filled(lake)
    held, upto = live(table), table.changes().upto
    sleeper = Sleeper(_overwrite(other.table("n.t")), "direct:written")
    _WRITES[how](table, rows({1: "b", 3: "b"}))
    sleeper.wake()
    assert isinstance(sleeper.error, Conflict)
    assert "try again" in sleeper.error.message
    assert lake.warehouse.log(table.table).direct_upto() is None, "it holds nobody back"
    _WRITES[how](table, rows({1: "c", 9: "c"}))
    assert held_after(table.changes(after=upto), held) == live(table)
    assert sorted(live(table)) == [1, 2, 3, 9]
    lake.flush("n.t")
    assert held_after(table.changes(after=upto), held) == live(table)


@pytest.mark.covering
@pytest.mark.parametrize("step", ["direct:announced", "direct:committing", "direct:committed", "direct:noted"])
@pytest.mark.parametrize("how", _WRITES)
def test_a_write_that_meets_the_commit_of_an_overwrite_waits_for_it(
    lake: Lakehouse, other: Lakehouse, waits: Begin, how: str, step: str
) -> None:
    table = _filled(lake)
    upto = table.changes().upto
    sleeper = Sleeper(_overwrite(other.table("n.t")), step)
    writer = waits(lambda: _WRITES[how](table, rows({1: "b", 2: "b"})))
    assert listed(table.changes(after=upto)) == []
    sleeper.wake()
    writer.join(PATIENCE)
    assert sleeper.error is None
    assert listed(table.changes(after=upto)) == [
        ("update_preimage", 1, "silent"),
        ("update_postimage", 1, "b"),
        ("insert", 2, "b"),
    ]
    lake.flush("n.t")
    assert {key: row["text"] for key, row in live(table).items()} == {1: "b", 2: "b", 9: "silent"}


def test_an_insert_waits_too(lake: Lakehouse, other: Lakehouse, waits: Begin) -> None:
    table = _filled(lake, ON_DUPLICATE="error")
    sleeper = Sleeper(_overwrite(other.table("n.t")), "direct:committing")
    errors: list[ConstraintViolation] = []

    def insert() -> None:
        try:
            table.write(rows({9: "b"}), mode="insert")
        except ConstraintViolation as error:
            errors.append(error)

    writer = waits(insert)
    sleeper.wake()
    writer.join(PATIENCE)
    assert len(errors) == 1
    table.write(rows({2: "b"}), mode="insert")
    assert listed(table.changes(after=-1))[-1] == ("insert", 2, "b")


@pytest.mark.slow
def test_writes_to_other_partitions_refuse_nothing(lake: Lakehouse, other: Lakehouse) -> None:
    lake.create_namespace("n")
    columns = [Column("day", "INT"), Column("id", "BIGINT"), Column("text", "TEXT")]
    key, options = ["day", "id"], {**ALL, "bucket": "2"}
    table = lake.create_table("n.t", columns=columns, primary_key=key, partition_by=["day"], dynamic=True, options=options)
    table.write([{"day": day, "id": 1, "text": "a"} for day in (1, 2)])
    lake.flush("n.t")
    upto = table.changes().upto
    types: dict[str, pa.DataType] = {"day": pa.int32(), "id": pa.int64(), "text": pa.string()}
    over = pa.Table.from_pylist([{"day": 1, "id": 1, "text": "silent"}], schema=pa.schema(types))
    for day, refused in ((2, False), (1, True)):
        sleeper = Sleeper(_overwrite(other.table("n.t"), "day = 1", over), "direct:written")
        table.write([{"day": day, "id": 1, "text": "b"}])
        sleeper.wake()
        assert isinstance(sleeper.error, Conflict) == refused
    found = [(row["_change_type"], row["day"], row["text"]) for row in table.changes(after=upto).rows.to_pylist()]
    assert found == [
        ("update_preimage", 2, "a"),
        ("update_postimage", 2, "b"),
        ("update_preimage", 1, "silent"),
        ("update_postimage", 1, "b"),
    ]


def test_writes_pass_an_overwrite_that_died_behind_a_barrier(lake: Lakehouse, other: Lakehouse, clock: Clock) -> None:
    table = _filled(lake)
    upto = table.changes().upto
    with pytest.raises(Died):
        _overwrite(other.table("n.t"))(dies("direct:committing"))
    sleeper = Sleeper(_overwrite(other.table("n.t")), "before-link")
    assert not table.log.replace_quiet("early"), "from now on it knows the store's time"
    clock.forward(130)
    table.write(rows({1: "b"}))
    sleeper.wake()
    assert isinstance(sleeper.error, Conflict)
    assert listed(table.changes(after=upto)) == [("update_preimage", 1, "a"), ("update_postimage", 1, "b")]
    table.write(rows({1: "c"}))
    assert live(table)[1]["text"] == "c"
