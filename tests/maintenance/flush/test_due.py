"""The registry of scopes, which a process's next flush of the same users does not ask."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from lakewarden import Lakehouse
from tests.fixtures.lakes import NOTES, eventual, lake_fixture, make_notes, notes

lake = lake_fixture(make_notes)


def _flush(lake: Lakehouse, user: str, rows: dict[int, str]) -> None:
    lake.table(NOTES).write(notes(rows), user=user)
    assert [report.outcome for report in lake.flush(NOTES)] == ["done"]


def test_the_next_flush_of_the_same_user_reads_neither_the_registry_nor_the_catalog_again(
    lake: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    _flush(lake, "ann", {1: "a"})
    lake.table(NOTES).write(notes({2: "b"}), user="ann")
    read = Mock(wraps=lake.warehouse.catalog.read)
    known = Mock(wraps=lake.warehouse.registry.known)
    monkeypatch.setattr(lake.warehouse.catalog, "read", read)
    monkeypatch.setattr(lake.warehouse.registry, "known", known)
    lake.flush(NOTES)
    assert (read.call_count, known.call_count) == (1, 0)
    _flush(lake, "bob", {3: "c"})
    assert known.call_count == 1


def test_the_first_flush_of_a_process_reads_the_catalog_again_for_whom_the_floors_do_not_know(
    lake: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    _flush(lake, "ann", {1: "a"})
    for users, reads in ((("ann",), 1), (("ann", "bob"), 2), (("ann", "bob"), 1)):
        for user in users:
            lake.table(NOTES).write(notes({2: "b"}), user=user)
        with Lakehouse.open(lake.warehouse.uri) as other:
            read = Mock(wraps=other.warehouse.catalog.read)
            known = Mock(wraps=other.warehouse.registry.known)
            monkeypatch.setattr(other.warehouse.catalog, "read", read)
            monkeypatch.setattr(other.warehouse.registry, "known", known)
            assert {report.outcome for report in other.flush(NOTES)} == {"done"}
        assert (read.call_count, known.call_count) == (reads, 1)


def test_who_is_erased_by_another_process_and_comes_back_is_registered_again(lake: Lakehouse) -> None:
    _flush(lake, "ann", {1: "a"})
    with Lakehouse.open(lake.warehouse.uri) as other:
        other.erase("ann")
        assert other.table(NOTES).users() == []
        _flush(lake, "ann", {2: "again"})
        assert other.table(NOTES).users() == ["ann"]
        assert eventual(other.table(NOTES), "ann") == {2: "again"}
