"""What a caller attaches to a write or an operation is in the history of the commits that they make, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakewarden import Lakehouse
from lakewarden.base.commit_metadata import MOST_BYTES, MOST_BYTES_OF_A_COMMIT, metadata_text
from lakewarden.base.setting_sections import LogSettings
from lakewarden.base.settings import Settings
from lakewarden.errors import InvalidArgument
from lakewarden.tables.client import TableClient
from tests.fixtures.lakes import make_notes, notes, scope_path, strong
from tests.fixtures.sleepers import sleeping_flush

LATE: Mapping[str, object] = {"job": "late", "n": 1.5, "é": [1, {"deep": None}]}
SECRET = "what-ann-attached"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "w")) as opened:
        make_notes(opened)
        yield opened


@pytest.fixture
def table(lake: Lakehouse) -> TableClient:
    return lake.table("chat.notes")


def attached(table: TableClient, user: str | None = "ann") -> list[dict[str, object]]:
    """By commit, oldest first."""
    return [entry.metadata for entry in reversed(table.history(user=user))]


def test_a_flush_carries_what_the_writers_of_its_rows_attached(lake: Lakehouse, table: TableClient) -> None:
    table.write(notes({1: "x"}), user="ann", metadata={"job": "early", "by": "ann"})
    table.write(notes({2: "x"}), user="ann")
    table.write(notes(dict.fromkeys(range(3, 30), "x")), user="ann", metadata=LATE)
    table.write(notes({1: "x"}), user="bob", metadata={"secret": "of bob"})
    table.write(notes({1: "x"}), user="cas")
    lake.flush("chat.notes")
    assert attached(table) == [{"by": "ann", **LATE}]
    assert (attached(table, "bob"), attached(table, "cas")) == ([{"secret": "of bob"}], [{}])
    table.write(notes({2: "y"}), user="ann")
    table.delete([{"id": 1}], user="ann", metadata={"gone": True})
    lake.flush("chat.notes", metadata={"by": "operator"})
    assert attached(table)[1:] == [{"gone": True, "by": "operator"}]
    assert strong(table, "ann") == {2: "y"} | dict.fromkeys(range(3, 30), "x")


def test_rows_of_many_users_in_one_call_carry_it(lake: Lakehouse, table: TableClient) -> None:
    rows = [{"id": 1, "text": "x", "who": f"u{number}"} for number in range(1500)]
    table.write(rows, user_column="who", metadata={"load": 1})
    lake.flush("chat.notes", user="u7")
    assert attached(table, "u7") == [{"load": 1}]
    assert strong(table, "u8") == {1: "x"}


def test_a_large_call_carries_it_through_staging(tmp_path: Path) -> None:
    with Lakehouse.open(str(tmp_path / "w"), settings=Settings(log=LogSettings(segment_max_rows=4))) as lake:
        table = make_notes(lake)
        table.write(notes(dict.fromkeys(range(20), "x")), user="ann", metadata=LATE)
        assert any((tmp_path / "w/_lakewarden/log").rglob("staged/*/*"))
        lake.flush("chat.notes")
        assert (attached(table), len(strong(table, "ann"))) == ([LATE], 20)


@pytest.mark.parametrize("room", [1, MOST_BYTES - len(metadata_text({"a": ""}))])
@pytest.mark.parametrize("rows", [1, 500])
def test_it_is_read_without_the_rows_where_tasks_read_these(table: TableClient, rows: int, room: int) -> None:
    table.write(notes(dict.fromkeys(range(rows), "x" * 50)), user="ann", metadata={"a": "x" * room})
    table.write(notes(dict.fromkeys(range(rows), "x" * 50)), user="ann")
    table.write(notes({1: "x"}), user="ann", metadata=LATE)
    pending = table.log.view().pending["ann"]
    assert [json.loads(text) for text in table.log.metadata(pending)] == [{"a": "x" * room}, LATE]


def test_other_delta_readers_find_it_in_the_commit(lake: Lakehouse, table: TableClient) -> None:
    table.write(notes({1: "x"}), user="ann", metadata=LATE)
    lake.flush("chat.notes")
    (commit,) = DeltaTable(str(scope_path(lake, "ann"))).history()
    assert json.loads(commit["userMetadata"])["metadata"] == LATE


def test_no_data_file_and_no_other_scope_has_it(lake: Lakehouse, table: TableClient, tmp_path: Path) -> None:
    table.write(notes({1: "x"}), user="ann", metadata={"token": SECRET})
    table.write(notes({1: "x"}), user="bob")
    lake.flush("chat.notes")
    found = {path for path in (tmp_path / "w" / "data").rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()}
    assert found == {tmp_path / "w/data/chat/notes/ann/_delta_log/00000000000000000000.json"}


def test_it_goes_with_the_user(lake: Lakehouse, table: TableClient, tmp_path: Path) -> None:
    for text in ("flushed", "pending"):
        table.write(notes({1: text}), user="ann", metadata={"token": SECRET})
        table.write(notes({1: text}), user="bob", metadata={"kept": text})
        if text == "flushed":
            lake.flush("chat.notes")
    lake.enqueue("flush", "chat.notes", user="ann", metadata={"token": SECRET})
    lake.erase("ann")
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    lake.flush("chat.notes")
    assert attached(table, "bob") == [{"kept": "flushed"}, {"kept": "pending"}]


def test_what_waits_in_the_carry_keeps_it(lake: Lakehouse, table: TableClient, tmp_path: Path) -> None:
    """Rows of who is not flushed are copied out of segments that go."""
    table.write(notes({1: "x"}), user="ann", metadata=LATE)
    for number in range(4):
        table.write(notes({number: "x" * 2000}), user="bob")
        lake.flush("chat.notes", user="bob")
    assert any((tmp_path / "w/_lakewarden/log").rglob("carry/*/*"))
    lake.flush("chat.notes")
    assert attached(table) == [LATE]


OPERATIONS: Mapping[str, Callable[[Lakehouse], object]] = {
    "OPTIMIZE": lambda lake: lake.optimize("chat.notes", user="ann", zorder=["text"], metadata=LATE),
    "VACUUM END": lambda lake: lake.vacuum("chat.notes", user="ann", retain_hours=0, force=True, dry_run=False, metadata=LATE),
    "RESTORE": lambda lake: lake.restore("chat.notes", user="ann", version=0, dry_run=False, metadata=LATE),
    "MERGE": lambda lake: lake.run("flush", "chat.notes", metadata=LATE),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_carries_its_own(lake: Lakehouse, table: TableClient, operation: str) -> None:
    for number in range(3):
        table.write(notes({number: "x"}), user="ann")
        lake.flush("chat.notes")
    lake.optimize("chat.notes", user="ann")
    if operation == "MERGE":
        table.write(notes({1: "y"}), user="ann")
    before = len(table.history(user="ann"))
    OPERATIONS[operation](lake)
    newest, *_ = table.history(user="ann")
    assert (newest.operation, newest.metadata) == (operation, LATE)
    assert [entry.metadata for entry in table.history(user="ann")][-before:] == [{}] * before


def test_a_flush_behind_one_that_died_carries_what_is_new(lake: Lakehouse, table: TableClient) -> None:
    """The first one's commit is there, and its rows are in the log still."""
    table.write(notes({1: "x"}), user="ann", metadata={"first": 1})
    dead = sleeping_flush(lake, "after-commits")
    table.write(notes({2: "x"}), user="ann", metadata={"second": 2})
    lake.flush("chat.notes")
    dead.wake()
    assert attached(table) == [{"first": 1}, {"second": 2}]


def test_a_plan_and_a_queued_job_carry_it(lake: Lakehouse, table: TableClient) -> None:
    table.write(notes({1: "x"}), user="ann")
    lake.apply(lake.plan("flush", "chat.notes"), metadata={"by": "plan"})
    table.write(notes({2: "x"}), user="ann")
    job = lake.enqueue("flush", "chat.notes", metadata={"by": "queue"})
    lake.run_jobs({job.job_id})
    assert attached(table) == [{"by": "plan"}, {"by": "queue"}]


def test_direct_writes_and_loads_carry_it(lake: Lakehouse, tmp_path: Path) -> None:
    lake.sql("CREATE SHARED TABLE chat.plain (id BIGINT, text TEXT)")
    plain = lake.table("chat.plain")
    plain.write(notes({1: "x"}), metadata={"by": "write"})
    (tmp_path / "some.csv").write_text("id,text\n2,y\n")
    lake.load("chat.plain", str(tmp_path / "some.csv"), metadata={"by": "load"})
    lake.sql("UPDATE chat.plain SET text = 'z' WHERE id = 1", metadata={"by": "sql"})
    assert attached(plain, None)[-3:] == [{"by": "write"}, {"by": "load"}, {"by": "sql"}]


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ([1], "not a list"),
        ("{}", "not a str"),
        ({1: "x"}, "not text"),
        ({"a": {2: 1}}, "not text"),
        ({"a": float("nan")}, "JSON"),
        ({"a": 1 << 64}, "64 bits"),
        ({"a": b"x"}, "JSON"),
        ({"a": "\ud800"}, "surrogates"),
        ({"a": "x" * MOST_BYTES}, f"{MOST_BYTES} at most"),
        ({"a": [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]}, "nested"),
    ],
)
def test_what_is_no_small_object_is_refused(lake: Lakehouse, table: TableClient, metadata: object, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        table.write(notes({1: "x"}), user="ann", metadata=metadata)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=why):
        lake.flush("chat.notes", metadata=metadata)  # type: ignore[arg-type]
    assert strong(table, "ann") == {}


def test_the_largest_object_is_taken_and_a_flush_of_many_says_what_it_left_out(lake: Lakehouse, table: TableClient) -> None:
    room = MOST_BYTES - len(metadata_text({"key-00": ""}))
    for number in range(20):
        table.write(notes({number: "x"}), user="ann", metadata={f"key-{number:02}": "x" * room})
    lake.flush("chat.notes")
    (entry,) = table.history(user="ann")
    kept = MOST_BYTES_OF_A_COMMIT // MOST_BYTES
    assert list(entry.metadata) == [f"key-{number:02}" for number in range(20 - kept, 20)]
    assert entry.parameters["metadataLeftOut"] == str(20 - kept)


def test_without_it_nothing_is_written_more(lake: Lakehouse, table: TableClient, tmp_path: Path) -> None:
    """The bytes of a segment, and of a commit, are those of a write that knows nothing of metadata."""
    table.write(notes({1: "x"}), user="ann", metadata={})
    table.write(notes({1: "x"}), user="ann")
    one, two = sorted((tmp_path / "w/_lakewarden/log").rglob("segments/*"))
    assert one.stat().st_size == two.stat().st_size
    lake.flush("chat.notes")
    (commit,) = DeltaTable(str(scope_path(lake, "ann"))).history()
    assert "metadata" not in json.loads(commit["userMetadata"])


def test_a_repair_keeps_what_is_left_of_it(lake: Lakehouse, table: TableClient, tmp_path: Path) -> None:
    table.write(notes({1: "x"}), user="bob")
    table.write(notes({1: "x"}), user="ann", metadata=LATE)
    next((tmp_path / "w/_lakewarden/log").rglob("segments/*0")).unlink()
    lake.repair("chat.notes")
    lake.flush("chat.notes")
    assert attached(table) == [LATE]
