"""One partition of the write log as of one moment."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakewarden.log.chunk import RowRange
from lakewarden.log.objects.cut import EVERYBODY, LogCut
from lakewarden.log.objects.pending import PendingChunks
from lakewarden.log.objects.segments.header import Header
from lakewarden.log.objects.segments.search import ChunkSearch
from lakewarden.log.position import NOTHING, end_of
from lakewarden.log.view import LogView as AnyView
from lakewarden.log.view import PendingCounts, PendingRows


@dataclass(frozen=True)
class ListedLogView:
    """What a listing and the headers showed."""

    log_id: str
    cut: LogCut
    carry: tuple[Header, ...]
    run: tuple[Header, ...]
    """The segments above the cut, one for each position; that of a lost one is empty."""
    litter: bool
    """Whether a cleanup would find something to remove."""
    unnamed: frozenset[str]
    """Ids of staged batches that no segment above the cut names."""
    _pending: PendingChunks = field(repr=False, compare=False)

    @classmethod
    def of(
        cls, log_id: str, cut: LogCut, carry: tuple[Header, ...], run: tuple[Header, ...], litter: bool, staged: frozenset[str]
    ) -> ListedLogView:
        """`staged`: the ids of all batches."""
        return cls(
            log_id, cut, carry, run, litter, _unnamed(staged, run), PendingChunks(ChunkSearch.over((*carry, *run)), cut.settled)
        )

    def followed_by(self, headers: Sequence[Header]) -> ListedLogView:
        """The same partition with further segments, and nothing loaded."""
        return replace(
            self,
            run=(*self.run, *headers),
            unnamed=_unnamed(self.unnamed, headers),
            _pending=self._pending.followed_by(headers),
        )

    @property
    def pending(self) -> Mapping[str, PendingRows]:
        return self._pending

    def pending_of(self, users: Collection[str]) -> Mapping[str, PendingRows]:
        return self._pending.of(users)

    def load(self, users: Collection[str] | None) -> None:
        """Reads what is needed to look these users up, or all. Raises `Missing` when some of it was cleaned up meanwhile."""
        self._pending.load(users)

    def since(self, former: AnyView, users: Collection[str]) -> tuple[RowRange, ...] | None:
        """As `log.view.LogView.since`."""
        assert isinstance(former, ListedLogView), "a view of a log of objects"
        new = self.run[len(former.run) :]
        if former.cut.version != self.cut.version or not all(header.rows for header in new):
            return None
        found = (each for pending in self.pending_of(users).values() for each in pending.ranges)
        return tuple(each for each in found if each.first_seq > former.end)

    @property
    def counts(self) -> PendingCounts:
        return self._pending.counts

    @property
    def weight(self) -> int:
        """That of its headers."""
        return self._pending.weight

    @property
    def last_position(self) -> int:
        return self.cut.upto + len(self.run)

    @property
    def end(self) -> int:
        """The last possible `_seq` of what was read: a flush of the view settles up to here."""
        return end_of(self.last_position)

    @property
    def settled(self) -> bool:
        return self.cut.upto > NOTHING

    @property
    def removals(self) -> tuple[tuple[str, int], ...]:
        return (*self.cut.erased.items(), (EVERYBODY, self.cut.rewound.get(EVERYBODY, NOTHING)))

    @property
    def closed(self) -> Collection[str]:
        return self.cut.closed


def _unnamed(staged: frozenset[str], run: Sequence[Header]) -> frozenset[str]:
    return staged.difference(header.put_id for header in run) if staged else staged
