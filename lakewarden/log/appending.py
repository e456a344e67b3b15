"""Taking rows into a log: what a log does, and what keeps rows back for it (`tables.images`, `tables.client.block`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from lakewarden.log.objects.log_view import LogView
from lakewarden.log.once import Pieces, Staging, WriterBatch
from lakewarden.log.position import Behind, Receipt
from lakewarden.log.record import Batch, LogBatch
from lakewarden.log.touches import Touched


class Appending(Protocol):
    """Takes rows into a log."""

    def ready(self, view: LogView) -> None:
        """Waits until what is read next, behind the view, is what an append directly behind the view follows.

        Raises:
            Conflict: that took too long.
        """
        ...

    def append(self, batch: Batch, after: int | None = None, keys: Touched | None = None) -> Receipt:
        """Appends rows. Returns once they are durable and every strong read that starts later will read them. Calls that come
        together share a segment. One user's rows become visible together, however many; of many users, those of a segment do.

        `after` makes it conditional: `position_of(view.end)` of the view that was read, after which the rows must
        come directly (a caller that reads before it writes could otherwise overwrite a write that it has not seen). Appends of
        this object may come between if they touch nothing of it: no row of its users, or, where `keys` says what was read and
        is written, no row with these keys.

        Raises:
            Conflict: another write came after `after`; nothing was written.
            SchemaChanged: the table was altered since the rows were made; nothing was written.
            LostPlace: they are a stream's, and another one took over; nothing was written.
            InvalidArgument: more rows than one position can number; nothing was written.
            PartlyAppended: rows of many users became several segments, and the first ones were appended.
            BeingErased: rows of these users are not accepted now.
            NotFound: the table was dropped.
            Corrupt: rows of the log are lost, or it ends below the known floor; nothing was written.
            StorageUnavailable: the store failed; the message says so if the rows may have been appended anyway.
        """
        ...

    def append_whole(self, batches: Iterable[LogBatch], after: int | Behind | None = None) -> Receipt:
        """Appends one user's rows as they come, however many, in bounded memory. All of them become visible together.

        Args:
            after: as in `append`; or what finds it, once all rows are durable but not visible, and again where another write
                came first.

        Raises:
            Conflict: another write came after `after`, or each time that it was found; nothing was written.
            InvalidArgument: rows of several users, or more than one position can number; nothing was written.
            LakewardenError: what `batches` or `after` raises, and then nothing was written; or as `append`.
        """
        ...

    def publish(self, staging: Staging, pieces: Pieces, once: WriterBatch | None = None) -> Receipt | None:
        """Appends the rows of a batch at one position, in the order of the pieces. What was staged besides them is removed.

        Where `pieces` makes them, nothing of others came between the position that it was given, and the batch.

        Returns:
            None when the log has the batch already: it was published before, or `once` says so. Nothing was written then.

        Raises:
            BeingErased: a user of the batch is being erased, or was since it was begun; nothing was written.
            FailedPrecondition: it is uncertain since a repair whether the batch was published; nothing was written.
            SchemaChanged: the columns were changed since the rows were staged; nothing was written.
            LostPlace: as `append`.
            Conflict: others kept appending; nothing was written.
            StorageUnavailable: the batch is a day old, and nothing was written; or the store failed: the message says so if
                the rows may have been appended anyway, and to publish the same again then does no harm.
            InvalidArgument, NotFound, Corrupt: as `append`.
        """
        ...

    def append_once(self, batch: LogBatch, once: WriterBatch) -> Receipt | None:
        """Stages and publishes a batch, which may be without rows. As `publish`."""
        ...
