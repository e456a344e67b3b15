"""What the next look need not read again, and what has changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.delta.examination.kinds import Verdict
from lakewarden.maintenance.survey import ranking
from lakewarden.maintenance.survey.last_look import LastLook, SeenTable, SeenTables, TableDigest, digest_of
from lakewarden.maintenance.survey.table_survey import TableSurvey

_LOG = [("0.json", "e0"), ("1.json", "e1")]
_DATA = [("a.parquet", 10), ("b=1/c.parquet", 20)]
_RULE = "0.1.0"


def _seen(path: str, verdict: Verdict = "sound", digest: TableDigest = digest_of(_LOG, _DATA)) -> SeenTable:
    return SeenTable(TableSurvey(path, verdict), digest)


def _look(*tables: SeenTable) -> LastLook:
    return LastLook(_RULE, {one.survey.path: one for one in tables})


def _unchanged(last: LastLook, path: str, digest: TableDigest, rule: str) -> TableSurvey | None:
    seen = last.seen(path, rule)
    return seen.survey if seen is not None and seen.is_unchanged(digest) else None


def _changes(last: LastLook, found: SeenTables, unlisted: Sequence[str] = ()) -> dict[str, str]:
    return {one.path: one.change for one, _ in last.compared(found, unlisted)}


def _tables(*found: SeenTable, name_of: Callable[[str], str] = str) -> SeenTables:
    tables = SeenTables()
    for one in found:
        tables.put(name_of(one.survey.path), one)
    return tables


@pytest.mark.parametrize(
    ("log", "data"),
    [
        ([("0.json", "e0"), ("1.json", "other")], _DATA),
        ([*_LOG, ("2.json", "e2")], _DATA),
        (_LOG[:1], _DATA),
        (_LOG, _DATA[:1]),
        (_LOG, [("a.parquet", 10), ("b=1/c.parquet", 21)]),
        (_LOG, [("a.parquet", 10), ("b=2/c.parquet", 20)]),
        (_LOG, [*_DATA, ("d.parquet", 1)]),
    ],
    ids=["overwritten in place", "a commit", "a commit gone", "a file gone", "another size", "another name", "a file more"],
)
def test_what_a_listing_shows_is_looked_at_again(log: list[tuple[str, str]], data: list[tuple[str, int]]) -> None:
    last = _look(_seen("s3://b/t"))
    assert _unchanged(last, "s3://b/t", digest_of(reversed(_LOG), reversed(_DATA)), _RULE) == TableSurvey("s3://b/t", "sound")
    assert _unchanged(last, "s3://b/t", digest_of(log, data), _RULE) is None


_NAMES = st.lists(st.tuples(st.text(st.characters(exclude_characters="\0"), max_size=4), st.text("ab1", max_size=2)), max_size=4)


@given(_NAMES, _NAMES)
def test_equal_digests_are_of_equal_listings(one: list[tuple[str, str]], other: list[tuple[str, str]]) -> None:
    assert (digest_of(one, []) == digest_of(other, [])) == (sorted(one) == sorted(other))


def test_what_was_not_readable_or_judged_otherwise_is_looked_at_again() -> None:
    digest = digest_of(_LOG, _DATA)
    assert _unchanged(_look(_seen("t", "unreadable")), "t", digest, _RULE) is None
    assert _unchanged(_look(_seen("t")), "t", digest, "0.2.0") is None
    assert _unchanged(_look(_seen("t")), "u", digest, _RULE) is None


def test_changes_since_the_last_look_and_gone_once() -> None:
    last = _look(_seen("same"), _seen("written"), _seen("gone"), _seen("healed", "unreadable"))
    other = digest_of(_LOG, [])
    now = _tables(_seen("same"), _seen("written", digest=other), _seen("healed"), _seen("new"))
    compared = [*last.compared(now, ())]
    changes = {"same": "", "written": "changed", "healed": "changed", "new": "new", "gone": "gone"}
    assert [(one.path, one.change) for one, _ in compared] == [*changes.items()]
    assert [verdict for _, verdict in compared] == ["sound", "sound", "unreadable", "", "sound"]
    following = LastLook(_RULE, now)
    assert _changes(following, now) == {"same": "", "written": "", "healed": "", "new": ""}


def test_what_could_not_be_listed_is_not_gone_and_stays_known() -> None:
    last, now = _look(_seen("s3://b/x/t"), _seen("s3://b/xy"), _seen("s3://b/y/t")), _tables()
    assert _changes(last, now, ["s3://b/x", "s3://b/y/t"]) == {"s3://b/xy": "gone"}
    following = LastLook(_RULE, now)
    assert _unchanged(following, "s3://b/x/t", digest_of(_LOG, _DATA), _RULE) is not None
    assert set(following.tables) == {"s3://b/x/t", "s3://b/y/t"}


def test_paths_may_be_kept_hidden() -> None:
    kept = LastLook(_RULE, {"#s3://b/ann/t": _seen("s3://b/X/t")}, "#{}".format, lambda uri: uri.replace("ann", "X"))
    found = _unchanged(kept, "s3://b/ann/t", digest_of(_LOG, _DATA), _RULE)
    assert found is not None
    assert found.path == "s3://b/ann/t"
    assert _changes(kept, now := _tables(), ["s3://b/ann"]) == {}
    assert [one.survey.path for one in now.values()] == ["s3://b/X/t"]
    seen = replace(_seen("s3://b/ann/t"), survey=found)
    assert _changes(kept, _tables(seen, name_of=kept.name_of)) == {"s3://b/ann/t": ""}


@pytest.mark.parametrize("in_memory", [1 << 20, 100])
def test_tables_are_packed_and_come_back(in_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In memory, and in a file."""
    monkeypatch.setattr(ranking, "_IN_MEMORY", in_memory)
    tables = SeenTables()
    for number in range(20):
        tables.put(f"n{number % 7}", _seen(f"s3://b/t{number}"))
    assert dict(tables) == {f"n{number % 7}": _seen(f"s3://b/t{number}") for number in range(20)}
    assert (len(tables), [*tables], "n7" in tables) == (7, [f"n{number}" for number in range(7)], False)
