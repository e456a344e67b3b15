"""A name means one thing: a public class has its name for itself, and nothing is named by a bare past participle."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # for `make test-fast`: `make lint` runs them

_PACKAGE = Path(__file__).parent.parent / "lakewarden"

_WORDS = """
begun bound bought broken brought built caught chosen cut dealt done drawn driven fed felt found frozen given gone heard held hid
hidden hung kept known laid led left lent let lost made meant met paid put read said seen sent set shown sold spent split spoken
stolen stood struck stuck swept taken taught thought told torn understood written
"""
_IRREGULAR = frozenset(_WORDS.split())
_NOUNS = frozenset({"feed", "need", "seed", "speed"})

_PARTICIPLES = {
    "Bound": "the bounds of a read are low and high ones: the noun",
    "Canceled": "an error, which clients catch by this name",
    "Ended": "as Canceled",
    "Moved": "as Canceled",
    "Unsupported": "as Canceled",
    "log/objects/cut": "the noun: what is settled of a log, as of one version",
    "log/objects/put": "the noun: a put is the append of one segment",
}
"""The exceptions, each with its reason."""


@cache
def _classes() -> dict[str, list[str]]:
    """Of the top of each module: the modules that define a public class, by its name."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(_PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(_module(path))
    return found


def _module(path: Path) -> str:
    return path.relative_to(_PACKAGE).with_suffix("").as_posix()


def _is_participle(word: str) -> bool:
    """Whether it is one word, and a past participle by its form."""
    one = word.lower() == word or not any(letter.isupper() for letter in word[1:])
    low = word.lower().removeprefix("un")
    return one and "_" not in word and low not in _NOUNS and (low in _IRREGULAR or low.endswith("ed"))


def test_a_public_class_has_its_name_for_itself() -> None:
    assert {name: places for name, places in _classes().items() if len(places) > 1} == {}


def test_no_class_and_no_module_is_named_by_a_past_participle() -> None:
    named = {name for name in _classes() if _is_participle(name)}
    named |= {_module(path) for path in _PACKAGE.rglob("*.py") if _is_participle(path.stem)}
    assert named == _PARTICIPLES.keys()
    assert len(_PARTICIPLES) <= 20


def test_what_counts_as_a_participle() -> None:
    words = ("Wanted", "Feed", "Given", "StagedBatch", "moved", "feed", "kept_rows", "Cut")
    assert [word for word in words if _is_participle(word)] == ["Wanted", "Given", "moved", "Cut"]
