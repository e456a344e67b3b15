from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.base.clock import random_id
from lakewarden.base.setting_sections import LogSettings
from lakewarden.errors import Conflict, Corrupt
from lakewarden.log.drain import DrainResult, LogScope, drain, read_hot
from lakewarden.log.log_reader import LogReader
from lakewarden.log.objects.cuts.settle import CutTerms, settle
from lakewarden.log.position import end_of
from lakewarden.storage.steps import Steps, alone
from tests.log.build import LOG, NOTES, Store, ids_of, notes, view_of, writer


@dataclass
class Ledger:
    """A cold scope that takes rows in the order of their commits."""

    mark: int | None = None
    ids: list[int] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: None

    def watermark(self) -> int | None:
        return self.mark

    def commit(self, rows: pa.Table, end: int) -> Steps[None]:
        yield "memory://tables"
        before = self.mark
        self.meanwhile()
        if self.mark != before:
            raise Conflict("another commit came between")
        self.ids = [*self.ids, *ids_of(rows)]
        self.mark = end


def scope(store: Store) -> LogScope:
    return LogScope.of(LogReader(store, LOG), view_of(store), "u", (NOTES,))


def test_pending_rows_are_committed_once(store: Store) -> None:
    ledger = Ledger()
    writer(store).append(notes("u", 1, 2))
    assert alone(drain(scope(store), lambda: ledger, attempts=1)) == DrainResult(end_of(0), committed=True)
    writer(store).append(notes("u", 3))
    assert alone(drain(scope(store), lambda: ledger, attempts=1)) == DrainResult(end_of(1), committed=True)
    assert alone(drain(scope(store), lambda: ledger, attempts=1)) == DrainResult(end_of(1), committed=False)
    assert ledger.ids == [1, 2, 3]


def test_the_loser_of_a_race_starts_again(store: Store) -> None:
    ledger = Ledger()
    writer(store).append(notes("u", 1))
    late = scope(store)

    def faster() -> None:
        ledger.meanwhile = lambda: None
        writer(store).append(notes("u", 2))
        alone(drain(scope(store), lambda: ledger, attempts=1))

    ledger.meanwhile = faster
    assert alone(drain(late, lambda: ledger, attempts=2)) == DrainResult(end_of(1), committed=False)
    assert ledger.ids == [1, 2]


def test_rows_that_were_settled_meanwhile_are_looked_for_again(store: Store) -> None:
    ledger = Ledger()
    writer(store).append(notes("u", 1))
    late, view = scope(store), view_of(store)
    settle(store, view, {"u": view.end}, CutTerms(LogSettings(), random_id))
    writer(store).append(notes("u", 2))
    assert alone(drain(late, lambda: ledger, attempts=2)) == DrainResult(end_of(1), committed=True)
    assert ledger.ids == [2]


def test_attempts_are_bounded(store: Store) -> None:
    def lose() -> None:
        raise Conflict("compacted meanwhile")

    ledger = Ledger(meanwhile=lose)
    writer(store).append(notes("u", 1))
    with pytest.raises(Conflict, match="another commit came first in all 3 attempts; the last time: compacted meanwhile"):
        alone(drain(scope(store), lambda: ledger, attempts=3))


def test_a_watermark_beyond_the_log_is_corrupt_never_nothing_to_do(store: Store) -> None:
    writer(store).append(notes("u", 1))
    with pytest.raises(Corrupt, match="copied, imported, or belongs to another warehouse"):
        alone(drain(scope(store), lambda: Ledger(mark=end_of(1)), attempts=1))
    with pytest.raises(Corrupt):
        read_hot(lambda: scope(store), lambda: Ledger(mark=end_of(1)))


def test_a_strong_read_has_what_the_table_has_not(store: Store) -> None:
    ledger = Ledger()
    writer(store).append(notes("u", 1))
    alone(drain(scope(store), lambda: ledger, attempts=1))
    assert read_hot(lambda: scope(store), lambda: ledger).rows is None
    writer(store).append(notes("u", 2))
    read = read_hot(lambda: scope(store), lambda: ledger)
    assert read.rows is not None
    assert (read.rows.column("id").to_pylist(), read.end) == ([2], end_of(1))


def test_a_flush_between_the_two_looks_of_a_strong_read_hides_nothing(store: Store) -> None:
    ledger = Ledger()
    writer(store).append(notes("u", 1))
    looks = [lambda: scope(store), lambda: ledger]

    def flushed_meanwhile(look: Callable[[], Any]) -> Callable[[], Any]:
        def first() -> Any:
            found = replace(look())
            if ledger.mark is None:
                view = view_of(store)
                alone(drain(scope(store), lambda: ledger, attempts=1))
                settle(store, view, {"u": view.end}, CutTerms(LogSettings(), random_id))
            return found

        return first

    read = read_hot(*map(flushed_meanwhile, looks))
    rows = [] if read.rows is None else ids_of(read.rows)
    assert rows + read.cold.ids == [1]
