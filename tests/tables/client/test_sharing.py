"""Calls that come together share segments, however each of them got hold of its table."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import pyarrow as pa
import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import LogSettings
from lakewarden.base.settings import Settings
from lakewarden.errors import Conflict, ConstraintViolation, LakewardenError
from lakewarden.log.objects.gather import Gathering
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.position import Receipt
from lakewarden.sql.bind import bind_all
from lakewarden.sql.context import Context
from lakewarden.sql.parse import parse
from lakewarden.sql.session import announced
from lakewarden.sql.statement import Statement
from lakewarden.storage.local import LocalObjects
from lakewarden.tables.client import appending
from lakewarden.tables.client.reader import TableReader
from tests.fixtures.bucket import path_of
from tests.fixtures.lakes import NOTES, make_notes, strong
from tests.fixtures.patience import PATIENCE

_THREADS = 16

Call = Callable[[], object]


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    with Lakehouse.open(warehouse_uri) as opened:
        make_notes(opened)
        opened.sql("CREATE SHARED TABLE chat.shared (id BIGINT PRIMARY KEY, text TEXT)")
        yield opened


class Crowd:
    """Calls of as many threads, all of which come while the first one's segment is put."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._first, self._go_on = threading.Event(), threading.Event()
        self._gatherings: set[Gathering] = set()
        create, append = LocalObjects.create, Gathering.append

        def held(store: LocalObjects, key: str, data: bytes) -> None:
            if "/segments/" in key and not self._first.is_set():
                self._first.set()
                assert self._go_on.wait(PATIENCE)
            create(store, key, data)

        def noted(gathering: Gathering, *rest: object) -> object:
            self._gatherings.add(gathering)
            return append(gathering, *rest)  # type: ignore[arg-type]

        monkeypatch.setattr(LocalObjects, "create", held)
        monkeypatch.setattr(Gathering, "append", noted)

    def run(self, calls: Sequence[Call]) -> list[object]:
        """What each call returns, or raises."""
        with ThreadPoolExecutor(len(calls)) as pool:
            first = pool.submit(_outcome, calls[0])
            assert self._first.wait(PATIENCE)
            rest = [pool.submit(_outcome, call) for call in calls[1:]]
            while not self._all_there(rest):
                threading.Event().wait(0.001)
            self._go_on.set()
            return [each.result(PATIENCE) for each in (first, *rest)]

    def _all_there(self, rest: Sequence[Future[object]]) -> bool:
        waiting = sum(len(gathering._waiting) for gathering in self._gatherings)
        return waiting + sum(each.done() for each in rest) >= len(rest)


def _outcome(call: Call) -> object:
    try:
        return call()
    except LakewardenError as error:
        return error


def _segments(lake: Lakehouse, table: str) -> int:
    log_id = lake.table(table).table.log_id
    return len(list((path_of(lake.warehouse.uri) / "_lakewarden" / "log" / log_id / "segments").iterdir()))


def test_writes_through_clients_that_are_made_anew_share_a_segment(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(number: int) -> object:
        return lake.table(NOTES).write([{"id": number, "text": "t"}], user=f"u{number % 3}")

    Crowd(monkeypatch).run([partial(write, number) for number in range(_THREADS)])
    assert _segments(lake, NOTES) == 2, "the first one's, and one for all that came meanwhile"
    assert sorted(key for number in range(3) for key in strong(lake.table(NOTES), f"u{number}")) == list(range(_THREADS))


@pytest.mark.parametrize(("table", "users"), [("chat.notes", _THREADS), ("chat.notes", 1), ("chat.shared", 1)])
def test_inserts_share_a_segment(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch, table: str, users: int) -> None:
    def insert(number: int) -> object:
        return lake.sql(f"INSERT INTO {table} VALUES ({number}, 't')", user=f"u{number % users}")

    outcomes = Crowd(monkeypatch).run([partial(insert, number) for number in range(_THREADS)])
    assert not [each for each in outcomes if isinstance(each, LakewardenError)]
    assert _segments(lake, table) == 2, "the first one's, and one for all that came meanwhile"


def test_an_insert_waits_for_one_that_is_under_way(warehouse_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other looks its key up, which takes as long as the test wants."""
    looking, go_on, look_up = threading.Event(), threading.Event(), TableReader.first_live

    def slow(reader: TableReader, rows: pa.Table, user: str | None, view: LogView) -> object:
        if user == "slow":
            looking.set()
            assert go_on.wait(PATIENCE)
        return look_up(reader, rows, user, view)

    monkeypatch.setattr(TableReader, "first_live", slow)
    with (
        Lakehouse.open(warehouse_uri, settings=Settings(log=LogSettings(gather_seconds=10 * PATIENCE))) as lake,
        ThreadPoolExecutor(2) as pool,
    ):
        make_notes(lake)
        gathering = lake.table(NOTES).log._the_writer().gathering
        other = pool.submit(lake.table(NOTES).write, [{"id": 1, "text": "t"}], user="slow", mode="insert")
        assert looking.wait(PATIENCE)
        first = pool.submit(lake.sql, f"INSERT INTO {NOTES} VALUES (1, 't')", user="quick")
        while not (gathering._expected or first.done()):
            threading.Event().wait(0.001)
        go_on.set()
        assert [each.exception(PATIENCE) for each in (first, other)] == [None, None]
        assert _segments(lake, NOTES) == 1


def test_an_insert_by_sql_is_waited_for_before_its_names_are_resolved(
    warehouse_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    binding, go_on = threading.Event(), threading.Event()

    def slow(context: Context, statements: Sequence[Statement]) -> object:
        if context.principal.user == "slow":
            binding.set()
            assert go_on.wait(PATIENCE)
        return bind_all(context, statements)

    monkeypatch.setattr("lakewarden.sql.session.bind_all", slow)
    with (
        Lakehouse.open(warehouse_uri, settings=Settings(log=LogSettings(gather_seconds=10 * PATIENCE))) as lake,
        ThreadPoolExecutor(2) as pool,
    ):
        make_notes(lake)
        gathering = lake.table(NOTES).log._the_writer().gathering
        other = pool.submit(lake.sql, f"INSERT INTO {NOTES} VALUES (1, 't')", user="slow")
        assert binding.wait(PATIENCE)
        first = pool.submit(lake.sql, f"INSERT INTO {NOTES} VALUES (1, 't')", user="quick")
        while not (gathering._expected or first.done()):
            threading.Event().wait(0.001)
        go_on.set()
        assert [each.exception(PATIENCE) for each in (first, other)] == [None, None]
        assert _segments(lake, NOTES) == 1


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1; INSERT INTO {} VALUES (1, 't')",
        "INSERT INTO {} VALUES (1, 'a' || 'b')",
        "INSERT INTO {} SELECT 1, 't'",
        "INSERT INTO {} VALUES (1, 't') ON CONFLICT DO NOTHING",
        "UPDATE {} SET text = 't' WHERE id = 1",
        "INSERT INTO {} VALUES " + ", ".join(f"({number}, 't')" for number in range(101)),
    ],
)
def test_what_may_take_long_is_not_waited_for(lake: Lakehouse, text: str) -> None:
    statements = parse(text.format("shared"))
    with announced(lake.warehouse, "chat", statements):
        assert not lake.table("chat.shared").log._the_writer().gathering._announced


def test_of_inserts_of_one_key_one_is_taken(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    def insert(number: int) -> object:
        return lake.sql(f"INSERT INTO chat.shared VALUES (1, 'by {number}')")

    outcomes = Crowd(monkeypatch).run([partial(insert, number) for number in range(4)])
    assert sorted(isinstance(each, ConstraintViolation) for each in outcomes) == [False, True, True, True]


@pytest.mark.slow
def test_updates_of_one_scope_take_turns_and_see_each_other(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "_ATTEMPTS", 1)
    lake.sql("INSERT INTO chat.shared VALUES (1, '')")
    with ThreadPoolExecutor(_THREADS) as pool:
        texts = [f"UPDATE chat.shared SET text = text || '{number:x}' WHERE id = 1" for number in range(_THREADS)]
        assert [
            error for error in pool.map(_outcome, [partial(lake.sql, text) for text in texts]) if isinstance(error, Exception)
        ] == []
    text = strong(lake.table("chat.shared"), None)[1]
    assert sorted(text) == sorted("0123456789abcdef"), "no update is lost"


def test_inserts_of_many_rows_take_turns(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "_ATTEMPTS", 1)

    def insert(number: int) -> object:
        rows = [{"id": number * 1000 + each, "text": ""} for each in range(200)]
        return lake.table("chat.shared").write(rows, mode="insert")

    with ThreadPoolExecutor(_THREADS) as pool:
        outcomes = [*pool.map(_outcome, [partial(insert, number) for number in range(_THREADS)])]
    assert not [each for each in outcomes if isinstance(each, LakewardenError)]
    assert len(strong(lake.table("chat.shared"), None)) == 200 * _THREADS


def test_a_table_made_anew_under_its_name_has_a_log_of_its_own(lake: Lakehouse) -> None:
    lake.table(NOTES).write([{"id": 1, "text": "old"}], user="u")
    lake.drop_table(NOTES)
    make_notes(lake)
    lake.table(NOTES).write([{"id": 2, "text": "new"}], user="u")
    assert strong(lake.table(NOTES), "u") == {2: "new"}


def test_a_column_added_meanwhile_is_written_through_the_same_log(lake: Lakehouse) -> None:
    before = lake.table(NOTES)
    before.write([{"id": 1, "text": "t"}], user="u")
    lake.sql(f"ALTER TABLE {NOTES} ADD COLUMN more TEXT")
    lake.table(NOTES).write([{"id": 2, "text": "t", "more": "m"}], user="u")
    before.write([{"id": 3, "text": "t"}], user="u")
    assert {row["id"]: row["more"] for row in lake.table(NOTES).read(user="u").to_pylist()} == {1: None, 2: "m", 3: None}


@pytest.mark.slow
def test_nothing_is_lost_between_the_threads_of_two_processes(lake: Lakehouse, warehouse_uri: str) -> None:
    lake.table("chat.shared").write([{"id": 0, "text": ""}])
    taken: list[int] = []

    def until_done(change: Callable[[], object]) -> object:
        while isinstance(outcome := _outcome(change), Conflict):
            pass
        return outcome

    def work(number: int, one: Lakehouse) -> None:
        def counted(live: pa.Table) -> pa.Table:
            text = next(row["text"] for row in live.to_pylist() if row["id"] == 0)
            return pa.table({"id": [0], "text": [f"{text}{number}"]})

        for turn in range(3):
            table = one.table("chat.shared")
            until_done(lambda table=table: table.revise(counted, user=None))  # type: ignore[misc]
            row = [{"id": 1 + turn, "text": str(number)}]
            if isinstance(until_done(lambda table=table, row=row: table.write(row, mode="insert")), Receipt):  # type: ignore[misc]
                taken.append(turn)

    with Lakehouse.open(warehouse_uri) as other, ThreadPoolExecutor(6) as pool:
        for each in [pool.submit(work, number, (lake, other)[number % 2]) for number in range(6)]:
            each.result(PATIENCE)
    rows = strong(lake.table("chat.shared"), None)
    assert sorted(rows[0]) == sorted("012345" * 3), "no update is lost"
    assert (sorted(rows), sorted(taken)) == ([0, 1, 2, 3], [0, 1, 2]), "each key was inserted once"
