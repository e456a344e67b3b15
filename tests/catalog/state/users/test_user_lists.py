"""Long lists of users: what a search reads, and damage that it notices."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakewarden.base.clock import random_id
from lakewarden.catalog.state import user_lists
from lakewarden.catalog.state.scope_registry import ScopeRegistry
from lakewarden.catalog.state.user_lists import LongList, ShortList, pack_users, read_users, repack_users
from lakewarden.errors import Corrupt
from lakewarden.maintenance.verify.contents import named_in_state
from lakewarden.storage.local import LocalObjects
from tests.fixtures.examples import examples

USERS = [f"u{number:03}" for number in range(100)]


class Counting(LocalObjects):
    """Counts reads and their bytes."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.reads: Counter[str] = Counter()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        found = super().get_range(key, start, length)
        self.reads.update(reads=1, bytes=len(found))
        return found


@pytest.fixture
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counting:
    monkeypatch.setattr(user_lists, "BLOCK", 5)
    monkeypatch.setattr(user_lists, "_FIRST_READ", 400)
    return Counting(tmp_path)


def _long(store: Counting, data: bytes) -> LongList:
    store.create("l", data)
    found = read_users(store, "l")
    assert isinstance(found, LongList)
    return found


def test_every_user_is_found_and_no_other(lists: Counting) -> None:
    found = _long(lists, pack_users(USERS, ["e"], in_blocks=True))
    assert (found.users, found.replaced) == (frozenset(USERS), frozenset({"e"}))
    assert [found.known([user]) for user in USERS] == [{user} for user in USERS]
    assert found.known(["", "u", "u0041", "u099a", "z", "u007"]) == {"u007"}
    assert found.known([]) == frozenset()


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    coming=st.sets(st.sampled_from([*USERS, "", "a", "u0041", "u055x", "u05", "z", "Ü"])), going=st.sets(st.sampled_from(USERS))
)
def test_a_long_list_changes_line_by_line(lists: Counting, coming: set[str], going: set[str]) -> None:
    lists.delete(["l", "n"])
    before = _long(lists, pack_users(USERS, None, in_blocks=True))
    lists.create("n", repack_users(before, coming, going, ["e"]))
    after, expected = read_users(lists, "n"), {*USERS, *coming} - going
    assert after.users == expected
    assert after.replaced == {"e"}
    assert after.known([*coming, *going]) == coming - going


def test_a_long_list_that_grows_has_more_lines_and_one_that_is_emptied_none(lists: Counting) -> None:
    grown = repack_users(_long(lists, pack_users(USERS, None, in_blocks=True)), [f"u0000{n}" for n in range(40)], (), ())
    lists.create("grown", grown)
    found = read_users(lists, "grown")
    assert isinstance(found, LongList)
    assert len(found.firsts) == 19 + 45 // 5
    lists.create("empty", repack_users(found, (), found.users, ()))
    assert read_users(lists, "empty") == ShortList()


def test_a_line_that_was_cut_off_is_in_no_fold(lists: Counting) -> None:
    found = _long(lists, pack_users(USERS, None, in_blocks=True)[:-3])
    with pytest.raises(Corrupt, match=r"/l is not a list of users"):
        repack_users(found, ["u007x"], (), ())


def test_a_search_reads_the_lines_that_may_have_the_users(lists: Counting) -> None:
    found = _long(lists, pack_users(USERS, None, in_blocks=True))
    lists.reads.clear()
    assert found.known(["u007", "u008", "u055"]) == {"u007", "u008", "u055"}
    assert lists.reads == {"reads": 2, "bytes": 2 * 41}


@pytest.mark.parametrize("damage", [(b'"u050"', b'"u05x"'), (b'"u051"', b'"u051x'), (b'"u010","', b'"u010" "')])
def test_a_damaged_line_is_corrupt(lists: Counting, damage: tuple[bytes, bytes]) -> None:
    head, newline, lines = pack_users(USERS, None, in_blocks=True).partition(b"\n")
    lines = lines.replace(b", ", b",").replace(*damage).replace(b",", b", ")
    found = _long(lists, head + newline + lines)
    with pytest.raises(Corrupt, match=r"/l is not a list of users"):
        assert found.users == frozenset(USERS)


def test_blocks_out_of_order_are_corrupt(lists: Counting) -> None:
    lists.create("l", pack_users([*USERS[50:], *USERS[:50]], None, in_blocks=True))
    with pytest.raises(Corrupt, match=r"/l is not a list of users"):
        read_users(lists, "l")


def test_a_list_whose_name_came_again_while_it_was_read_does_not_count(lists: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = ScopeRegistry(lists, random_id)
    registry.add("t", USERS)
    registry.discard("t", "u099")
    (fold,) = lists.list("scopes/t")
    data, read = lists.get(fold.key), lists.get_range

    def paused(key: str, start: int, length: int) -> bytes:
        if start:
            monkeypatch.setattr(lists, "get_range", read)
            ScopeRegistry(lists, random_id).discard("t", "u007")
            lists.create(fold.key, data)
        return read(key, start, length)

    monkeypatch.setattr(lists, "get_range", paused)
    assert ScopeRegistry(lists, random_id).known("t", ["u007", "u008"]) == {"u008"}


def test_a_warehouse_of_an_older_format_gets_no_blocks(lists: Counting) -> None:
    ScopeRegistry(lists, random_id, in_blocks=False).add("t", USERS)
    (entry,) = lists.list("scopes/t")
    assert b"\n" not in lists.get(entry.key)
    assert ScopeRegistry(lists, random_id).known("t", ["u044", "x"]) == {"u044"}


def test_the_search_for_what_an_erasure_left_reads_every_line() -> None:
    data = pack_users([f"u{number:06}" for number in range(10_000)], None, in_blocks=True)
    assert data.count(b"\n") == 3
    assert all(named_in_state("scopes", data, f"u{number:06}") for number in (0, 4_999, 5_000, 9_999))
    assert not named_in_state("scopes", data, "nobody")
