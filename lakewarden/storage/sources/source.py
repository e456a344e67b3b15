"""An object of a source, and what a source can do, whichever store it is in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Protocol


class ObjectChanged(Exception):
    """The object is there, and has another ETag than it was listed with."""


@dataclass(frozen=True)
class SourceObject:
    """An object of a source. `key` is relative to the source; `size` in bytes."""

    key: str
    size: int
    etag: str
    """What changes whenever the content does; on a disk, the time of the last change and the size."""
    modified: datetime
    refused: str = ""
    """Why no store could read it under this key; empty for all but hostile names."""


class ObjectSource(Protocol):
    """A directory, or a prefix of a bucket. Every method raises `StorageUnavailable` or `StorageRefused` when the store fails."""

    @property
    def uri(self) -> str: ...

    def uploads(self, after: str = "") -> Iterator[SourceObject]:
        """Yields the objects whose keys come after that key, in their order. A source that does not exist is empty."""
        ...

    def look(self, key: str) -> SourceObject:
        """Returns one object. Raises `Missing`, also for a key that leads out of the source."""
        ...

    def open(self, uploaded: SourceObject) -> BinaryIO:
        """Opens an object for reading at any place. This, or a later read, raises `Missing` or `ObjectChanged` where it is no
        longer the one that was listed."""
        ...

    def prove(self, uploaded: SourceObject) -> None:
        """Proves, after the last read, that all reads were of the object that was listed. Raises `Missing`, `ObjectChanged`."""
        ...
