"""Finds users' chunks in the headers of a log."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from lakewarden.log.chunk import RowRange
from lakewarden.log.objects.header import Header

_WIDE, _WEIGHT = map(attrgetter, ("wide", "weight"))


# Chunks by user, in layers that logs which follow one another share.
@dataclass(frozen=True)
class _Layer:
    """The chunks of neighbouring headers."""

    size: int
    by_user: Mapping[str, Sequence[RowRange]]

    @classmethod
    def of(cls, headers: Iterable[Header]) -> _Layer:
        found: dict[str, list[RowRange]] = {}
        for header in headers:
            # Wide headers are searched on their own: an entry for each of a million users would cost more than the search
            # saves.
            for each in () if header.wide else header.ranges:
                found.setdefault(each.user, []).append(each)
        return cls(sum(map(len, found.values())), found)

    def joined(self, later: _Layer) -> _Layer:
        both = {user: (*self.by_user[user], *ranges) for user, ranges in later.by_user.items() if user in self.by_user}
        return _Layer(self.size + later.size, {**self.by_user, **later.by_user, **both})


def _followed(layers: tuple[_Layer, ...], headers: Sequence[Header]) -> tuple[_Layer, ...]:
    """The layers with the chunks of further headers: of n chunks there are about log n, and each is copied about log n times."""
    kept, last = [*layers], _Layer.of(headers)
    # As in a merge tree: layers at least double in size, so a look-up passes few of them.
    while kept and kept[-1].size <= 2 * last.size:
        last = kept.pop().joined(last)
    return (*kept, last) if last.size else layers


@dataclass(eq=False)
class ChunkSearch:
    """Finds chunks by user. An index is read for the users that are looked up; `load` reads them ahead."""

    headers: Sequence[Header]
    wide: Sequence[Header]
    weight: int
    """That of the headers."""
    _layers: tuple[_Layer, ...] = ()
    """Those of headers with few chunks; none until a user is looked up."""
    _held: list[Sequence[RowRange]] = field(default_factory=list, init=False)
    _known: dict[str, list[RowRange]] = field(default_factory=dict, init=False)

    @classmethod
    def over(cls, headers: Sequence[Header]) -> ChunkSearch:
        return cls(headers, [*filter(_WIDE, headers)], sum(map(_WEIGHT, headers)))

    def followed_by(self, headers: Sequence[Header]) -> ChunkSearch:
        """The same with further headers, and nothing loaded."""
        more = ChunkSearch.over(headers)
        layers = self._layers and _followed(self._layers, headers)
        return ChunkSearch((*self.headers, *headers), (*self.wide, *more.wide), self.weight + more.weight, layers)

    def load(self, users: Collection[str] | None) -> None:
        """Reads and keeps what is needed to look these users up, or all of them.

        Raises:
            Missing: some of it was cleaned up since the headers were read.
            Corrupt: an index is damaged.
        """
        if users is None:
            # An index keeps its columns by a weak reference; this holds them for as long as the view is there.
            self._held = [header.ranges for header in self.wide]
        elif self.wide:
            found = self.of(users)
            # Users without chunks too, so that their look-up does not read the index again.
            self._known = {user: found.get(user, []) for user in users}

    def of(self, users: Collection[str]) -> dict[str, list[RowRange]]:
        """Those users' chunks, in the order of the headers. Raises as `load` for users that were not loaded."""
        if self._known.keys() >= set(users):
            return {user: self._known[user] for user in users}
        layers = self._layers = self._layers or (_Layer.of(self.headers),)
        everyones = ((user, [each for layer in layers for each in layer.by_user.get(user, ())]) for user in users)
        found = {user: ranges for user, ranges in everyones if ranges}
        for header in self.wide:
            for each in header.of(users):
                found.setdefault(each.user, []).append(each)
        return found

    def every(self) -> Iterator[RowRange]:
        """All users' chunks, header by header. Raises as `load` where not all were loaded."""
        return (each for header in self.headers for each in header.ranges)
