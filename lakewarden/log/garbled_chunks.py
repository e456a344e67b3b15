"""Finds the chunks of a log whose bytes are not those that were appended."""

from __future__ import annotations

from collections.abc import Sequence

from lakewarden.errors import Corrupt
from lakewarden.log.chunk import RowRange
from lakewarden.log.log_reader import LogReader
from lakewarden.storage.objects import Missing

_AT_ONCE = 1000
"""Chunks that are read together: neighbours in a segment by one request."""


def garbled_of(log: LogReader, chunks: Sequence[RowRange]) -> dict[RowRange, Corrupt]:
    """Those of the chunks that cannot be read, and why. A chunk that was cleaned away meanwhile does not count.

    Raises:
        StorageUnavailable: the store failed.
    """
    found: dict[RowRange, Corrupt] = {}
    for start in range(0, len(chunks), _AT_ONCE):
        found |= _halved(log, chunks[start : start + _AT_ONCE])
    return found


def _halved(log: LogReader, chunks: Sequence[RowRange]) -> dict[RowRange, Corrupt]:
    """Most often none is garbled, and one read says so."""
    try:
        log.chunks(chunks)
    except Missing:
        if len(chunks) == 1:
            return {}
    except Corrupt as error:
        if len(chunks) == 1:
            return {chunks[0]: error}
    else:
        return {}
    # By halves: of a thousand chunks one garbled one is found in about ten reads.
    half = len(chunks) // 2
    return _halved(log, chunks[:half]) | _halved(log, chunks[half:])
