"""Batches of many users that several processes stage and one publishes: all rows have one position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import pyarrow as pa

from lakewarden.base.clock import Clock, NewId, to_micros
from lakewarden.base.commit_metadata import carried
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.settings import LogSettings
from lakewarden.catalog.model import TableSchema
from lakewarden.errors import Conflict, InvalidArgument, LakewardenError, LostPlace, SchemaChanged, Unsupported
from lakewarden.log.chunk import RowRange
from lakewarden.log.objects import names
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cuts.writers import last_batch
from lakewarden.log.objects.gather import Gathering
from lakewarden.log.objects.group import Parcel, parcels_of
from lakewarden.log.objects.log_view import ListedLogView
from lakewarden.log.objects.segments.segment import read_chunk
from lakewarden.log.objects.staging import StagedBatch, begin, discard, is_named, put_object, remove_others
from lakewarden.log.objects.view import read_view
from lakewarden.log.once import LastBatch, WriterBatch
from lakewarden.log.position import position_of
from lakewarden.log.receipt import Receipt
from lakewarden.log.record import SEQ, LogBatch, decode, encode
from lakewarden.log.staging import Pieces, StagedPiece, Staging
from lakewarden.log.touches import ANYTHING
from lakewarden.storage.objects import AlreadyThere, ObjectStore

_ATTEMPTS = 1000
"""Appends of others that a publication lets pass. Each lost attempt is one of theirs, so few come before it."""

_NUMBER_DIGITS = 12
"""Hexadecimal digits of an object's number, which tasks choose by chance: none knows the others."""


class Batches:
    """Batches of one partition. Safe for threads."""

    def __init__(
        self,
        store: ObjectStore,
        log_id: str,
        settings: LogSettings,
        gathering: Gathering,
        clock: Clock,
        new_id: NewId,
        headers: HeaderCache,
        *,
        stages: bool = True,
        reach: Reach = no_faults,
    ) -> None:
        """
        Args:
            headers: those that this process has read: a publication looks at the whole log, and reads what is new of it.
            stages: whether the format of the warehouse has staged batches.
        """
        self._store = store
        self._log_id = log_id
        self._settings = settings
        self._gathering = gathering
        self._clock = clock
        self._new_id = new_id
        self._headers = headers
        self._stages = stages
        self._reach = reach

    def begin(self) -> Staging:
        if not self._stages:
            raise Unsupported("this warehouse is of an older format, which has no staged batches: run `lakewarden upgrade`")
        return begin(self._store, self._log_id, self._new_id(), to_micros(self._clock()))

    def stage(self, staging: Staging, batch: LogBatch) -> tuple[StagedPiece, ...]:
        pieces: list[StagedPiece] = []
        for parcel in parcels_of(batch.schema_version, encode(batch, self._settings, carried()), self._settings):
            pieces += self._put(staging, parcel)
            self._reach("batch:staged")
        return tuple(pieces)

    def _put(self, staging: Staging, parcel: Parcel) -> list[StagedPiece]:
        chunks = [*parcel.chunks]
        while True:
            number = int(self._new_id()[:_NUMBER_DIGITS], 16)
            with suppress(AlreadyThere):
                return put_object(self._store, self._log_id, staging, number, parcel.schema_version, chunks)

    def publish(self, staging: Staging, pieces: Pieces, once: WriterBatch | None) -> Receipt | None:
        staged: StagedBatch | None = None
        for _ in range(_ATTEMPTS):
            view = read_view(self._store, self._log_id, self._headers, ())
            named, known = is_named(staging.put_id, view.cut, view.run), once is not None and _stands_for(once, view)
            if known and not named:
                with suppress(LakewardenError):  # what stays here is removed when it is abandoned
                    discard(self._store, self._log_id, staging.put_id)
            if named and once is not None and not known:
                raise InvalidArgument("what was staged was published before, with another identity: begin each batch by itself")
            if named or known:
                return None
            if staged is None or callable(pieces):
                staged = self._of(staging, pieces(position_of(view.end)) if callable(pieces) else pieces, once)
            self._reach("batch:looked")
            try:
                return self._gathering.append((Parcel.naming(staged),), position_of(view.end), ANYTHING)
            except Conflict:
                continue
            except (LostPlace, SchemaChanged):
                with suppress(LakewardenError):  # as above
                    discard(self._store, self._log_id, staging.put_id)
                raise
        raise Conflict(f"log {self._log_id} was appended to {_ATTEMPTS} times in between; nothing was written: write again")

    def _of(self, staging: Staging, pieces: Sequence[StagedPiece], once: WriterBatch | None) -> StagedBatch:
        """The batch, beside which nothing else is staged any more."""
        staged = StagedBatch.of(staging, pieces, once)
        remove_others(self._store, self._log_id, staging.put_id, pieces)
        return staged

    def rows(self, staging: Staging, pieces: Iterable[StagedPiece], schemas: tuple[TableSchema, ...]) -> Iterator[pa.Table]:
        for each in pieces:
            key = names.staged_key(self._log_id, staging.put_id, each.object)
            where = RowRange(
                key, staging.put_id, each.user, each.rows, each.offset, each.length, 0, each.schema_version, staging.stored_at
            )
            yield decode([read_chunk(self._store, where)], [where], schemas).drop_columns([SEQ])

    def abandon(self, staging: Staging) -> None:
        discard(self._store, self._log_id, staging.put_id)

    def last(self, writer_key: str) -> LastBatch:
        view = read_view(self._store, self._log_id, self._headers, ())
        return last_batch(view.cut, view.run, writer_key)


def _stands_for(once: WriterBatch, view: ListedLogView) -> bool:
    """Whether the log has the batch. Raises `FailedPrecondition`: that is uncertain."""
    return last_batch(view.cut, view.run, once.key).stands_for(once.floor, once.writer, "the table")
