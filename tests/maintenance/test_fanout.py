"""How work over many scopes is packed, and how one scope's fault stays its own."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import Conflict, NotFound
from lakewarden.storage.steps import Steps, alone, in_one_step
from lakewarden.tables.fanout import SizedWork, fault_of, guarded, in_process, pack
from tests.delta.scopes import target

_NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _sized(*sizes: int) -> list[SizedWork[int]]:
    return [SizedWork(number, size) for number, size in enumerate(sizes)]


@given(st.lists(st.integers(0, 100)), st.integers(1, 150), st.integers(1, 7))
def test_packs_hold_every_item_once_and_keep_their_bounds(sizes: list[int], max_bytes: int, max_items: int) -> None:
    packs = pack(_sized(*sizes), max_bytes=max_bytes, max_items=max_items)
    assert sorted(index for each in packs for index in each) == list(range(len(sizes)))
    for each in packs:
        assert 1 <= len(each) <= max_items
        assert len(each) == 1 or sum(sizes[index] for index in each) <= max_bytes


def test_a_big_tenant_has_a_pack_of_its_own_and_comes_first() -> None:
    packs = pack(_sized(1, 1, 500, 1, 1), max_bytes=10, max_items=100)
    assert packs == [[2], [0, 1, 3, 4]]


def test_thousands_of_small_scopes_fill_packs_evenly() -> None:
    packs = pack(_sized(*[10] * 1_000), max_bytes=250, max_items=250)
    assert {len(each) for each in packs} == {25}


def test_nothing_is_no_pack() -> None:
    assert pack([], max_bytes=1, max_items=1) == []


def test_in_process_results_keep_the_order_and_every_one_is_told() -> None:
    told: list[int] = []
    doubled = partial(in_one_step, lambda number: number * 2)
    assert in_process(doubled, _sized(*[1] * 250), told.append) == [number * 2 for number in range(250)]
    assert sum(told) == 250


@pytest.mark.parametrize(
    ("error", "code", "transient"),
    [(Conflict("lost"), "CONFLICT", True), (NotFound("gone"), "NOT_FOUND", False), (ValueError("odd"), "INTERNAL", False)],
)
def test_whatever_a_scope_raises_is_its_report(tmp_path: Path, error: Exception, code: str, transient: bool) -> None:
    def work() -> Steps[ScopeReport]:
        yield str(tmp_path)
        raise error

    scope = target(tmp_path)
    report = alone(guarded(scope, "flush", lambda: _NOON, work()))
    assert (report.scope, report.operation, report.outcome, report.uri) == (scope.scope, "flush", "failed", scope.uri)
    assert report.fault is not None
    assert (report.fault.code, report.fault.transient) == (code, transient)


def test_a_fault_of_ours_says_where_it_came_from() -> None:
    try:
        _odd()
    except ValueError as error:
        message = fault_of(error).message
    assert message.startswith("ValueError: odd (in _odd, line ")


def _odd() -> None:
    raise ValueError("odd")
