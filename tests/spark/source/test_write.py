"""What `df.write` and `df.writeStream` leave: all rows of a job at one position, or nothing; each batch of a stream once."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import WriterCommitMessage

from lakewarden import Lakehouse
from lakewarden.base.scope import TableName
from lakewarden.base.setting_sections import LogSettings
from lakewarden.base.settings import Settings
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.log.position import position_of
from lakewarden.spark import staged_write
from lakewarden.spark.connection import _opened
from lakewarden.spark.options import WriteOptions
from lakewarden.spark.staged_write import StreamWriter, check_append
from lakewarden.storage.local import LocalObjects
from lakewarden.tables.dynamic import give_back
from tests.fixtures.lakes import lake_fixture
from tests.fixtures.late import late_segments
from tests.spark.source.reading import connection, read
from tests.spark.source.writing import Rows, batch_writer, batches, stream_batch, write
from tests.tables.images.held import held_after, live

_TABLES = """
CREATE NAMESPACE app;
CREATE USER TABLE app.notes (id INT PRIMARY KEY, text TEXT NOT NULL);
CREATE SHARED TABLE app.items (id INT PRIMARY KEY, text TEXT);
CREATE SHARED TABLE app.facts (id INT, text TEXT);
CREATE STREAM TABLE app.events (id INT PRIMARY KEY, text TEXT) WITH (TTL_SECONDS = 3600);
CREATE DYNAMIC TABLE app.states (id INT PRIMARY KEY, text TEXT) WITH ('log.changelog-mode' = 'all', 'log.retention' = '1 h');
"""
_ROWS = [[{"id": 1, "text": "x", "who": "ann"}, {"id": 1, "text": "y", "who": "bob"}], [{"id": 2, "text": "z", "who": "ann"}]]
_FOUND = [("ann", 1, "x"), ("ann", 2, "z"), ("bob", 1, "y")]


lake = lake_fixture(sql=_TABLES, settings=Settings(log=LogSettings(retention_seconds=0)))


def found(lake: Lakehouse, table: str = "app.notes") -> list[tuple[object, ...]]:
    return sorted((row["_user"], row["id"], row["text"]) for row in read(lake, table))


def staged(lake: Lakehouse, table: str = "app.notes") -> int:
    log = lake.table(table).log
    return sum("/staged/" in each.key for each in lake.warehouse.state.list(log.home))


def test_a_job_of_many_users_and_tasks_has_one_position(lake: Lakehouse) -> None:
    writer = batch_writer(lake, "app.notes", user_column="who")
    messages = [pickle.loads(pickle.dumps(writer)).write(iter(batches(rows))) for rows in _ROWS]
    assert (found(lake), staged(lake)) == ([], 2)
    writer.commit(messages)
    assert found(lake) == _FOUND
    assert len({position_of(int(str(row["_seq"]))) for row in read(lake, "app.notes")}) == 1
    lake.flush("app.notes")
    assert (found(lake), staged(lake)) == (_FOUND, 0)


def test_a_write_replaces_by_key_and_the_last_row_of_a_key_counts(lake: Lakehouse) -> None:
    write(lake, "app.items", [{"id": 1, "text": "old"}, {"id": 2, "text": "old"}])
    lake.flush("app.items")
    write(lake, "app.items", [{"id": 1, "text": "a"}, {"id": 1, "text": "b"}], [{"id": 1, "text": "c"}])
    assert found(lake, "app.items") == [(None, 1, "c"), (None, 2, "old")]


def test_a_retried_task_and_a_repeated_commit_double_nothing(lake: Lakehouse) -> None:
    writer = batch_writer(lake, "app.events", user="ann")
    writer.write(iter(batches([{"id": 1, "text": "x"}])))
    message = writer.write(iter(batches([{"id": 1, "text": "x"}])))
    writer.commit([message])
    writer.commit([message])
    assert found(lake, "app.events") == [("ann", 1, "x")]
    assert staged(lake, "app.events") == 1


def test_a_job_with_an_identity_is_written_once(lake: Lakehouse) -> None:
    for table in ("app.events", "app.facts"):
        user = {"user": "ann"} if table == "app.events" else {}
        for number in ("0", "0", "1"):
            write(lake, table, [{"id": int(number), "text": "x"}], stream_id="job", batch_id=number, **user)
        assert [row[1] for row in found(lake, table)] == [0, 1]


def test_batches_of_the_same_number_are_of_their_own_streams(lake: Lakehouse) -> None:
    for table in ("app.events", "app.facts"):
        user = {"user": "ann"} if table == "app.events" else {}
        for number, job in enumerate(("one", "other")):
            write(lake, table, [{"id": number, "text": job}], stream_id=job, batch_id="0", **user)
        assert [row[2] for row in found(lake, table)] == ["one", "other"]


def test_rows_of_several_jobs_do_not_become_visible_as_one(lake: Lakehouse) -> None:
    one, other = (batch_writer(lake, "app.notes", user="ann") for _ in range(2))
    first, second = (writer.write(iter(batches([{"id": at, "text": "x"}]))) for at, writer in enumerate((one, other)))
    with pytest.raises(PySparkException, match="several writes"):
        one.commit([first, second])
    assert found(lake) == []
    one.commit([first])
    other.commit([second])
    assert [row[1] for row in found(lake)] == [0, 1]


def test_an_aborted_job_leaves_nothing(lake: Lakehouse) -> None:
    writer = batch_writer(lake, "app.notes", user="ann")
    message = writer.write(iter(batches([{"id": 1, "text": "x"}])))
    writer.abort([message, None])
    assert (found(lake), staged(lake)) == ([], 0)


def test_a_commit_that_lands_behind_its_abort_names_nothing_that_is_gone(
    lake: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer was lost, and the store takes it when the job was given up."""
    writer = batch_writer(lake, "app.notes", user="ann")
    message = writer.write(iter(batches([{"id": 1, "text": "x"}])))
    with late_segments(monkeypatch) as land, pytest.raises(PySparkException, match="STORAGE_UNAVAILABLE"):
        writer.commit([message])
    writer.abort([message])
    land()
    assert (found(lake), staged(lake)) == ([], 0)
    write(lake, "app.notes", [{"id": 2, "text": "y"}], user="ann")
    assert found(lake) == [("ann", 2, "y")]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": 1, "text": None}, "CONSTRAINT_VIOLATION: "),
        ({"id": "one", "text": "x"}, "CONSTRAINT_VIOLATION: "),
        ({"id": 1, "text": "x", "more": 1}, "INVALID_ARGUMENT: "),
    ],
)
def test_a_bad_row_fails_its_task_with_the_code(lake: Lakehouse, row: dict[str, object], message: str) -> None:
    writer = batch_writer(lake, "app.notes", user="ann")
    good = writer.write(iter(batches([{"id": 1, "text": "x"}])))
    with pytest.raises(PySparkException, match=message):
        writer.write(iter(batches([row])))
    writer.abort([good, None])
    assert (found(lake), staged(lake)) == ([], 0)


def test_a_table_without_a_key_gets_the_rows_of_a_job_in_one_commit(lake: Lakehouse) -> None:
    write(lake, "app.facts", [{"id": 1, "text": "x"}], [{"id": 1, "text": "x"}])
    assert found(lake, "app.facts") == [(None, 1, "x")] * 2
    assert (len(lake.table("app.facts").history()), staged(lake, "app.facts")) == (2, 0), "the table's creation, and the job"
    with pytest.raises(PySparkException, match="CONSTRAINT_VIOLATION"):
        write(lake, "app.facts", [{"id": 2**40, "text": "x"}])


@pytest.mark.parametrize("options", [{"table": "app.notes"}, {"table": "app.items", "user": "ann"}, {"table": "app.none"}])
def test_a_write_is_refused_before_a_task_runs(lake: Lakehouse, options: dict[str, str]) -> None:
    with pytest.raises(PySparkException, match=r"INVALID_ARGUMENT|NOT_FOUND"):
        batch_writer(lake, **options)


def test_only_appends_are_taken() -> None:
    with pytest.raises(Unsupported, match="append"):
        check_append(overwrite=True)
    with pytest.raises(InvalidArgument, match="stream_id"):
        WriteOptions.of_stream({"table": "app.notes"})
    with pytest.raises(InvalidArgument, match="together"):
        WriteOptions.of({"table": "app.notes", "stream_id": "s"})


class Died(BaseException):
    """The process is gone: nothing may catch it."""


def _dying_at(number: int, monkeypatch: pytest.MonkeyPatch, *, after: bool) -> Callable[[], bool]:
    """From now on the process dies at this change of the state, before or after it; returns whether it came to that."""
    seen = 0
    create = LocalObjects.create

    def counted(self: LocalObjects, key: str, data: bytes) -> None:
        nonlocal seen
        seen += 1
        if seen == number and not after:
            raise Died
        create(self, key, data)
        if seen == number:
            raise Died

    monkeypatch.setattr(LocalObjects, "create", counted)
    return lambda: seen >= number


def _killed_at_each_step(job: Callable[[], None], check: Callable[[bool], None]) -> int:
    """Runs the job until it is through, each time killed one change later, with a check after each death."""
    for number in range(1, 40):
        for after in (False, True):
            with pytest.MonkeyPatch.context() as patch:
                died = _dying_at(number, patch, after=after)
                with suppress(Died):
                    job()
            _opened.cache_clear()
            check(not died())
        if not died():
            return number
    raise AssertionError("the job never ends")


def test_a_job_that_is_killed_at_any_step_shows_all_its_rows_or_none(lake: Lakehouse) -> None:
    def check(through: bool) -> None:
        rows = found(lake)
        assert rows in ([], _FOUND)
        assert rows == _FOUND or not through

    steps = _killed_at_each_step(lambda: write(lake, "app.notes", *_ROWS, user_column="who"), check)
    assert steps >= 4, "two staged objects, and a segment"


@pytest.mark.slow
def test_fl_066_jobs_and_streams_store_what_rows_were_before_wherever_they_are_killed(lake: Lakehouse) -> None:
    """With a reader that holds what the changes say: each continues what it holds, and a job that died is there whole, or not."""
    table, tasks = lake.table("app.states"), [[{"id": 1, "text": "a"}], [{"id": 2, "text": "b"}, {"id": 1, "text": "c"}]]
    number = 0

    def job() -> None:
        write(lake, "app.states", *tasks)
        stream_batch(lake, "app.states", number, *tasks)

    def check(_through: bool) -> None:
        nonlocal number
        changes = table.changes(after=-1)
        held = held_after(changes)
        assert held == live(table)
        assert held in ({}, {1: {"id": 1, "text": "c"}, 2: {"id": 2, "text": "b"}})
        written = [position_of(int(str(seq))) for seq in changes.rows.column("_seq").to_pylist()]
        assert all(written.count(each) in (4, 6) for each in written), "all changes of a job have one position"
        stream_batch(lake, "app.states", number, *tasks)
        end = table.changes().upto
        stream_batch(lake, "app.states", number, *tasks)
        assert table.changes().upto == end, "a batch is there once"
        number += 1

    assert _killed_at_each_step(job, check) >= 8
    lake.flush("app.states")
    assert held_after(table.changes(after=-1)) == live(table)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["app.events", "app.facts"])
def test_a_batch_of_a_stream_is_there_once_wherever_its_query_is_killed(lake: Lakehouse, name: str) -> None:
    """The query starts again after each death, and Spark repeats its last batch; no key of these tables' rows would hide that."""
    user = {} if name == "app.facts" else {"user": "ann"}
    tasks: list[Rows] = [[{"id": 1, "text": "x"}], [{"id": 2, "text": "y"}]]
    through = 0
    batch = 0

    def job() -> None:
        stream_batch(lake, name, batch, *tasks, **user)

    def check(done: bool) -> None:
        nonlocal through, batch
        count = len(read(lake, name))
        assert count in (2 * through, 2 * through + 2)
        assert count == 2 * through + 2 or not done
        stream_batch(lake, name, batch, *tasks, **user)
        through, batch = through + 1, batch + 1
        assert len(read(lake, name)) == 2 * through
        stream_batch(lake, name, batch - 1, *tasks, **user)
        assert len(read(lake, name)) == 2 * through

    assert _killed_at_each_step(job, check) >= 4


def test_a_batch_that_was_flushed_and_left_the_log_is_not_written_again(lake: Lakehouse) -> None:
    stream_batch(lake, "app.notes", 3, *_ROWS, user_column="who")
    lake.flush("app.notes")
    assert lake.warehouse.log(lake.table("app.notes").table).view().last_position == 0
    _opened.cache_clear()
    lake.table("app.notes").write([{"id": 1, "text": "newer"}], user="bob")
    stream_batch(lake, "app.notes", 3, *_ROWS, user_column="who")
    assert ("bob", 1, "newer") in found(lake), "the batch would have put the older row over it"
    assert staged(lake) == 0
    stream_batch(lake, "app.notes", 4, [{"id": 3, "text": "next", "who": "bob"}], user_column="who")
    assert ("bob", 3, "next") in found(lake)


def test_a_batch_without_rows_is_committed(lake: Lakehouse) -> None:
    stream_batch(lake, "app.notes", 0, user="ann")
    stream_batch(lake, "app.notes", 1, [{"id": 1, "text": "x"}], user="ann")
    assert len(found(lake)) == 1


def test_fl_040_a_second_stream_is_refused_while_the_first_lives(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.sql("CREATE DYNAMIC TABLE app.readings (id INT PRIMARY KEY, text TEXT)")
    row = [{"id": 1, "text": "first"}]
    stream_batch(lake, "app.readings", 0, row)
    monkeypatch.setattr(staged_write, "_PATIENCE", 0.0)  # nothing waits for the lease to expire
    with pytest.raises(PySparkException, match=r"CONFLICT: .* has a streaming writer already, s"):
        stream_batch(lake, "app.readings", 0, [{"id": 2, "text": "second"}], stream_id="other")
    stream_batch(lake, "app.readings", 1, [{"id": 1, "text": "again"}])
    write(lake, "app.readings", [{"id": 3, "text": "batch"}])  # only streams need it
    assert found(lake, "app.readings") == [(None, 1, "again"), (None, 3, "batch")]
    give_back(lake.warehouse.catalog, TableName("app", "readings"), "s")
    stream_batch(lake, "app.readings", 0, [{"id": 2, "text": "second"}], stream_id="other")
    assert found(lake, "app.readings")[1] == (None, 2, "second")


def _task(lake: Lakehouse, table: str, row: dict[str, object]) -> tuple[StreamWriter, WriterCommitMessage]:
    """A batch of a stream whose one task has written, and which is not committed."""
    writer = StreamWriter(connection(lake), WriteOptions.of_stream({"table": table, "stream_id": "s"}))
    return writer, writer.write(iter(batches([row])))


@pytest.mark.parametrize("consistency", ["transactional", "eventual"])
def test_fl_040_a_batch_is_refused_whose_stream_lost_its_place_since_it_was_planned(lake: Lakehouse, consistency: str) -> None:
    name = TableName("app", f"lost_{consistency}")
    lake.sql(f"CREATE DYNAMIC TABLE {name} (id INT PRIMARY KEY, text TEXT) WITH ('log.consistency' = '{consistency}')")
    slept = pickle.dumps(StreamWriter(connection(lake), WriteOptions.of_stream({"table": str(name), "stream_id": "slept"})))
    message = pickle.loads(slept).write(iter(batches([{"id": 1, "text": "slept"}])))
    before = [(None, 1, "slept")] if consistency == "eventual" else []
    assert found(lake, str(name)) == before
    give_back(lake.warehouse.catalog, name, "slept")  # as far as the next one can tell
    stream_batch(lake, str(name), 0, [{"id": 2, "text": "other"}], stream_id="other")
    refused = r"CONFLICT: slept gave no sign of life .* lost its place as the streaming writer of .* to other"
    if consistency == "eventual":
        with pytest.raises(PySparkException, match=refused):
            pickle.loads(slept).write(iter(batches([{"id": 3, "text": "slept"}])))
    else:
        with pytest.raises(PySparkException, match=refused):
            pickle.loads(slept).commit([message], 0)
    assert found(lake, str(name)) == [*before, (None, 2, "other")]


def test_fl_061_transactional_rows_are_visible_with_their_checkpoint(lake: Lakehouse) -> None:
    lake.sql("CREATE DYNAMIC TABLE app.careful (id INT PRIMARY KEY, text TEXT) WITH ('log.consistency' = 'transactional')")
    writer, message = _task(lake, "app.careful", {"id": 1, "text": "x"})
    assert (found(lake, "app.careful"), lake.table("app.careful").changes(after=-1).rows.num_rows) == ([], 0)
    writer.commit([message], 0)
    assert found(lake, "app.careful") == [(None, 1, "x")]


def test_fl_062_eventual_rows_are_visible_at_once_and_end_right(lake: Lakehouse) -> None:
    lake.sql("CREATE DYNAMIC TABLE app.hasty (id INT PRIMARY KEY, text TEXT) WITH ('log.consistency' = 'eventual')")
    _task(lake, "app.hasty", {"id": 1, "text": "x"})
    assert found(lake, "app.hasty") == [(None, 1, "x")], "though its batch is not committed"
    assert lake.table("app.hasty").changes(after=-1).rows["_change_type"].to_pylist() == ["insert"]
    writer, message = _task(lake, "app.hasty", {"id": 1, "text": "x"})  # the batch died and runs again
    writer.abort([message], 0)
    writer.commit([message], 0)
    assert found(lake, "app.hasty") == [(None, 1, "x")]
    write(lake, "app.hasty", [{"id": 2, "text": "y"}])  # what is not a stream is one call all the same
    assert (found(lake, "app.hasty"), staged(lake, "app.hasty")) == ([(None, 1, "x"), (None, 2, "y")], 1)


@pytest.mark.parametrize("name", ["app.notes", "app.facts"])
@pytest.mark.parametrize("how", ["repeat", "skip"])
@pytest.mark.disk
def test_a_stream_whose_rows_a_repair_lost_stops_until_it_is_resumed(lake: Lakehouse, name: str, how: str) -> None:
    """Through the log and past it; the other stream of the table is as uncertain."""
    user = {} if name == "app.facts" else {"user": "ann"}
    for number, text in enumerate("ab"):
        stream_batch(lake, name, number, [{"id": number, "text": text}], **user)
        lake.flush("app.notes")
    place = Path(lake.warehouse.uri) / "data" / "app" / name.partition(".")[2]
    max(place.rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns).unlink()
    lost = [one for one in lake.repair(name) if one.writers_uncertain]
    assert len(lost) == 1
    again: list[Rows] = [[{"id": 1, "text": "b"}]]
    for number in (1, 2):
        with pytest.raises(PySparkException, match=r"FAILED_PRECONDITION: .*stream/s"):
            stream_batch(lake, name, number, *again, **user)
    with pytest.raises(InvalidArgument, match="repeat or skip"):
        stream_batch(lake, name, 1, *again, **user, resume="again")
    for _ in range(2):
        stream_batch(lake, name, 1, *again, **user, resume=how)
    assert [row[1] for row in found(lake, name)] == ([0, 1] if how == "repeat" else [0])
    stream_batch(lake, name, 2, [{"id": 2, "text": "c"}], **user)
    assert [row[1] for row in found(lake, name)] == ([0, 1, 2] if how == "repeat" else [0, 2])
