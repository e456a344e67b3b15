"""Reads the objects of a Delta log, none larger than a bound: whoever may write a log decides how long they are."""

from __future__ import annotations

import os

from lakewarden.base.connection import Location
from lakewarden.delta.replay.paths import check_inside
from lakewarden.delta.replay.segment import LOG, LogFiles
from lakewarden.errors import Unsupported
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import Missing, ObjectStore, keys_of
from lakewarden.storage.open import open_store

MOST_COMMIT = 256 << 20
"""Bytes of one commit: those of half a million new files."""

MOST_CHECKPOINT = 1 << 30
"""Bytes of one part of a checkpoint."""

MOST_LOG = 4 << 30
"""Bytes of all that is read for one version."""


class LogObjects:
    """The objects of one table's log, for the replay of one version."""

    def __init__(self, location: Location, store: ObjectStore | None = None) -> None:
        self.location = location
        self.store: ObjectStore = store or open_store(location)
        root = local_path(location.uri)
        self._root = None if root is None else str(root)
        self._left = MOST_LOG

    @property
    def on_disk(self) -> bool:
        return self._root is not None

    def files(self) -> LogFiles:
        """One listing."""
        return LogFiles.of(keys_of(self.store, LOG))

    def read(self, name: str, most: int) -> bytes:
        """The object's bytes. `name` is relative to the table.

        Raises:
            Missing: it is not there.
            Unsupported: it has more than `most` bytes, or all that was read has more than `MOST_LOG`.
            OutsideTable: it is a link that leads out of the table.
        """
        most = min(most, self._left)
        if self._root is None:
            data = self.store.get_range(name, 0, most + 1)
            size = len(data)
        else:
            check_inside(name, name, self.location.uri)
            size = _size(f"{self._root}/{name}", name)
            data = b"" if size > most else self.store.get(name)
        if size > most:
            raise Unsupported(f"{name} of {self.location.uri} is too large to be read: more than {most:,} bytes")
        self._left -= size
        return data


def _size(path: str, name: str) -> int:
    try:
        return os.stat(path).st_size
    except (FileNotFoundError, NotADirectoryError):
        raise Missing(name) from None
    except OSError:  # which reading it says
        return 0
