"""Keyed hashes in place of users' ids in what is kept of a survey: paths of others' tables may be named after them.

A part of a path is a user's if it is, plain or as URIs and our own paths spell it, the id of one whom the warehouse knows or once
erased. `<column>=<value>` counts by its value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import lru_cache
from urllib.parse import unquote

from lakewarden.maintenance.survey.table_survey import TableSurvey

_PART = re.compile(r"[^/]+")
_PATH = re.compile(r"[^\s'\",;()]*/[^\s'\",;()]*")
"""In a sentence."""
_REMEMBERED = 100_000
"""Parts of paths, of which names of files are the most, and seen once."""

_ESCAPE = re.compile(rb"!([0-9a-f]{2})")


class HiddenNames:
    """Hides the ids of these users, and those with one of these keyed hashes. Remembers parts that it has seen: paths share
    their beginnings."""

    def __init__(self, users: Collection[str], mark: Callable[[str], str], erased: Collection[str] = ()) -> None:
        self._users = frozenset(users)
        self._mark = mark
        self._erased = frozenset(erased)
        self._part = lru_cache(_REMEMBERED)(self._hidden)

    def __call__(self, path: str) -> str:
        """A path or a URI."""
        return _PART.sub(lambda found: self._part(found[0]), path)

    def in_sentence(self, text: str) -> str:
        """A sentence: in the paths there alone, since ids may be numbers or common words."""
        return _PATH.sub(lambda found: self(found[0]), text)

    def of(self, survey: TableSurvey) -> TableSurvey:
        """All texts of a table that may have a path in them."""
        damage = tuple(replace(each, detail=self.in_sentence(each.detail)) for each in survey.damage)
        return replace(survey, path=self(survey.path), error=self.in_sentence(survey.error), damage=damage)

    def _hidden(self, part: str) -> str:
        """The part with a hash in place of its user."""
        column, equals, value = part.rpartition("=")
        for before, name in {("", part), (column + equals, value)}:
            for user in _spelled(name):
                if user in self._users or (self._erased and self._mark(user) in self._erased):
                    return before + self._mark(user)
        return part


def _spelled(name: str) -> Iterator[str]:
    yield name
    if "%" in name:
        yield unquote(name)
    if "!" in name:
        yield _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), name.encode()).decode(errors="replace")
