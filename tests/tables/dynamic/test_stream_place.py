"""FL-40: the place of a table's one streaming writer, as streams have it: renewed while they live, and fenced once it is lost."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.base.scope import TableName
from lakewarden.catalog.model import Table
from lakewarden.errors import Conflict, LostPlace
from lakewarden.maintenance.open_table import flush_pending
from lakewarden.sql.results import Result
from lakewarden.tables.dynamic import StreamingWriter, StreamPlace, holding_place, lease_name, take_place

Sql = Callable[[str], list[Result]]
KEYED, KEYLESS = "(id INT PRIMARY KEY, v INT)", "(id INT, v INT)"


def table_of(lake: Lakehouse, name: str) -> Table:
    return lake.warehouse.catalog.read().tables[TableName("n", name)]


def taken(lake: Lakehouse, name: str, stream: str, **how: float) -> StreamPlace:
    place = take_place(lake.warehouse, table_of(lake, name), stream, **how)
    assert place is not None
    return place


def write(lake: Lakehouse, name: str, place: StreamPlace, *ids: int) -> None:
    """A batch of a stream, through the log or past it."""
    client = lake.table(f"n.{name}")
    with pickle.loads(pickle.dumps(place)).writing(lake.warehouse):
        rows = [{"id": each, "v": each} for each in ids]
        if place.table.schema.keyed:
            client.write(rows)
        else:
            client.direct.append([client.completed(rows, user=None)])


def ids(lake: Lakehouse, name: str) -> list[int]:
    return sorted(row["id"] for row in lake.table(f"n.{name}").read(freshness="strong").to_pylist())


@pytest.mark.parametrize("columns", [KEYED, KEYLESS])
def test_a_stream_that_lost_its_place_is_refused_before_a_row_and_told_who_has_it(
    lake: Lakehouse, sql: Sql, columns: str
) -> None:
    name = "lost" if columns is KEYED else "lost_keyless"
    sql(f"CREATE DYNAMIC TABLE {name} {columns}")
    slept = taken(lake, name, "slept", seconds=0.2)
    write(lake, name, slept, 1)
    other = taken(lake, name, "other", patience=2)
    with pytest.raises(LostPlace, match=rf"slept .* lost its place as the streaming writer of n.{name} to other"):
        write(lake, name, slept, 2)
    with pytest.raises(Conflict, match="streaming writer already, other"):
        take_place(lake.warehouse, table_of(lake, name), "slept", patience=0)
    write(lake, name, other, 3)
    assert ids(lake, name) == [1, 3]
    other.writer.release(lake.warehouse.catalog)
    with pytest.raises(LostPlace, match="which has ended since"):
        write(lake, name, slept, 2)
    write(lake, name, taken(lake, name, "slept"), 4)
    assert ids(lake, name) == [1, 3, 4]


def test_a_direct_write_that_looked_before_the_place_was_lost_is_not_committed(lake: Lakehouse, sql: Sql) -> None:
    """Wherever it stands: the other stream's barrier comes before its commit, and it looks again."""
    sql(f"CREATE DYNAMIC TABLE looked {KEYLESS}")
    client, table = lake.table("n.looked"), table_of(lake, "looked")
    client.write([{"id": 0, "v": 0}])
    for number, step in enumerate(("direct:written", "direct:drafted", "direct:announced", "direct:committing"), 1):
        place = taken(lake, "looked", f"slept at {step}", seconds=0.05, patience=2)
        reached: list[str] = []

        def reach(where: str, step: str = step, reached: list[str] = reached, number: int = number) -> None:
            if where == step and not reached:
                reached.append(where)
                taken(lake, "looked", f"other {number}", seconds=0.05, patience=2)

        rows = client.completed([{"id": number, "v": 0}], user=None)
        writes = type(client.direct)(lake.warehouse, table, flush_pending, reach=reach)
        with pytest.raises(LostPlace), place.writing(lake.warehouse):
            writes.append([rows])
        assert reached == [step]
    assert ids(lake, "looked") == [0]


def test_batch_writes_and_flushes_pass_the_fence(lake: Lakehouse, sql: Sql) -> None:
    sql(f"CREATE DYNAMIC TABLE passed {KEYED}")
    taken(lake, "passed", "one", seconds=0.05)
    taken(lake, "passed", "two", patience=2)
    sql("INSERT INTO passed VALUES (1, 1); STORAGE FLUSH TABLE n.passed; INSERT OVERWRITE passed VALUES (2, 2)")
    lake.table("n.passed").write([{"id": 3, "v": 3}])
    assert ids(lake, "passed") == [2, 3]


def test_a_place_is_held_while_nothing_is_written_and_given_back_at_the_end(lake: Lakehouse, sql: Sql) -> None:
    sql(f"CREATE DYNAMIC TABLE held {KEYED}")
    table, catalog = table_of(lake, "held"), lake.warehouse.catalog
    with holding_place(lake.warehouse, table, "idle", seconds=0.3) as place:
        time.sleep(0.7)  # longer than the lease
        with pytest.raises(Conflict, match="streaming writer already, idle"):
            StreamingWriter.take(catalog, table.name, "second", seconds=0.3, patience=5)
        assert place is not None
        write(lake, "held", place, 1)
    assert lease_name(table.name) not in catalog.read().leases
    taken(lake, "held", "second", patience=0)
    assert ids(lake, "held") == [1]


@pytest.mark.slow
def test_no_renewal_comes_behind_the_end_of_a_stream(lake: Lakehouse, sql: Sql) -> None:
    sql(f"CREATE DYNAMIC TABLE ended {KEYED}")
    table, catalog = table_of(lake, "ended"), lake.warehouse.catalog
    for _ in range(20):
        with holding_place(lake.warehouse, table, "short", seconds=0.003):  # one renewal follows another
            time.sleep(0.01)
        time.sleep(0.01)
        assert lease_name(table.name) not in catalog.read().leases


def test_a_process_that_died_between_the_lease_and_the_fence_is_made_up_for(lake: Lakehouse, sql: Sql) -> None:
    sql(f"CREATE DYNAMIC TABLE crashed {KEYED}")
    table, catalog = table_of(lake, "crashed"), lake.warehouse.catalog
    slept = taken(lake, "crashed", "slept", seconds=0.05)
    StreamingWriter.take(catalog, table.name, "died", patience=2)  # and no fence
    write(lake, "crashed", slept, 1)
    taken(lake, "crashed", "died")
    with pytest.raises(LostPlace, match="to died"):
        write(lake, "crashed", slept, 2)


def test_other_tables_take_any_number_of_streams(lake: Lakehouse, sql: Sql) -> None:
    sql("CREATE SHARED TABLE plain (id INT PRIMARY KEY)")
    assert take_place(lake.warehouse, table_of(lake, "plain"), "one") is None
    with holding_place(lake.warehouse, table_of(lake, "plain"), "two") as place:
        assert place is None


_STREAM = """
import sys
from lakewarden import Lakehouse
from lakewarden.errors import LakewardenError
from lakewarden.tables.dynamic import holding_place
from lakewarden.base.scope import TableName

uri, stream, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
with Lakehouse.open(uri) as lake:
    table = lake.warehouse.catalog.read().tables[TableName("n", "paused")]
    with holding_place(lake.warehouse, table, stream, seconds=seconds) as place:
        print("has it", flush=True)
        for line in sys.stdin:
            try:
                with place.writing(lake.warehouse):
                    lake.table("n.paused").write([{"id": int(line), "v": 0}])
                print("wrote", flush=True)
            except LakewardenError as error:
                print(error.code, error.message, flush=True)
"""


class Stream:
    """A stream in a process of its own, which writes a row for each line that it gets."""

    def __init__(self, lake: Lakehouse, name: str, seconds: float) -> None:
        command = [sys.executable, "-c", _STREAM, lake.warehouse.uri, name, str(seconds)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd())

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def write(self, id_: int) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{id_}\n")
        self.process.stdin.flush()
        return self.answer()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.mark.slow
@pytest.mark.disk
def test_a_process_that_was_paused_past_its_lease_is_refused_and_one_that_was_killed_replaced(lake: Lakehouse, sql: Sql) -> None:
    sql(f"CREATE DYNAMIC TABLE paused {KEYED}")
    streams = [Stream(lake, "first", 1.0)]
    first = streams[0]
    try:
        assert (first.answer(), first.write(1)) == ("has it", "wrote")
        time.sleep(1.5)  # idle for longer than its lease
        with pytest.raises(Conflict, match="already, first"):
            take_place(lake.warehouse, table_of(lake, "paused"), "second", patience=3)
        first.signal(signal.SIGSTOP)
        streams.append(Stream(lake, "second", 1.0))
        assert (streams[1].answer(), streams[1].write(2)) == ("has it", "wrote")
        first.signal(signal.SIGCONT)
        refused = first.write(3)
        assert refused.startswith("CONFLICT first gave no sign of life for 1 seconds")
        assert "to second: nothing of this batch was written" in refused
        assert ids(lake, "paused") == [1, 2]
        streams[1].signal(signal.SIGKILL)
        streams.append(Stream(lake, "third", 1.0))
        assert (streams[2].answer(), streams[2].write(4)) == ("has it", "wrote")
        assert ids(lake, "paused") == [1, 2, 4]
    finally:
        for each in streams:
            each.end()
