"""Finds users' chunks in the headers of a log."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from lakewarden.log.chunk import RowRange
from lakewarden.log.objects.segments.header import Header
from lakewarden.log.objects.segments.layers import Layers


@dataclass(eq=False)
class ChunkSearch:
    """Finds chunks by user. An index is read for the users that are looked up; `load` reads them ahead."""

    headers: Sequence[Header]
    wide: Sequence[Header]
    weight: int
    """That of the headers."""
    _layers: Layers | None = None
    """None until a user is looked up."""
    _held: list[Sequence[RowRange]] = field(default_factory=list, init=False)
    _known: dict[str, list[RowRange]] = field(default_factory=dict, init=False)

    @classmethod
    def over(cls, headers: Sequence[Header]) -> ChunkSearch:
        return cls(headers, [header for header in headers if header.wide], sum(header.weight for header in headers))

    def followed_by(self, headers: Sequence[Header]) -> ChunkSearch:
        """The same with further headers, and nothing loaded."""
        more = ChunkSearch.over(headers)
        layers = None if self._layers is None else self._layers.followed_by(headers)
        return ChunkSearch((*self.headers, *headers), (*self.wide, *more.wide), self.weight + more.weight, layers)

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
        layers = self._layers = self._layers or Layers.of(self.headers)
        found = {user: ranges for user in users if (ranges := layers.of_user(user))}
        for header in self.wide:
            for each in header.of(users):
                found.setdefault(each.user, []).append(each)
        return found

    def every(self) -> Iterator[RowRange]:
        """All users' chunks, header by header. Raises as `load` where not all were loaded."""
        return (each for header in self.headers for each in header.ranges)
