"""Finds users' chunks in the headers of a log."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

from lakewarden.log.chunk import RowRange
from lakewarden.log.objects.segments.header import Header


class Search:
    """Finds chunks by user. An index is read for the users that are looked up; `load` reads them ahead."""

    def __init__(self, headers: Sequence[Header]) -> None:
        self.headers = headers
        self.wide = [header for header in headers if header.wide]
        self._held: list[Sequence[RowRange]] = []
        self._known: dict[str, list[RowRange]] = {}

    def load(self, users: Collection[str] | None) -> None:
        """Reads and keeps what is needed to look these users up, or all of them.

        Raises:
            Missing: some of it was cleaned up since the headers were read.
            Corrupt: an index is damaged.
        """
        if users is None:
            self._held = [header.ranges for header in self.wide]
        elif self.wide:
            found = self.of(users)
            self._known = {user: found.get(user, []) for user in users}

    def of(self, users: Collection[str]) -> dict[str, list[RowRange]]:
        """Those users' chunks, in the order of the headers. Raises as `load` for users that were not loaded."""
        if self._known.keys() >= set(users):
            return {user: self._known[user] for user in users}
        found = {user: [*self._narrow[user]] for user in users if user in self._narrow}
        for header in self.wide:
            for each in header.of(users):
                found.setdefault(each.user, []).append(each)
        return found

    def every(self) -> Iterator[RowRange]:
        """All users' chunks, header by header. Raises as `load` where not all were loaded."""
        return (each for header in self.headers for each in header.ranges)

    @cached_property
    def _narrow(self) -> dict[str, list[RowRange]]:
        """The chunks of headers with few, by user."""
        found: dict[str, list[RowRange]] = {}
        for header in self.headers:
            for each in () if header.wide else header.ranges:
                found.setdefault(each.user, []).append(each)
        return found
