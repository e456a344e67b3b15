"""A mutation finds its place in whatever form the formatter gives the code, and in no other definition."""

from __future__ import annotations

import pytest

from tests.mutations.listed import Mutation, NoSinglePlace

_COMMENT = "# a comment with a word of its own: rows"
_CALL = """flush(
                rows,
                "at once",
            )"""
_CODE = f"""\
LIMIT = 3

class Rows:
    most: int = LIMIT

    @property
    def size(self) -> int:
        return LIMIT

    def kept(self, rows, flush):
        if (
            len(rows) >= LIMIT  {_COMMENT}
            and {_CALL}
        ):
            rows.clear()
        def again():
            return rows >= LIMIT
        return again

    def said(self):
        return f"# {{self.most!r}}, a sign"  # one more

if LIMIT:
    def chosen():
        return 1
else:
    def chosen():
        return 2
"""


def mutation(at: str, find: str, replace: str) -> Mutation:
    return Mutation("a fault", "a rule", "a.module", at, find, replace, ())


@pytest.mark.parametrize(
    ("at", "find", "replace", "was", "becomes"),
    [
        ("Rows.kept", "len(rows) >= LIMIT and flush", "flush", f"len(rows) >= LIMIT  {_COMMENT}\n            and flush", "flush"),
        ("Rows.kept", 'flush(rows, "at once")', "True", _CALL, "True"),
        ("Rows.kept.again", "rows>=LIMIT", "rows", "return rows >= LIMIT", "return rows"),
        ("Rows.size", "@property", "", "@property", ""),
        ("Rows.most", "LIMIT", "4", "int = LIMIT", "int = 4"),
        ("Rows", "class Rows", "class Rows(list)", "class Rows", "class Rows(list)"),
        ("Rows.said", "a sign", "the end", "a sign", "the end"),
        ("LIMIT", "3", "4", "LIMIT = 3", "LIMIT = 4"),
        ("<module>", "if LIMIT", "if not LIMIT", "if LIMIT", "if not LIMIT"),
        ("chosen", "return 2", "return 3", "return 2", "return 3"),
        ("Rows.kept", "rows.clear()", "if flush:\n    rows.pop()", "rows.clear()", "if flush:\n                rows.pop()"),
    ],
)  # fmt: skip
def test_a_place_is_found_by_its_tokens(at: str, find: str, replace: str, was: str, becomes: str) -> None:
    assert _CODE.count(was) == 1
    assert mutation(at, find, replace).applied(_CODE) == _CODE.replace(was, becomes)


@pytest.mark.parametrize(
    ("at", "find", "why"),
    [
        ("Rows.kept", "rows >", "'rows >' stands 0 times in Rows.kept of a.module"),
        ("Rows.kept", "rows", "stands 5 times"),
        ("Rows.kept", "row", "stands 0 times"),
        ("Rows.kept", "a comment", "stands 0 times"),
        ("Rows.said", "one", "stands 0 times"),
        ("Rows.kept", "", "stands 0 times"),
        ("chosen", "return", "stands 2 times"),
        ("kept", "rows", "a.module defines no kept"),
        ("again", "rows", "defines no again"),
    ],
)
def test_a_text_that_stands_nowhere_or_twice_is_refused(at: str, find: str, why: str) -> None:
    with pytest.raises(NoSinglePlace, match=why):
        mutation(at, find, "").applied(_CODE)
