"""Appends rows to a table's write log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager

from lakewarden.base.clock import Clock, NewId
from lakewarden.base.commit_metadata import carried
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.settings import LogSettings
from lakewarden.log.chunk import Chunk
from lakewarden.log.objects.appends import Appends
from lakewarden.log.objects.batches import Batches
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.gather import Gathering
from lakewarden.log.objects.group import Parcel, parcels_of
from lakewarden.log.objects.put import Puts, WriterTerms
from lakewarden.log.objects.segments.pack import INDEXED
from lakewarden.log.plain import Batch, PlainRow
from lakewarden.log.position import NOTHING
from lakewarden.log.receipt import Receipt
from lakewarden.log.record import LogBatch, encode
from lakewarden.log.table_log import Behind, Mark
from lakewarden.log.touches import Touched
from lakewarden.storage.objects import ObjectStore


class LogWriter:
    """Appends to one partition. Safe for threads: calls that come while a segment is put share the next one."""

    def __init__(
        self,
        store: ObjectStore,
        log_id: str,
        settings: LogSettings,
        clock: Clock,
        new_id: NewId,
        mark: Mark,
        terms: WriterTerms | None = None,
        *,
        pause: Callable[[float], None] = time.sleep,
        reach: Reach = no_faults,
    ) -> None:
        terms = terms or WriterTerms()
        self._settings = settings
        puts = Puts(store, log_id, mark, terms, pause=pause, reach=reach)
        self._gathering = Gathering(puts, settings, clock, new_id, terms.still_there)
        stages, headers = terms.segment_format >= INDEXED, terms.headers or HeaderCache()
        self.batches = Batches(store, log_id, settings, self._gathering, clock, new_id, headers, stages=stages, reach=reach)
        self._appends = Appends(store, log_id, self._gathering, clock, new_id, stages=stages, reach=reach)

    def look_again(self) -> None:
        """The next append looks at the log as a new process would."""
        self._gathering.look_again()

    def announced(self) -> AbstractContextManager[None]:
        """As `TableLog.announced`."""
        return self._gathering.announced()

    def append(self, batch: Batch, after: int | None = None, keys: Touched | None = None) -> Receipt:
        """Returns once the rows are durable and will be read by every strong read that starts from now on.

        `after` makes it conditional: `position_of(view.end)` of the view that was read, behind which the rows must
        come directly (what reads before it writes would otherwise overwrite a write that it has not seen). Puts of this
        writer may come between that touch nothing of it: no row of its users, or where `keys` says what was read and is
        written, no row of these keys.

        Raises:
            Conflict: another write came after `after`; nothing was written.
            InvalidArgument: more rows than one position can number.
            PartlyAppended: rows of many users became several segments, and the first ones were appended.
            BeingErased: of these users nothing is taken now.
            NotFound: the table was dropped.
            Corrupt: rows of the log are lost, or it ends below the known floor; nothing was written.
            StorageUnavailable: the store failed; the message says so if the rows may have been taken all the same.
        """
        metadata = carried()
        if isinstance(batch, PlainRow) and not metadata:
            return self._gathering.append((Parcel.of(batch),), after, keys)
        parcels = parcels_of(batch.schema_version, _encoded(batch, self._settings, metadata), self._settings)
        if not parcels:
            return Receipt(0, NOTHING)
        return self._appends.append(parcels, after, keys)

    def append_whole(self, batches: Iterable[LogBatch], after: int | Behind | None = None) -> Receipt:
        """Appends one user's rows, however many, all of which become visible together. Holds about two segments of them.

        Args:
            after: as in `TableLog.append_whole`.

        Raises:
            InvalidArgument: the rows of several users, or more than one position can number.
            LakewardenError: what `batches` or `after` raises; or as `append`. Unless it says otherwise, nothing was written.
        """
        limits, metadata = self._settings, carried()
        chunks = ((batch.schema_version, encode(batch, limits, metadata)) for batch in batches)
        return self._appends.append_whole(
            (parcel for version, encoded in chunks for parcel in parcels_of(version, encoded, limits)), after
        )


def _encoded(batch: Batch, settings: LogSettings, metadata: str) -> Sequence[Chunk]:
    return encode(LogBatch(batch.schema_version, batch.rows), settings, metadata)
