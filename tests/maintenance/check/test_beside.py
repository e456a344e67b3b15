"""What works beside a look finds nothing broken: catalog, log and tables are read one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import pytest

from lakewarden import Lakehouse
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.store import CatalogStore
from lakewarden.log.logs import Logs
from lakewarden.log.objects.log_view import LogViews
from lakewarden.maintenance.check.memory import recheck
from lakewarden.maintenance.check.run import check
from lakewarden.maintenance.scopes import scopes_of
from lakewarden.storage.steps import Steps
from lakewarden.tables.fanout import SizedWork, run_here
from lakewarden.tables.warehouse import find_table
from tests.fixtures.bucket import path_of
from tests.fixtures.lakes import NOTES, make_notes, notes

T = TypeVar("T")
R = TypeVar("R")


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    with Lakehouse.open(warehouse_uri) as lake:
        for turn in range(3):
            for user in ("ann", "bob"):
                make_notes(lake).write(notes({turn: "text"}), user=user)
            lake.flush()
        yield lake


def _flush(lake: Lakehouse) -> None:
    lake.table(NOTES).write(notes({7: "later"}), user="ann")
    lake.flush()


def _alter(lake: Lakehouse, clause: str) -> None:
    lake.sql(f"ALTER TABLE {NOTES} {clause}")
    for user in ("ann", "bob"):
        lake.sql(f"INSERT INTO {NOTES} (id) VALUES (8)", user=user, role="user")
    lake.flush()


def _drop(lake: Lakehouse) -> None:
    lake.sql(f"DROP TABLE {NOTES}")


def _rewrite(lake: Lakehouse) -> None:
    lake.optimize(NOTES, zorder=["text"])
    lake.vacuum(NOTES, retain_hours=0, force=True, dry_run=False)


ADD = partial(_alter, clause="ADD COLUMN more INT")
EVENTS: dict[str, Callable[[Lakehouse], object]] = {
    "flush": _flush,
    "add a column": ADD,
    "drop a column": partial(_alter, clause="DROP COLUMN text"),
    "rename a column": partial(_alter, clause="RENAME COLUMN text TO words"),
    "rewrite and vacuum": _rewrite,
    "restore": lambda lake: lake.restore(NOTES, user="ann", version=0, dry_run=False),
    "erase": lambda lake: lake.erase("bob"),
    "drop the table": _drop,
}


def _once_before(event: Callable[[], object]) -> Callable[[], None]:
    left = [event]

    def act() -> None:
        if left:
            left.pop()()

    return act


class Behind:
    """A `Run` before whose first task something else happens: after all that its driver reads."""

    def __init__(self, event: Callable[[], object]) -> None:
        self._act = _once_before(event)

    def __call__(self, work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]:
        self._act()
        return run_here(work, items)


def _kept(lake: Lakehouse) -> list[str]:
    return [one.reason for one in lake.status() if one.code]


@pytest.mark.covering
@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
@pytest.mark.parametrize("quick", [False, True], ids=["all", "quick"])
def test_a_check_finds_nothing_wrong(
    lake: Lakehouse, event: Callable[[Lakehouse], object], quick: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if quick:  # as if nothing were known: each scope is opened
        monkeypatch.setattr(
            "lakewarden.maintenance.check.run._to_open", lambda at, _, table, **_quick: (scopes_of(at, table, None), ())
        )
    with Lakehouse.open(lake.warehouse.uri) as other:
        found = check(lake.warehouse, Behind(lambda: event(other)), None, quick=quick)
    assert not [one for one in found if not one.passed]
    assert _kept(lake) == []


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_nor_does_a_check_of_single_scopes(lake: Lakehouse, event: Callable[[Lakehouse], object]) -> None:
    table = find_table(lake.warehouse.catalog.read(), make_notes(lake).table.name)
    with Lakehouse.open(lake.warehouse.uri) as other:
        recheck(lake.warehouse, Behind(lambda: event(other)), scopes_of(lake.warehouse, table, None))
    assert _kept(lake) == []


def test_rows_that_are_flushed_before_each_look_are_no_strangers(lake: Lakehouse) -> None:
    with Lakehouse.open(lake.warehouse.uri) as other:

        def run(work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]:
            _flush(other)
            return run_here(work, items)

        assert not [one for one in check(lake.warehouse, run, None) if not one.passed]
    assert _kept(lake) == []


def test_what_is_wrong_in_both_looks_is_said(lake: Lakehouse) -> None:
    with Lakehouse.open(lake.warehouse.uri) as other:

        def damage() -> None:
            ADD(other)
            root = lake.warehouse.location(lake.warehouse.catalog.read().storages["local"]).uri
            for file in (path_of(root) / "chat/notes/bob").glob("*.parquet"):
                file.unlink()

        found = check(lake.warehouse, Behind(damage), None)
    assert {one.subject for one in found if not one.passed} == {f"{NOTES}[bob]"}
    assert len(_kept(lake)) == 1


OPERATIONS: dict[str, Callable[[Lakehouse], Sequence[ScopeReport]]] = {
    "flush": lambda lake: lake.flush(),
    "compact": lambda lake: lake.compact(NOTES),
    "optimize": lambda lake: lake.optimize(NOTES, zorder=["id"]),
    "vacuum": lambda lake: lake.vacuum(NOTES, retain_hours=0, force=True, dry_run=False),
    "restore": lambda lake: lake.restore(NOTES, user="ann", version=1, dry_run=False),
}


@pytest.mark.covering
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_an_operation_keeps_nothing_as_broken(
    lake: Lakehouse,
    operation: Callable[[Lakehouse], Sequence[ScopeReport]],
    event: Callable[[Lakehouse], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake.table(NOTES).write(notes({9: "waits"}), user="bob")
    with Lakehouse.open(lake.warehouse.uri) as other:
        act, read = _once_before(lambda: event(other)), CatalogStore.read

        def read_and_act(store: CatalogStore) -> Catalog:
            found = read(store)
            if store is lake.warehouse.catalog:
                act()
            return found

        monkeypatch.setattr(CatalogStore, "read", read_and_act)
        reports = operation(lake)
    monkeypatch.undo()
    faults = [one.fault for one in reports if one.fault is not None]
    assert {one.code for one in faults} <= {"CONFLICT", "NOT_FOUND"}, faults
    assert not [one.message for one in faults if "repair" in one.message]
    assert _kept(lake) == []
    if event is not EVENTS["drop the table"] and event is not EVENTS["erase"]:
        assert not [one.fault for one in operation(lake) if one.fault is not None and one.fault.code != "NOT_FOUND"]


def test_the_fleet_is_shown_where_a_table_is_dropped_meanwhile(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.table(NOTES).write(notes({9: "waits"}), user="bob")
    with Lakehouse.open(lake.warehouse.uri) as other:
        views = type(lake.warehouse.logs).views

        def views_and_drop(logs: Logs) -> LogViews:
            found = views(logs)
            _drop(other)
            return found

        monkeypatch.setattr(type(lake.warehouse.logs), "views", views_and_drop)
        assert [one.table for one in lake.status()] == [NOTES]
    monkeypatch.undo()
    assert lake.status() == []
