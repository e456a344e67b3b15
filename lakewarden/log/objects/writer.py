"""Appends rows to a table's write log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice

import pyarrow as pa

from lakewarden.base.attempts import Attempts
from lakewarden.base.clock import Clock, NewId, to_micros
from lakewarden.base.commit_metadata import carried
from lakewarden.base.setting_sections import LogSettings
from lakewarden.catalog.model import TableSchema
from lakewarden.errors import (
    Conflict,
    ConstraintViolation,
    InvalidArgument,
    LakewardenError,
    LostPlace,
    SchemaChanged,
    Unsupported,
)
from lakewarden.log.chunk import RowRange
from lakewarden.log.objects import names
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cuts.settle import CutTerms
from lakewarden.log.objects.cuts.writers import last_batch
from lakewarden.log.objects.gather import Gathering
from lakewarden.log.objects.group import Parcel, parcels_of
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.objects.put import Puts, WriterTerms
from lakewarden.log.objects.segment import read_chunk
from lakewarden.log.objects.staging import StagedBatch, abandon, begin, discard, is_named, put_object, remove_others, stage
from lakewarden.log.objects.view import read_view
from lakewarden.log.once import LastBatch, Pieces, StagedPiece, Staging, WriterBatch
from lakewarden.log.position import NOTHING, Behind, Receipt, position_of
from lakewarden.log.record import SEQ, Batch, LogBatch, PlainRow, decode, encode
from lakewarden.log.touches import ANYTHING, Touched
from lakewarden.log.view import Mark
from lakewarden.storage.objects import AlreadyThere, ObjectStore

_ATTEMPTS = 20
"""Looks at the log before a call raises CONFLICT; each lost one is another writer's success."""

_NUMBER_DIGITS = 12
"""Hexadecimal digits of an object's number, which tasks choose by chance: none knows the others."""


@dataclass(frozen=True)
class LogWriter:
    """Appends to one partition. Safe for threads: calls that come while a segment is put share the next one.

    The rows of a call that are of one user become visible together, however many they are. So do those of a batch, which are of
    many users: several processes stage it, and one publishes it, at one position.
    """

    _store: ObjectStore
    _log_id: str
    _terms: CutTerms
    gathering: Gathering
    _clock: Clock
    _headers: HeaderCache
    """Those that this process has read. A publication looks at the whole log, and reads what is new of it."""

    @classmethod
    def of(
        cls,
        store: ObjectStore,
        log_id: str,
        settings: LogSettings,
        clock: Clock,
        new_id: NewId,
        mark: Mark,
        terms: WriterTerms | None = None,
    ) -> LogWriter:
        terms = terms or WriterTerms()
        gathering = Gathering(Puts(store, log_id, mark, terms), settings, clock, new_id, terms.still_there)
        cuts = CutTerms(settings, new_id, terms.segment_format, terms.reach)
        return cls(store, log_id, cuts, gathering, clock, terms.headers or HeaderCache())

    def append(self, batch: Batch, after: int | None = None, keys: Touched | None = None) -> Receipt:
        """As `Appending.append`."""
        metadata, limits = carried(), self._terms.settings
        # A plain row has no chunk yet, and metadata stands behind a chunk's rows.
        if isinstance(batch, PlainRow) and not metadata:
            return self.gathering.append((Parcel.of(batch),), after, keys)
        encoded = encode(LogBatch(batch.schema_version, batch.rows), limits, metadata)
        parcels = parcels_of(batch.schema_version, encoded, limits)
        return self.append_parcels(parcels, after, keys) if parcels else Receipt(0, NOTHING)

    def append_parcels(self, parcels: Sequence[Parcel], after: int | None = None, keys: Touched | None = None) -> Receipt:
        """As `append`, for rows that are encoded already. There is at least one parcel."""
        # Rows of one user must become visible together, so they take one position, by a segment that names them. Rows of many
        # users need not: their scopes are apart (docs/decisions/0047-direct-writes.md).
        if len(parcels) > 1 and self._terms.stages and len({user for parcel in parcels for user in parcel.users}) == 1:
            return self._staged(parcels[0].schema_version, parcels, after, keys)
        return self.gathering.append(parcels, after, keys)

    def append_whole(self, batches: Iterable[LogBatch], after: int | Behind | None = None) -> Receipt:
        """As `Appending.append_whole`. Holds about two segments of the rows, which are encoded as they are needed."""
        metadata, limits = carried(), self._terms.settings
        chunks = ((batch.schema_version, encode(batch, limits, metadata)) for batch in batches)
        parcels = (parcel for version, encoded in chunks for parcel in parcels_of(version, encoded, limits))
        # Two parcels tell whether the rows fit one segment, without taking all of them into memory.
        first = [*islice(parcels, 2)]
        if not first:
            return Receipt(0, NOTHING)
        if len(first) == 1 or not self._terms.stages:
            return self._named([*first, *parcels], after)
        return self._staged(first[0].schema_version, chain(first, parcels), after)

    def _staged(
        self, schema_version: int, parcels: Iterable[Parcel], after: int | Behind | None = None, keys: Touched | None = None
    ) -> Receipt:
        began, put_id = to_micros(self._clock()), self._terms.new_id()
        try:
            staged = stage(self._store, self._log_id, put_id, schema_version, began, (parcel.chunks for parcel in parcels))
        except LakewardenError:
            with suppress(LakewardenError):  # as below
                abandon(self._store, self._log_id, put_id)
            raise
        self._terms.reach("append:staged")
        try:
            return self._named((Parcel.naming(staged),), after, keys)
        # Only errors that say that nothing was written. After any other, a segment may name what is staged, and it must stay.
        except (Conflict, ConstraintViolation, LostPlace, SchemaChanged):
            with suppress(LakewardenError):  # what stays here is removed when it is abandoned
                discard(self._store, self._log_id, put_id)
            raise

    def _named(self, parcels: Sequence[Parcel], after: int | Behind | None, keys: Touched | None = None) -> Receipt:
        """Appends behind `after`, which is found anew where others came between."""
        if not callable(after):
            return self.gathering.append(parcels, after, keys)
        # The last try is outside of the loop, so that its own Conflict reaches the caller.
        for _ in range(_ATTEMPTS - 1):
            with suppress(Conflict):
                return self.gathering.append(parcels, after(), keys)
        return self.gathering.append(parcels, after(), keys)

    def begin_batch(self) -> Staging:
        if not self._terms.stages:
            raise Unsupported("this warehouse is of an older format, which has no staged batches: run `lakewarden upgrade`")
        return begin(self._store, self._log_id, self._terms.new_id(), to_micros(self._clock()))

    def stage(self, staging: Staging, batch: LogBatch) -> tuple[StagedPiece, ...]:
        pieces, limits = list[StagedPiece](), self._terms.settings
        for parcel in parcels_of(batch.schema_version, encode(batch, limits, carried()), limits):
            pieces += self._put(staging, parcel)
            self._terms.reach("batch:staged")
        return tuple(pieces)

    def _put(self, staging: Staging, parcel: Parcel) -> list[StagedPiece]:
        chunks = [*parcel.chunks]
        while True:
            # By chance, and created only if absent: a task that Spark repeats makes further objects, which the publication
            # removes.
            number = int(self._terms.new_id()[:_NUMBER_DIGITS], 16)
            with suppress(AlreadyThere):
                return put_object(self._store, self._log_id, staging, number, parcel.schema_version, chunks)

    def publish(self, staging: Staging, pieces: Pieces, once: WriterBatch | None) -> Receipt | None:
        staged: StagedBatch | None = None
        # each lost attempt is an append of others, which a publication lets pass, so few come before it
        attempts = Attempts(1000, f"log {self._log_id} was appended to", "in between", "nothing was written: write again")
        while attempts.next():
            view = read_view(self._store, self._log_id, self._headers, ())
            # Two ways to be there: this very staging was named before (its answer was lost), or another attempt at the same
            # number was.
            named, known = is_named(staging.put_id, view.cut, view.run), once is not None and _stands_for(once, view)
            if known and not named:
                with suppress(LakewardenError):  # what stays here is removed when it is abandoned
                    discard(self._store, self._log_id, staging.put_id)
            # A staging that is there under no identity, or another, would make this number pass for written.
            if named and once is not None and not known:
                raise InvalidArgument("what was staged was published before, with another identity: begin each batch by itself")
            if named or known:
                return None
            if staged is None or callable(pieces):
                given = pieces(position_of(view.end)) if callable(pieces) else pieces
                # Nothing else of it stays staged.
                whole = remove_others(self._store, self._log_id, staging.put_id, given)
                staged = StagedBatch.of(staging, given, once)._replace(whole=whole)
            self._terms.reach("batch:looked")
            try:
                # Directly behind what was looked at: of two processes that publish the same batch, the second one loses, looks
                # again and finds it.
                return self.gathering.append((Parcel.naming(staged),), position_of(view.end), ANYTHING)
            except Conflict:
                continue
            except (LostPlace, SchemaChanged):
                with suppress(LakewardenError):  # as above
                    discard(self._store, self._log_id, staging.put_id)
                raise

    def staged_rows(
        self, staging: Staging, pieces: Iterable[StagedPiece], schemas: tuple[TableSchema, ...]
    ) -> Iterator[pa.Table]:
        for each in pieces:
            key = names.staged_key(self._log_id, staging.put_id, each.object)
            where = RowRange(
                key, staging.put_id, each.user, each.rows, each.offset, each.length, 0, each.schema_version, staging.stored_at
            )
            # Staged rows have no position, so the `_seq` that was decoded means nothing.
            yield decode([read_chunk(self._store, where)], [where], schemas).drop_columns([SEQ])

    def abandon(self, staging: Staging) -> None:
        discard(self._store, self._log_id, staging.put_id)

    def last_batch(self, writer_key: str) -> LastBatch:
        view = read_view(self._store, self._log_id, self._headers, ())
        return last_batch(view.cut, view.run, writer_key)


def _stands_for(once: WriterBatch, view: LogView) -> bool:
    """Whether the log has the batch. Raises `FailedPrecondition`: that is uncertain."""
    return last_batch(view.cut, view.run, once.key).stands_for(once.floor, once.writer, "the table")
