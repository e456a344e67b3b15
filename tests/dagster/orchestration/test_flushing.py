"""Which due scopes become runs: batches, back-off, and no scope twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakewarden.base.scope import Scope, TableName
from lakewarden.dagster.orchestration.flushing import FIRST_WAIT, LONGEST_WAIT, FlushRun, choose, flush_run
from lakewarden.maintenance.planning.pending import ScopeBacklog

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
TABLE = TableName("chat", "messages")
NOBODY: dict[str, object] = {"scopes": {"chat.messages": ["nobody"]}}


def pending(user: str, *, rows: int = 3, age: int = 60) -> ScopeBacklog:
    return ScopeBacklog(TABLE, user, rows, rows * 100, NOW - timedelta(seconds=age))


def failed(*users: str, ago: int) -> FlushRun:
    """A run that had seen everything until then, and failed `ago` seconds before now."""
    ended = NOW - timedelta(seconds=ago)
    return flush_run({"scopes": {"chat.messages": list(users)}}, ended, ended)


def test_due_scopes_are_split_into_runs_and_the_tick_has_a_cap() -> None:
    due = [pending(f"u_{i}") for i in range(10)]
    choice = choose(due, [], NOW, scopes_per_run=3, runs_per_tick=2)
    assert [batch.users for batch in choice.batches] == [
        {"chat.messages": ["u_0", "u_1", "u_2"]},
        {"chat.messages": ["u_3", "u_4", "u_5"]},
    ]
    assert str(choice) == "4 left for the next tick"


def test_the_key_tells_what_is_pending() -> None:
    keys = {choose([one], [], NOW).batches[0].key for one in (pending("a"), pending("a"), pending("b"), pending("a", rows=4))}
    assert len(keys) == 3


def test_a_scope_under_way_is_left_out_whoever_started_its_run() -> None:
    due = [pending("a"), pending("b")]
    exact = flush_run({"scopes": {"chat.messages": ["a"]}}, NOW, None)
    assert [batch.users for batch in choose(due, [exact], NOW).batches] == [{"chat.messages": ["b"]}]
    for config in ({"tables": ["chat.messages"]}, {"tables": ["chat.messages"], "user": "a"}, {}):
        assert choose(due, [flush_run(config, NOW, None)], NOW).under_way == 2
    assert choose(due, [flush_run({"tables": ["chat.rooms"]}, NOW, None)], NOW).under_way == 0


def test_a_shared_table_is_one_scope() -> None:
    shared = ScopeBacklog(TableName("chat", "rooms"), None, 1, 100, NOW)
    assert choose([shared], [], NOW).batches[0].users == {"chat.rooms": []}
    run = flush_run({"scopes": {"chat.rooms": []}}, NOW, None)
    assert run.covers(Scope(TableName("chat", "rooms")))
    assert not run.covers(Scope(TABLE, "a"))


def test_a_failed_scope_waits_longer_each_time_and_then_has_a_new_key() -> None:
    due = [pending("a", age=100_000)]
    first = choose(due, [], NOW).batches[0]
    once = [failed("a", ago=30)]
    assert choose(due, once, NOW).waiting == 1
    again = choose(due, once, NOW + FIRST_WAIT).batches[0]
    assert (again.pending, again.attempts) == (first.pending, 1)
    assert again.key != first.key
    twice = [*once, failed("a", ago=0)]
    assert choose(due, twice, NOW + FIRST_WAIT).waiting == 1
    assert choose(due, twice, NOW + 2 * FIRST_WAIT).batches[0].attempts == 2
    often = [failed("a", ago=0) for _ in range(40)]
    assert choose(due, often, NOW + LONGEST_WAIT).batches[0].attempts == 40


def test_those_that_a_failed_run_did_flush_do_not_wait() -> None:
    """Their rows are younger than what the run had seen."""
    old, new = pending("bad", age=100), pending("good", age=5)
    choice = choose([old, new], [failed("bad", "good", ago=10)], NOW)
    assert [batch.users for batch in choice.batches] == [{"chat.messages": ["good"]}]
    assert choice.waiting == 1


def test_a_bad_scope_goes_apart_from_the_good_ones() -> None:
    due = [pending("bad", age=500), pending("good", age=400)]
    choice = choose(due, [failed("bad", ago=300)], NOW)
    assert [(batch.users["chat.messages"], batch.attempts) for batch in choice.batches] == [(["good"], 0), (["bad"], 1)]


def test_names_that_somebody_mistyped_cover_nothing() -> None:
    due = [pending("a")]
    for config in ({"tables": ["messages"]}, {"scopes": {"a.b.c": ["a"]}}, NOBODY):
        assert choose(due, [flush_run(config, NOW, NOW)], NOW).waiting == 0
