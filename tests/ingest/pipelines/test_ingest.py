"""Each object of a source is taken once: whoever takes it, wherever a process stops, whatever becomes of the object meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import PipelinesSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.state.ledger import Ledger
from lakewarden.errors import Conflict, FailedPrecondition, NotFound
from lakewarden.ingest.pipelines.report import IngestReport
from tests.fixtures.children import KILLED, exit_status, killed_at
from tests.ingest.pipelines.uploads import ingest, make, place, rejects, rows, table, upload
from tests.maintenance.steps import Died, dies, then

STEPS = (
    "ingest:planned",
    "ingest:batch",
    "ingest:read",
    "ingest:grown",
    "ingest:named",
    "ingest:committed",
    "ingest:rejects",
    "ingest:settled",
)


def some(*fast: str) -> list[ParameterSet]:
    """All steps, of which only some are tried by `make test-fast`."""
    return [pytest.param(step, marks=() if step in fast else pytest.mark.slow) for step in STEPS]


A, B = "id,name\n1,a\n2,b\n", "id,name\n3,c\n"


IN_TASKS = Settings(pipelines=PipelinesSettings(spark_objects=1))


@pytest.fixture(params=["here", pytest.param("tasks", marks=pytest.mark.slow)])
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lakehouse]:
    """Objects are read by the process that ingests; or all of them by tasks."""
    with Lakehouse.open(str(tmp_path / "w"), settings=IN_TASKS if request.param == "tasks" else Settings()) as opened:
        yield opened


def test_what_is_uploaded_is_taken_once(lake: Lakehouse) -> None:
    make(lake)
    upload(lake, {"a.csv": A, "deep/er/B.CSV": B, "c.txt": "no"})
    first, again = ingest(lake), ingest(lake)
    assert (first.ingested, first.rows, first.skipped, first.batches) == (2, 3, 1, 1)
    assert (again.ingested, again.skipped, again.batches) == (0, 3, 0)
    assert table(lake) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_new_version_of_an_object_replaces_its_rows_in_one_commit(lake: Lakehouse) -> None:
    make(lake)
    upload(lake, {"a.csv": A, "b.csv": B})
    before = ingest(lake).version
    upload(lake, {"a.csv": "id,name\n9,z\n"})
    assert ingest(lake).version == (before or 0) + 1
    assert table(lake) == [(3, "c"), (9, "z")]


def test_a_new_version_that_cannot_be_read_leaves_the_rows_of_the_old_one(lake: Lakehouse) -> None:
    make(lake)
    upload(lake, {"a.csv": A, "b.csv": B})
    ingest(lake)
    upload(lake, {"a.csv": "id,name\n1\n", "b.csv": "id,name\n4,d\n"})
    assert (ingest(lake).rejected, list(rejects(lake))) == (1, ["a.csv"])
    assert table(lake) == [(1, "a"), (2, "b"), (4, "d")]


def test_keyed_rows_are_replaced_by_their_keys(lake: Lakehouse) -> None:
    make(lake, "PRIMARY_KEY = (id)")
    upload(lake, {"a.csv": A})
    ingest(lake)
    lake.sql("UPDATE n.t SET name = 'mine' WHERE id = 2")
    upload(lake, {"b.csv": "id,name\n2,first\n2,second\n5,e\n"})
    ingest(lake)
    assert table(lake) == [(1, "a"), (2, "second"), (5, "e")]


@pytest.mark.covering
@pytest.mark.parametrize("step", some("ingest:named", "ingest:rejects"))
def test_a_process_that_dies_leaves_the_batch_to_the_next_one(lake: Lakehouse, step: str) -> None:
    make(lake)
    upload(lake, {"a.csv": A, "bad.csv": "id,name\n1\n"})
    with pytest.raises(Died):
        ingest(lake, reach=dies(step))
    upload(lake, {"b.csv": B})
    ingest(lake)
    ingest(lake)
    assert table(lake) == [(1, "a"), (2, "b"), (3, "c")]
    assert list(rejects(lake)) == ["bad.csv"]


@pytest.mark.covering
@pytest.mark.parametrize("step", some("ingest:named"))
def test_two_at_once_take_each_object_once(lake: Lakehouse, step: str) -> None:
    make(lake)
    upload(lake, {"a.csv": A, "bad.csv": "id,name\n1\n"})
    done: list[object] = []

    def other() -> None:
        if not done:
            done.append(ingest(lake))

    ingest(lake, reach=then(step, other))
    assert table(lake) == [(1, "a"), (2, "b")]
    assert list(rejects(lake)) == ["bad.csv"]
    assert ingest(lake).batches == 0


@pytest.mark.parametrize("step", some("ingest:batch", "ingest:named")[1:])
def test_whoever_names_an_object_hears_of_it_though_another_finished_its_batch(lake: Lakehouse, step: str) -> None:
    make(lake)
    upload(lake, {"a.csv": A, "b.csv": B})
    done: list[IngestReport] = []

    def other() -> None:
        if not done:
            done.append(ingest(lake))

    report = ingest(lake, "a.csv", "b.csv", reach=then(step, other))
    assert [one.object for one in report.objects] == ["a.csv", "b.csv"]
    assert report.ingested + done[0].ingested >= 2, "whoever made the batch count counts it"
    elsewhere = [one for one in report.objects if one.outcome != "ingested"]
    assert {(one.outcome, "another ingest finished batch" in one.reason) for one in elsewhere} <= {("known", True)}


def test_an_object_that_another_found_gone_is_told_as_left(lake: Lakehouse) -> None:
    make(lake)
    upload(lake, {"a.csv": A})

    def other() -> None:
        (place(lake) / "a.csv").rename(place(lake) / "a.away")
        ingest(lake)

    (told,) = ingest(lake, "a.csv", reach=then("ingest:batch", other)).objects
    assert (told.object, told.outcome) == ("a.csv", "left")


@pytest.mark.slow
def test_each_row_is_there_once_after_a_kill_at_every_step(lake: Lakehouse) -> None:
    make(lake)
    for number, step in enumerate(STEPS):
        upload(lake, {f"{number}.csv": f"id,name\n{number},x\n", f"bad{number}.csv": "id,name\n1\n"})
        assert exit_status(_killed, lake.warehouse.uri, lake.warehouse.settings, step) == KILLED
    ingest(lake)
    assert table(lake, "id") == [(number,) for number in range(len(STEPS))]
    assert len(rejects(lake)) == len(STEPS)


def _killed(uri: str, settings: Settings, step: str) -> None:
    with Lakehouse.open(uri, settings=settings) as lake:
        ingest(lake, reach=killed_at(step))


@pytest.mark.covering
@pytest.mark.parametrize("step", some("ingest:batch"))
def test_an_object_that_changes_under_a_batch_counts_as_it_is_read(lake: Lakehouse, step: str) -> None:
    make(lake)
    upload(lake, {"a.csv": A, "b.csv": B})
    with pytest.raises(Died):
        ingest(lake, reach=dies(step))
    upload(lake, {"a.csv": "id,name\n7,new\n"})
    ingest(lake)
    assert table(lake) == [(3, "c"), (7, "new")]


def test_an_object_that_is_gone_leaves_its_batch_and_may_come_back(lake: Lakehouse) -> None:
    make(lake)
    upload(lake, {"a.csv": A, "b.csv": B})
    (place(lake) / "a.csv").rename(place(lake) / "a.away")
    (place(lake) / "a.away").rename(place(lake) / "a.csv")
    gone = partial((place(lake) / "a.csv").rename, place(lake) / "a.away")
    report = ingest(lake, reach=then("ingest:batch", gone))
    assert (report.ingested, report.left) == (1, 1)
    assert table(lake) == [(3, "c")]
    (place(lake) / "a.away").rename(place(lake) / "a.csv")
    assert ingest(lake).ingested == 1, "the same object with the same ETag: it was never taken"
    assert table(lake) == [(1, "a"), (2, "b"), (3, "c")]


def test_of_two_attempts_the_one_that_counts_says_what_was_taken(lake: Lakehouse) -> None:
    """One sees the object, and dies before its commit; the other does not, and commits. The object comes back."""
    make(lake)
    upload(lake, {"a.csv": A, "b.csv": B})
    with pytest.raises(Died):
        ingest(lake, reach=dies("ingest:named"))
    (place(lake) / "a.csv").rename(place(lake) / "a.away")
    ingest(lake)
    (place(lake) / "a.away").rename(place(lake) / "a.csv")
    assert ingest(lake).ingested == 1
    assert table(lake) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_batch_that_is_given_up_under_an_attempt_does_not_land(lake: Lakehouse) -> None:
    """It is the ledger's last entry, and a repair gives up all up to it: its objects come by another batch, which replaces what
    is there of them."""
    make(lake)
    upload(lake, {"a.csv": A})
    ledger = Ledger(lake.warehouse.state, lake.pipelines.all()[0].id)

    def give_up() -> None:
        if not ledger.look().lost:
            ledger.give_up(1, ledger.look().next - 1)

    ingest(lake, reach=then("ingest:batch", give_up))
    ingest(lake)
    assert table(lake) == [(1, "a"), (2, "b")]
    given_up, batch, attempt = 1, 2, 3
    assert lake.table("n.t").direct.last_once(ledger.pipeline_id) == attempt > batch > given_up


@pytest.mark.parametrize("step", ["ingest:read", "ingest:named"])
def test_a_process_that_lost_takes_the_outcome_of_the_attempt_that_counts(lake: Lakehouse, step: str) -> None:
    """It has read an object that was gone for the one whose commit came first, which died before it said so."""
    make(lake)
    upload(lake, {"a.csv": A, "b.csv": B})

    def other() -> None:
        (place(lake) / "a.csv").rename(place(lake) / "a.away")
        with pytest.raises(Died):
            ingest(lake, reach=dies("ingest:committed"))
        (place(lake) / "a.away").rename(place(lake) / "a.csv")

    ingest(lake, reach=then(step, other))
    ingest(lake)
    assert table(lake) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_batch_of_rejects_alone_counts_before_there_is_a_schema(lake: Lakehouse) -> None:
    make(lake)
    upload(lake, {"bad.csv": "id,name\n1\n"})
    with pytest.raises(Died):
        ingest(lake, reach=dies("ingest:named"))
    assert ingest(lake).rejected == 1
    assert ingest(lake).batches == 0
    assert list(rejects(lake)) == ["bad.csv"]
    with pytest.raises(FailedPrecondition, match="schema not materialized yet"):
        table(lake)


def test_an_object_that_is_read_at_last_is_no_reject_any_more(lake: Lakehouse) -> None:
    make(lake)
    upload(lake, {"a.csv": A, "bad.csv": "id,name\n1\n"})
    ingest(lake)
    upload(lake, {"bad.csv": "id,name\n8,fixed\n"})
    ingest(lake)
    assert rejects(lake) == {}
    assert table(lake) == [(1, "a"), (2, "b"), (8, "fixed")]


@pytest.mark.slow
def test_rejects_are_written_by_batches_that_have_some_and_read_where_an_object_comes_again(lake: Lakehouse) -> None:
    make(lake)
    upload(lake, {"a.csv": A})
    ingest(lake)
    assert _commits_of_rejects(lake) == []
    for number in range(2):
        upload(lake, {f"bad{number}.csv": "id,name\n1\n", f"{number}.csv": B})
        ingest(lake)
    assert _commits_of_rejects(lake) == ["WRITE", "WRITE"], "an object that is new has no reject"
    upload(lake, {"bad0.csv": B})
    ingest(lake)
    assert (_commits_of_rejects(lake)[0], list(rejects(lake))) == ("MERGE", ["bad1.csv"])


def _commits_of_rejects(lake: Lakehouse) -> list[str]:
    """Newest first."""
    return [entry.operation for entry in lake.table("n.t_rejects").history() if entry.operation in ("WRITE", "MERGE")]


def test_a_column_that_two_objects_of_a_batch_bring_has_the_type_that_the_first_gave_it(lake: Lakehouse) -> None:
    make(lake)
    upload(lake, {"1.csv": A})
    ingest(lake)
    upload(lake, {"2.csv": "id,name,x,y\n3,c,text,5\n", "3.csv": "id,name,x,y\n4,d,007,6\n", "4.csv": "id,name,y\n5,e,six\n"})
    assert ingest(lake).batches == 1
    assert table(lake, "id, x, y")[2:] == [(3, "text", 5), (4, "007", 6)]
    assert "'y', line 2: 'six' does not fit BIGINT" in rejects(lake)["4.csv"]


def test_columns_are_added_and_never_taken_away_or_changed(lake: Lakehouse) -> None:
    make(lake)
    upload(lake, {"1.csv": A})
    ingest(lake)
    upload(lake, {"2.csv": "id,name,more\n3,c,x\n", "3.csv": "id\n4\n", "4.csv": "id,name\nfour,d\n", "5.csv": "name,id\ne,5\n"})
    ingest(lake)
    assert table(lake, "id, name, more") == [(1, "a", None), (2, "b", None), (3, "c", "x"), (5, "e", None)]
    found = rejects(lake)
    assert "lacks name" in found["3.csv"]
    assert "'id', line 2: 'four' does not fit BIGINT" in found["4.csv"]


def test_named_objects_are_taken_again_and_whatever_the_rule_says(lake: Lakehouse) -> None:
    make(lake)
    upload(lake, {"a.csv": A, "b.data": B})
    ingest(lake)
    report = ingest(lake, "a.csv", str(place(lake) / "b.data"))
    assert (report.ingested, [one.object for one in report.objects]) == (2, ["a.csv", "b.data"])
    assert table(lake) == [(1, "a"), (2, "b"), (3, "c")]
    for name in ("no.csv", "../w", "/etc/passwd", "", "a\0b"):
        with pytest.raises(NotFound):
            ingest(lake, name)


@pytest.mark.slow
@pytest.mark.parametrize("lake", ["here", pytest.param("tasks", marks=pytest.mark.spark)], indirect=True)
def test_objects_elsewhere_are_taken_by_the_operator(lake: Lakehouse, tmp_path: Path) -> None:
    make(lake)
    (tmp_path / "else").mkdir()
    for number in (1, 2):
        (tmp_path / "else" / f"{number}.csv").write_text(f"id,name\n{number},x\n")
    assert lake.ingest("n.t", str(tmp_path / "else" / "*.csv")).ingested == 2
    assert table(lake, "id, _object") == [(1, f"{tmp_path}/else/1.csv"), (2, f"{tmp_path}/else/2.csv")]
    assert lake.ingest("n.t", str(tmp_path / "else" / "1.csv")).ingested == 1
    assert table(lake, "id") == [(1,), (2,)]


def test_a_rule_edited_while_objects_arrive_counts_from_the_next_batch(lake: Lakehouse) -> None:
    make(lake)
    upload(lake, {"a.csv": A, "b.dat": "id,name\n3,c\n"})
    (rule,) = rows(lake, "SHOW RULES")

    def edit() -> None:
        lake.sql(f"ALTER RULE {rule['rule_id']} SET GLOBS = ('**/*.dat')")

    ingest(lake, reach=then("ingest:settled", edit))
    upload(lake, {"later.csv": "id,name\n9,no\n"})
    ingest(lake)
    assert table(lake) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_limit_leaves_the_rest_for_the_next_ingest(lake: Lakehouse) -> None:
    make(lake)
    upload(lake, {f"{number}.csv": f"id,name\n{number},x\n" for number in range(5)})
    reports = [ingest(lake, limit=2) for _ in range(3)]
    assert [(report.ingested, report.more) for report in reports] == [(2, True), (2, True), (1, False)]


def test_a_table_that_was_dropped_takes_nothing_and_its_pipeline_stays(lake: Lakehouse) -> None:
    make(lake)
    upload(lake, {"a.csv": A})
    ingest(lake)
    lake.sql("DROP TABLE n.t")
    with pytest.raises(NotFound):
        ingest(lake)
    (found,) = rows(lake, "SHOW PIPELINES")
    assert found["status"] == "without table"
    lake.sql("CREATE SHARED TABLE n.t FROM TEMPLATE csv")
    assert ingest(lake).ingested == 1, "another table, another ledger"
    assert len(rows(lake, "SHOW RULES")) == 2
    lake.sql(f"DROP PIPELINE {found['pipeline_id']}")
    assert len(rows(lake, "SHOW RULES")) == 1


def test_a_drop_under_an_ingest_ends_it(lake: Lakehouse) -> None:
    make(lake)
    upload(lake, {"a.csv": A})
    with pytest.raises((NotFound, Conflict)):
        ingest(lake, reach=then("ingest:named", lambda: lake.sql("DROP TABLE n.t")))


def test_a_disabled_engine_and_a_disabled_rule_take_nothing(lake: Lakehouse) -> None:
    make(lake)
    upload(lake, {"a.csv": A})
    (rule,) = rows(lake, "SHOW RULES")
    lake.sql(f"ALTER RULE {rule['rule_id']} SET ENABLED = false")
    with pytest.raises(FailedPrecondition, match="is disabled"):
        ingest(lake)
    assert ingest(lake, "a.csv").ingested == 1, "forced"
    lake.sql("DISABLE ENGINE n")
    with pytest.raises(FailedPrecondition, match="engine"):
        ingest(lake, "a.csv")


def test_an_engine_that_is_disabled_under_an_ingest_takes_no_further_batch(tmp_path: Path) -> None:
    with Lakehouse.open(str(tmp_path / "w"), settings=Settings(pipelines=PipelinesSettings(batch_objects=1))) as lake:
        make(lake)
        upload(lake, {"a.csv": A, "b.csv": B})
        with pytest.raises(FailedPrecondition, match="engine"):
            ingest(lake, reach=then("ingest:settled", lambda: lake.sql("DISABLE ENGINE n")))
        (pipeline,) = lake.warehouse.catalog.read().pipelines
        assert Ledger(lake.warehouse.state, pipeline).look().open == (), "no batch waits that may not be taken"
        lake.sql("ENABLE ENGINE n")
        assert (ingest(lake).ingested, table(lake)) == (1, [(1, "a"), (2, "b"), (3, "c")])
