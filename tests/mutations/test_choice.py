"""A run tries a part of the list: by words, by a share that all parts make up, or by what has changed."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

import pytest

from tests.mutations.cache import Cache
from tests.mutations.choice import Choice, Part
from tests.mutations.listed import ROOT, Mutation, mutations


def test_the_parts_have_each_mutation_once_and_are_about_as_large() -> None:
    every = mutations()
    parts = [Choice(part=Part.parse(f"{number}/7")).among(every, ROOT) for number in range(1, 8)]
    assert sorted(each.name for part in parts for each in part) == sorted(each.name for each in every)
    assert all(len(every) / 14 < len(part) < len(every) / 4 for part in parts)
    fewer = Choice(part=Part(1, 7)).among(every[::2], ROOT)
    assert all(each in parts[0] for each in fewer), "a mutation stays in its part while others go"


@pytest.mark.parametrize("text", ["0/7", "8/7", "1", "1/", "/7", "-1/7", "a/b", "1/0"])
def test_a_part_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="a part is written as 1/7"):
        Part.parse(text)


_LISTED = """
[[mutation]]
name = "{0}"
rule = "r"
module = "code.{0}"
at = "f"
find = "1"
replace = "{1}"
tests = ["tests/{0}.py::test"]
"""


def _mutation(name: str, replace: str = "2") -> Mutation:
    return Mutation(name, "r", f"code.{name}", "f", "1", replace, (f"tests/{name}.py::test",))


def test_words_are_parts_of_names_modules_files_or_definitions() -> None:
    every = [_mutation("one"), _mutation("other")]
    for word, count in {"one": 1, "code.o": 2, "code/other.py": 1, "f": 2, "absent": 0}.items():
        assert len(Choice((word,)).among(every, ROOT)) == count, word


def test_what_changed_since_a_commit_is_tried_for_its_module_its_tests_and_its_own_lines(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    every = [_mutation(name) for name in ("same", "code", "tested", "own", "new")]
    for folder in ("code", "tests/mutations"):
        (tmp_path / folder).mkdir(parents=True)
    for each in every:
        each.file(tmp_path).write_text("")
        (tmp_path / "tests" / f"{each.name}.py").write_text("")
    text = "".join(_LISTED.format(each.name, 3 if each.name == "own" else 2) for each in every[:-1])
    (tmp_path / "tests/mutations/code.toml").write_text(text)
    (tmp_path / "tests/mutations/older.toml").write_text('[[mutation]]\nname = "another form"\n')
    git("init")
    git("add", ".")
    git("commit", "-m", "a commit")
    (tmp_path / "code/code.py").write_text("changed")
    (tmp_path / "tests/tested.py").write_text("changed")
    assert [each.name for each in Choice(since="HEAD").among(every, tmp_path)] == ["code", "tested", "own", "new"]


def test_what_was_seen_counts_while_the_fault_its_module_and_its_tests_stay(tmp_path: Path) -> None:
    one = _mutation("one")
    for folder in ("code", "tests"):
        (tmp_path / folder).mkdir()
    one.file(tmp_path).write_text("")
    (tmp_path / "tests/one.py").write_text("")
    Cache(tmp_path / "cache" / "seen.json").add(one.digest(tmp_path), "seen by a test")
    cache = Cache(tmp_path / "cache" / "seen.json")
    assert one.digest(tmp_path) in cache
    assert _mutation("one", "3").digest(tmp_path) not in cache
    for path in ("code/one.py", "tests/one.py"):
        before = one.digest(tmp_path)
        (tmp_path / path).write_text("changed")
        assert one.digest(tmp_path) != before
    assert one.digest(tmp_path) not in cache
