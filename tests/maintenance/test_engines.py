"""A disabled engine refuses every door, deletes nothing, and leaves what is a person's right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.changes.engines import DISABLED
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import FailedPrecondition
from tests.fixtures.lakes import NOTES, make_notes, notes, strong

OTHER = "kb-prod.events"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    """Two namespaces, each with a flushed and a pending row; the engine of `chat` is disabled."""
    with Lakehouse.open(str(tmp_path_factory.mktemp("warehouse") / "w")) as opened:
        opened.create_namespace("kb-prod")
        columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
        opened.create_table(OTHER, columns=columns, primary_key=["id"])
        opened.create_namespace("chat")
        opened.create_table(
            "chat.ticks", type="STREAM", columns=[Column("id", "BIGINT")], primary_key=["id"], options={"TTL_SECONDS": "1"}
        )
        opened.create_table("chat.keyless", columns=columns)
        table = make_notes(opened, options={"FLUSH_POLICY": "rows:1"})
        for number in (1, 2):
            table.write(notes({number: "x"}), user="ann")
            opened.table(OTHER).write(notes({number: "x"}))
            if number == 1:
                opened.flush()
        opened.disable_engine("chat")
        yield opened


CALLS: dict[str, Callable[[Lakehouse], object]] = {
    "write": lambda lake: lake.table(NOTES).write(notes({3: "x"}), user="ann"),
    "insert": lambda lake: lake.table(NOTES).write(notes({3: "x"}), user="ann", mode="insert"),
    "delete": lambda lake: lake.table(NOTES).delete([{"id": 1}], user="ann"),
    "read": lambda lake: lake.table(NOTES).read(user="ann"),
    "eventual": lambda lake: lake.table(NOTES).read(user="ann", freshness="eventual"),
    "history": lambda lake: lake.table(NOTES).history(user="ann"),
    "pin": lambda lake: lake.table(NOTES).lease(user="ann", seconds=1),
    "stream": lambda lake: lake.table("chat.ticks").read(user="ann"),
    "flush": lambda lake: lake.flush(NOTES),
    "compact": lambda lake: lake.compact(NOTES),
    "optimize": lambda lake: lake.optimize(NOTES, user="ann"),
    "vacuum": lambda lake: lake.vacuum(NOTES),
    "restore": lambda lake: lake.restore(NOTES, user="ann", version=0),
    "evict": lambda lake: lake.evict("chat.ticks"),
    "move": lambda lake: lake.move(NOTES, "local"),
    "queue": lambda lake: lake.enqueue("flush", NOTES),
    "subscribe": lambda lake: lake.subscribe("SELECT * FROM chat.notes", user="ann", role="user"),
    "load": lambda lake: lake.load(NOTES, ["nothing.csv"], user="ann"),
    "direct": lambda lake: lake.table("chat.keyless").direct.append([]),
    "select": lambda lake: lake.sql("SELECT * FROM chat.notes"),
    "insert in SQL": lambda lake: lake.sql("INSERT INTO chat.notes VALUES (3, 'x')"),
    "from another": lambda lake: lake.sql('INSERT INTO "kb-prod".events SELECT * FROM chat.notes'),
    "create": lambda lake: lake.sql("CREATE TABLE chat.more (id INT PRIMARY KEY)"),
    "optimize in SQL": lambda lake: lake.sql("OPTIMIZE chat.notes"),
    "all of a namespace": lambda lake: lake.sql("STORAGE FLUSH ALL IN NAMESPACE chat"),
}


@pytest.mark.parametrize("call", CALLS)
def test_every_call_of_a_table_is_refused(lake: Lakehouse, call: str) -> None:
    with pytest.raises(FailedPrecondition, match="namespace 'chat' is disabled"):
        CALLS[call](lake)


def _outcomes(reports: list[ScopeReport]) -> set[tuple[str, str, str]]:
    return {(str(one.scope), one.outcome, one.reason) for one in reports if one.outcome != "skipped" or one.reason == DISABLED}


def test_a_job_over_all_tables_does_the_others(lake: Lakehouse) -> None:
    skipped = (NOTES, "skipped", DISABLED)
    planned = lake.plan("flush")
    assert [line.scope for line in planned.scopes] == [Scope(TableName.parse(OTHER))]
    assert skipped in _outcomes(lake.compact()) & _outcomes(lake.optimize()) & _outcomes(lake.vacuum())
    assert ("chat.ticks", "skipped", DISABLED) in _outcomes(lake.evict())
    assert _outcomes(lake.flush()) == {(OTHER, "done", ""), ("chat.keyless", "skipped", DISABLED), skipped}
    assert _outcomes(lake.flush_scopes([Scope(TableName.parse(NOTES), "ann")])) == {skipped}


def test_what_is_due_leaves_it_out_and_what_is_pending_shows_it(lake: Lakehouse) -> None:
    assert f"{NOTES}[ann]" in {str(one.scope) for one in lake.pending()}
    assert lake.due() == []
    assert [str(one.pending.scope) for one in lake.maintenance.status.held()] == [f"{NOTES}[ann]"]


def test_an_export_has_the_pending_rows_too(lake: Lakehouse, tmp_path: Path) -> None:
    (table,) = lake.export("ann", str(tmp_path / "out")).tables
    assert table.rows == 2
    assert all(finding.passed for finding in lake.check())


def test_enabling_it_brings_all_back(tmp_path: Path) -> None:
    with Lakehouse.open(str(tmp_path / "w")) as lake:
        table = make_notes(lake)
        table.write(notes({1: "one"}), user="ann")
        plan = lake.plan("flush", NOTES)
        lake.disable_engine("chat")
        (refused,) = lake.apply(plan)
        assert refused.fault is not None
        assert refused.fault.code == "FAILED_PRECONDITION"
        with pytest.raises(FailedPrecondition):
            table.write(notes({2: "two"}), user="ann")
        lake.enable_engine("chat")
        table.write(notes({2: "two"}), user="ann")
        assert strong(table, "ann") == {1: "one", 2: "two"}
        lake.disable_engine("chat")
        lake.erase("ann")
        lake.sql("DROP NAMESPACE chat CASCADE")
        assert lake.namespaces() == []
