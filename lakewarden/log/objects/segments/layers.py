"""Chunks by user, in layers that logs which follow one another share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakewarden.log.chunk import RowRange
from lakewarden.log.objects.segments.header import Header


@dataclass(frozen=True)
class _Layer:
    """The chunks of neighbouring headers."""

    size: int
    by_user: Mapping[str, Sequence[RowRange]]

    @classmethod
    def of(cls, headers: Iterable[Header]) -> _Layer:
        found: dict[str, list[RowRange]] = {}
        for header in headers:
            for each in () if header.wide else header.ranges:
                found.setdefault(each.user, []).append(each)
        return cls(sum(map(len, found.values())), found)

    def joined(self, later: _Layer) -> _Layer:
        both = {user: (*self.by_user[user], *ranges) for user, ranges in later.by_user.items() if user in self.by_user}
        return _Layer(self.size + later.size, {**self.by_user, **later.by_user, **both})


@dataclass(frozen=True)
class Layers:
    """The chunks of headers with few.

    Further ones make a layer of their own, which is joined with those before it that are hardly larger: of n chunks there are
    about log n layers, and each chunk is copied about log n times.
    """

    layers: tuple[_Layer, ...]

    @classmethod
    def of(cls, headers: Sequence[Header]) -> Layers:
        return cls((_Layer.of(headers),))

    def followed_by(self, headers: Sequence[Header]) -> Layers:
        """The same with the chunks of further headers."""
        kept, last = [*self.layers], _Layer.of(headers)
        while kept and kept[-1].size <= 2 * last.size:
            last = kept.pop().joined(last)
        return Layers((*kept, last)) if last.size else self

    def of_user(self, user: str) -> list[RowRange]:
        return [each for layer in self.layers for each in layer.by_user.get(user, ())]
