"""Rules of writers that keep before images, taken away one at a time (as `planted`)."""

from __future__ import annotations

from collections.abc import Sequence

from lakewarden.log.objects.group import Parcel
from lakewarden.log.objects.writer import LogWriter
from lakewarden.log.once import Pieces, Staging, WriterBatch
from lakewarden.log.position import Receipt
from lakewarden.log.touches import Touched
from lakewarden.tables.images import Current
from tests.log.simulation.planted import Fault
from tests.log.simulation.schedule import IMAGES

_append, _publish = LogWriter.append_parcels, LogWriter.publish


def _never(*_: object) -> bool:
    return False


def _anywhere(self: LogWriter, parcels: Sequence[Parcel], _: int | None = None, keys: Touched | None = None) -> Receipt:
    return _append(self, parcels, None, keys)


def _once_for_all(self: LogWriter, staging: Staging, pieces: Pieces, once: WriterBatch | None) -> Receipt | None:
    made = pieces(0) if callable(pieces) else pieces
    return _publish(self, staging, made, once)


IMAGE_FAULTS = (
    Fault("keeps the images that another write of the key made old", ((Current, "_is_touched", _never),), IMAGES),
    Fault(
        "appends wherever the log ends, with the images of an earlier end", ((LogWriter, "append_parcels", _anywhere),), IMAGES
    ),
    Fault("takes the images of a batch once, whatever comes before it", ((LogWriter, "publish", _once_for_all),), IMAGES),
)
