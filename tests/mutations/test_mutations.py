"""The list of mutations follows the code, and a trial tells a fault that is seen from one that is not."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.mutations.__main__ import is_sound
from tests.mutations.listed import LISTS, ROOT, Mutation, NoSinglePlace, mutations, parsed
from tests.mutations.trial import Copy, Outcome


@pytest.mark.parametrize("path", sorted(LISTS.glob("*.toml")), ids=lambda path: path.stem)
def test_each_mutation_fits_the_code_and_names_tests_that_are_there(path: Path) -> None:
    found = {mutation.name: complaint for mutation in parsed(path.read_text()) if (complaint := _complaint(mutation))}
    assert found == {}, "change the list with the code (CONTRIBUTING.md)"


def _complaint(mutation: Mutation) -> str:
    before = mutation.file(ROOT).read_text()
    try:
        after = mutation.applied(before)
        ast.parse(after)
    except (NoSinglePlace, SyntaxError) as error:
        return str(error)
    if after == before or not mutation.tests:
        return "it changes nothing, or nothing has to see it"
    return ", ".join(f"there is no {test}" for test in mutation.tests if not _is_there(test))


def _is_there(test: str) -> bool:
    file, *names = test.partition("[")[0].split("::")
    text = (ROOT / file).read_text() if (ROOT / file).is_file() else ""
    return bool(text) and all(re.search(rf"^\s*(def|class) {name}\b", text, re.MULTILINE) for name in names)


def test_the_list_is_long_and_names_each_once() -> None:
    names = [each.name for each in mutations()]
    assert len(names) >= 900
    assert [name for name, count in Counter(names).items() if count > 1] == []


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree of its own: one function, and a test of a part of what it does."""
    for path, text in {
        "lakewarden/__init__.py": "def smaller(one, other):\n    return one if one <= other else other\n",
        "tests/test_it.py": "from lakewarden import smaller\n\ndef test_it():\n    assert smaller(1, 2) == 1\n",
        "pyproject.toml": "[tool.pytest.ini_options]\n",
        "README.md": "",
    }.items():
        (tmp_path / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / path).write_text(text)
    return tmp_path / "tree"


@pytest.mark.slow
def test_a_trial_tells_what_is_seen_from_what_survives_and_from_what_is_no_trial(tree: Path, tmp_path: Path) -> None:
    def mutation(find: str, replace: str, test: str = "tests/test_it.py::test_it", excused: str = "") -> Mutation:
        return Mutation("a fault", "a rule", "lakewarden", "smaller", find, replace, (test,), excused)

    seen, survives = mutation("one <=", "one >"), mutation("one <=", "one <")
    absent, twice = mutation("nothing", ""), mutation("other", "one")
    broken, untested = mutation("return one", "return ("), mutation("one <=", "one >", "tests/test_it.py::test_other")
    (tmp_path / "copy").mkdir()
    copy = Copy(tree, tmp_path / "copy")
    outcomes = [copy.try_out(each) for each in (survives, absent, twice, broken, untested, seen)]
    assert [each.outcome for each in outcomes] == [
        Outcome.SURVIVED,
        *[Outcome.BROKEN] * 4,
        Outcome.SEEN,
    ]
    assert outcomes[-1].told == "tests/test_it.py::test_it"
    assert "<=" in (tree / "lakewarden" / "__init__.py").read_text(), "the tree itself stays as it is"
    excused = mutation("one <=", "one <", excused="equal ones are the same")
    assert [is_sound(each, outcomes[0]) for each in (survives, excused)] == [False, True]
    assert [is_sound(each, outcomes[-1]) for each in (seen, excused)] == [True, False]
