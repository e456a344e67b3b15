"""A user is erased, or the table dropped, and starts anew: who slept through it brings nothing back, on disk and on MinIO."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.errors import BeingErased, NotFound
from tests.fixtures.bucket import AnyPath, path_of
from tests.fixtures.lakes import NOTES, eventual, make_notes, notes, strong
from tests.fixtures.sleepers import sleeping_flush, sleeping_writer

pytestmark = [pytest.mark.both_stores, pytest.mark.covering(2)]

_OPTIONS = {"COMPRESSION": "none"}
_ENDS: dict[str, Callable[[Lakehouse], object]] = {
    "erase": lambda lake: lake.erase("ann"),
    "drop": lambda lake: lake.drop_table(NOTES),
}


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    with Lakehouse.open(warehouse_uri) as opened:
        table = make_notes(opened, options=_OPTIONS)
        table.write(notes({1: "old-token"}), user="ann")
        opened.flush()
        yield opened


def _check_anew(lake: Lakehouse) -> None:
    table = lake.table(NOTES)
    lake.flush()
    assert strong(table, "ann") == eventual(table, "ann") == {5: "anew"}
    assert lake.pending() == []
    paths: list[AnyPath] = [*path_of(lake.warehouse.uri).rglob("*")]
    files = [path for path in paths if not (isinstance(path, Path) and path.is_dir())]
    assert [str(path) for path in files if b"old-token" in path.read_bytes()] == []
    assert [finding for finding in lake.check() if not finding.passed] == []
    assert {found.key.split("/")[1] for found in lake.warehouse.state.list("scopes")} == {table.table.id}


@pytest.mark.parametrize("end", _ENDS)
@pytest.mark.parametrize("place", ["planned", "after-data-file", "after-commit"])
def test_a_flush_that_slept_through_it(lake: Lakehouse, end: str, place: str) -> None:
    lake.table(NOTES).write(notes({2: "old-token"}), user="ann")
    flush = sleeping_flush(lake, place)
    _ENDS[end](lake)
    make_notes(lake, options=_OPTIONS).write(notes({5: "anew"}), user="ann")
    flush.wake()
    _check_anew(lake)


@pytest.mark.parametrize("end", _ENDS)
@pytest.mark.parametrize("place", ["append:put", "append:looked"])
def test_a_writer_that_slept_through_it(lake: Lakehouse, end: str, place: str) -> None:
    writer = sleeping_writer(lake.table(NOTES), place, notes({500: "old-token"}), "ann")
    lake.table(NOTES).write(notes({1: "of bob"}), user="bob")
    _ENDS[end](lake)
    make_notes(lake, options=_OPTIONS).write(notes({5: "anew"}), user="ann")
    writer.wake()
    if place == "append:put":  # behind the other look it was appended before, and went with the rest
        assert isinstance(writer.error, BeingErased if end == "erase" else NotFound)
    _check_anew(lake)
