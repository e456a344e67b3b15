"""Reads all rows of a log beyond some `_seq`, settled or not: what subscribers follow."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from lakewarden.base.attempts import Attempts
from lakewarden.log.chunk import RowRange
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cut import LogCut
from lakewarden.log.objects.header import Header
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.objects.search import ChunkSearch
from lakewarden.log.objects.segment import read_carry
from lakewarden.log.objects.view import check_given_up, read_view
from lakewarden.log.position import NOTHING
from lakewarden.log.view import Upset, UserSigns
from lakewarden.storage.objects import Missing, ObjectStore


@dataclass(frozen=True)
class Trail:
    """A log and its history as of one moment, where they hold rows beyond some `_seq`."""

    view: LogView
    history: tuple[Header, ...]
    after: int
    """That `_seq`."""

    @property
    def cut(self) -> LogCut:
        return self.view.cut

    @property
    def end(self) -> int:
        """The last possible `_seq` of what was seen."""
        return self.view.end

    @property
    def forgotten(self) -> int:
        """All rows beyond this `_seq` still exist, in the log or in its history."""
        return self.cut.forgotten

    def complete_after(self, seq: int) -> bool:
        """Whether every row of the log beyond this `_seq` is here. One scope's rows may all be here even if not."""
        # Below `after` the trail read no history; below `forgotten` there is none.
        return seq >= max(self.after, self.cut.forgotten)

    def ranges(self, user: str, after: int) -> tuple[RowRange, ...]:
        """The user's chunks with rows beyond a `_seq` (not below `self.after`), ascending."""
        found = self._search.of((user,)).get(user, ())
        return tuple(sorted((each for each in found if each.last_seq > max(after, self.after)), key=lambda each: each.first_seq))

    def every_range(self, after: int) -> tuple[RowRange, ...]:
        """All users' chunks with rows beyond a `_seq`, ascending. Of a trail that was read for all users."""
        beyond = (each for each in self._search.every() if each.last_seq > max(after, self.after))
        return tuple(sorted(beyond, key=lambda each: each.first_seq))

    @property
    def upset(self) -> Upset:
        """When users' rows were last changed by what is not a row of the log, whoever they are."""
        return Upset(max(self.cut.rewound.values(), default=None), max(self.cut.erased.values(), default=None))

    def settled_upto(self, user: str) -> int:
        """The highest `_seq` up to which flushes have surely settled the user's rows; `NOTHING` where none is known."""
        # What is in the history has left the log, and so was settled.
        keys = {header.key for header in self.history}
        kept = [each.last_seq for each in self._search.of((user,)).get(user, ()) if each.key in keys]
        return max([self.cut.settled.get(user, NOTHING), *kept])

    def signs(self, mark: str) -> UserSigns:
        """The state of the user with this keyed hash."""
        return self.cut.signs(mark)

    def load(self, users: Collection[str] | None) -> None:
        """Looks these users up at once, or all, so that `ranges` finds each without a search. Raises as `ChunkSearch.load`."""
        self._search.load(users)

    @cached_property
    def _search(self) -> ChunkSearch:
        return ChunkSearch.over((*self.history, *self.view.carry, *self.view.run))


def read_trail(store: ObjectStore, log_id: str, after: int, cache: HeaderCache, users: Collection[str] | None = None) -> Trail:
    """As `LogReader.trail`."""
    attempts = Attempts(100, f"log {log_id} of {store.uri} was settled", "while its history was read")
    while attempts.next():
        # The history is that of the view's cut: a chunk that leaves the log is named by the cut that lets it go, so each is in
        # one of the two.
        view = read_view(store, log_id, cache, ())
        wanted = [kept for kept in view.cut.history if kept.last_seq > after]
        try:
            headers = [cache.header(kept.key) or read_carry(store, kept.key) for kept in wanted]
            trail = Trail(view, tuple(headers), after)
            trail.load(users)
        except Missing as gone:
            check_given_up(store, view, gone)
            continue
        cache.keep(log_id, view.cut, headers)
        return trail
