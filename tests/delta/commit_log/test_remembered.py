"""What is remembered of a commit is told of that commit alone."""

from __future__ import annotations

from lakewarden.delta.commit_log.remembered import RememberedCommits
from lakewarden.delta.parquet.files import NewFile


def _file(name: str) -> NewFile:
    return NewFile(name, 1, 1, "{}", None, None, 1)


def test_only_where_its_file_lives_at_its_version() -> None:
    made = RememberedCommits()
    made.remember([_file("a"), _file("b")], 7, {"app": 1})
    assert made.recall(["x", "b"], 7) == {"app": 1}
    assert made.recall(["x", "b"], 8) is None, "another commit came since"
    assert made.recall(["x", "a"], 7) is None, "another table's version 7"
    made.remember([], 9, {"app": 2})
    assert made.recall([], 9) is None


def test_the_oldest_is_forgotten() -> None:
    made = RememberedCommits(most=2)
    for number, name in enumerate("abc"):
        made.remember([_file(name)], number, {"app": number})
    assert [made.recall([name], number) for number, name in enumerate("abc")] == [None, {"app": 1}, {"app": 2}]
