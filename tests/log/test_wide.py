"""Segments with many users, whose chunks are in columns: the same results as from a few."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.base.clock import random_id
from lakewarden.base.setting_sections import LogSettings
from lakewarden.log.chunk import RowRange
from lakewarden.log.objects import pack, segment
from lakewarden.log.objects.cuts import next_cut
from lakewarden.log.objects.cuts.settle import CutTerms, settle
from lakewarden.log.objects.header import Header, highest_seq, total_bytes, without
from lakewarden.log.objects.index import Columns
from lakewarden.log.objects.view import rows_of
from tests.fixtures.examples import examples
from tests.log.build import NOTES, Store, ids_of, joined, notes, pending_ids, view_of, writer

_WIDE = 4


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(segment, "MANY", _WIDE)
    monkeypatch.setattr(pack, "MANY", _WIDE)
    return Store(tmp_path)


def _settle(store: Store, *users: str, carry_below: float = 0.5) -> None:
    view = view_of(store)
    settle(store, view, dict.fromkeys(users, view.end), CutTerms(LogSettings(carry_below=carry_below), random_id))


def test_a_mark_hides_rows_of_one_user_alone(store: Store) -> None:
    writer(store).append(joined(*(notes(f"u{n}", n) for n in range(9))))
    _settle(store, "u3")
    writer(store).append(joined(*(notes(f"u{n}", 10 + n) for n in range(5))))
    view = view_of(store)
    assert [header.wide for header in view.run] == [True, True]
    assert pending_ids(store, "u3") == [13]
    assert pending_ids(store, "u4") == [4, 14]
    assert view.counts.users.to_pylist() == [f"u{n}" for n in range(9)]
    assert view.counts.rows.tolist() == [2, 2, 2, 1, 2, 1, 1, 1, 1]
    assert [view.pending[f"u{n}"].rows for n in range(9)] == view.counts.rows.tolist()
    assert [view.pending[user].bytes for user in sorted(view.pending)] == view.counts.bytes.tolist()


def test_a_user_of_a_wide_and_a_narrow_segment_has_both_rows(store: Store) -> None:
    writer(store).append(joined(*(notes(f"u{n}", n) for n in range(9))))
    writer(store).append(notes("u7", 70))
    view = view_of(store)
    assert ids_of(rows_of(store, view.pending["u7"], (NOTES,))) == [7, 70]
    assert view.pending_of(["u7", "u8", "nobody"]).keys() == {"u7", "u8"}
    assert (len(view.pending), "u1" in view.pending, view.pending.get("nobody")) == (9, True, None)


def test_what_many_users_left_is_carried_and_kept(store: Store) -> None:
    writer(store).append(joined(*(notes(f"u{n}", n) for n in range(20))))
    _settle(store, *(f"u{n}" for n in range(14)))
    view = view_of(store)
    assert (len(view.run), [header.wide for header in view.carry]) == (0, [True])
    assert [pending_ids(store, f"u{n}") for n in range(12, 20)] == [[], [], *([n] for n in range(14, 20))]
    _settle(store, *(f"u{n}" for n in range(14, 20)))
    assert not view_of(store).pending


@pytest.mark.slow
@pytest.mark.parametrize("carry_below", [0.0, 0.5])
def test_a_cut_does_not_grow_with_the_users_that_were_flushed(
    store: Store, monkeypatch: pytest.MonkeyPatch, carry_below: float
) -> None:
    monkeypatch.setattr(next_cut, "MOST_MARKS", 5)
    writer(store).append(joined(*(notes(f"u{n:02}", n) for n in range(40))))
    for n in range(38):
        _settle(store, f"u{n:02}", carry_below=carry_below)
        view = view_of(store)
        assert len(view.cut.settled) <= 5
        assert sorted(view.pending) == [f"u{later:02}" for later in range(n + 1, 40)]
    assert [pending_ids(store, f"u{n}") for n in (37, 38, 39)] == [[], [38], [39]]


_ranges = st.lists(
    st.builds(
        lambda user, rows, length, seq: RowRange("k", "p", user, rows, 7, length, seq, 1, 5),
        st.sampled_from("abcd"),
        st.integers(1, 3),
        st.integers(16, 99),
        st.integers(0, 50),
    ),
    max_size=8,
)


@given(_ranges, st.dictionaries(st.sampled_from("abcde"), st.integers(-1, 60)), st.sets(st.sampled_from("abcde")))
@settings(max_examples=examples(60), deadline=None)
def test_columns_answer_as_a_tuple_does(ranges: list[RowRange], marks: dict[str, int], users: set[str]) -> None:
    narrow, wide = Header("k", "p", tuple(ranges)), Header("k", "p", Columns.of("k", "p", ranges))
    assert (narrow.bytes, narrow.rows, narrow.link) == (wide.bytes, wide.rows, wide.link)
    assert (narrow.ends or {"k": 0}) == wide.ends
    assert list(narrow.open(marks)) == list(wide.open(marks))
    assert list(narrow.settled(marks)) == list(wide.settled(marks))
    assert list(narrow.of(users)) == list(wide.of(users))
    assert list(without(narrow.ranges, "a")) == list(without(wide.ranges, "a"))
    assert (highest_seq(narrow.ranges), total_bytes(narrow.ranges)) == (highest_seq(wide.ranges), total_bytes(wide.ranges))
    assert list(narrow.ranges[1:]) == list(wide.ranges[1:])
