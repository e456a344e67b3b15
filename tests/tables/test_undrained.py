"""`oltp_only` reads: what is in the write log and in no Delta table yet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakewarden import Lakehouse
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import InvalidArgument
from lakewarden.maintenance.flush.run import flush_scopes
from lakewarden.maintenance.flush_task import FlushTask
from lakewarden.tables.client import TableClient
from lakewarden.tables.fanout import in_process
from tests.fixtures.lakes import eventual, keys, make_notes, notes, strong


@pytest.fixture
def table(tmp_path: object) -> Iterator[TableClient]:
    with Lakehouse.open(f"{tmp_path}/w") as lake:
        yield make_notes(lake)


def oltp(table: TableClient, user: str) -> dict[int, str]:
    return {row["id"]: row["text"] for row in table.read(user=user, freshness="oltp_only").to_pylist()}


def test_it_sees_the_newest_undrained_row_of_each_key_and_no_deleted_one(table: TableClient) -> None:
    table.write(notes({1: "drained", 2: "drained"}), user="ann")
    flush_scopes(table.warehouse, lambda work, items: in_process(work, items, lambda _: None), _never, lambda _: True)
    assert oltp(table, "ann") == {}
    table.write(notes({2: "first", 3: "new", 4: "new"}), user="ann")
    table.write(notes({2: "second"}), user="ann")
    table.delete(keys([1, 4]), user="ann")
    table.write(notes({1: "bob's"}), user="bob")
    assert oltp(table, "ann") == {2: "second", 3: "new"}
    assert oltp(table, "bob") == {1: "bob's"}
    assert strong(table, "ann") == {2: "second", 3: "new"}
    assert eventual(table, "ann") == {1: "drained", 2: "drained"}


def test_rows_that_are_committed_and_not_settled_are_drained(table: TableClient) -> None:
    table.write(notes({1: "x"}), user="ann")

    def stop(step: str) -> None:
        if step == "after-commits":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        flush_scopes(
            table.warehouse, lambda work, items: in_process(work, items, lambda _: None), _never, lambda _: True, reach=stop
        )
    assert eventual(table, "ann") == {1: "x"}
    assert oltp(table, "ann") == {}


def test_another_word_is_refused(table: TableClient) -> None:
    with pytest.raises(InvalidArgument, match="'strong', 'eventual', 'oltp_only'"):
        table.read(user="ann", freshness="fresh")  # type: ignore[arg-type]


def _never(_task: FlushTask) -> ScopeReport:
    raise AssertionError("no scope is large")
