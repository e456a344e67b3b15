"""Reads the objects of a batch by the pipeline's template: rows of each into a file of its own, or the reason why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from lakewarden.catalog.model import Pipeline
from lakewarden.catalog.state.ledger import OfferedObject
from lakewarden.errors import Conflict, InvalidArgument, NotFound, StorageRefused
from lakewarden.ingest.templates.template import Columns
from lakewarden.storage.objects import Missing
from lakewarden.storage.sources import ObjectChanged, ObjectSource, SourceObject


@dataclass(frozen=True)
class ReadRows:
    """The rows of an object, as a stream of Arrow."""

    rows: int
    columns: Columns
    path: Path


@dataclass(frozen=True)
class UnreadableObject:
    """The object cannot be read: a reject."""

    reason: str


@dataclass(frozen=True)
class ObjectGone:
    """The object is no longer the one that was listed."""

    reason: str


Outcome = ReadRows | UnreadableObject | ObjectGone

ReadObject = Callable[[SourceObject, Columns, Callable[[int, int], bytes], Path], ReadRows | UnreadableObject]
"""Reads one object: with the table's columns, by ranges of it, into a file. Errors of the ranges come through unchanged."""


@dataclass
class Reading:
    """The objects of one batch, read with the columns that the table has then, or later with more of them."""

    source: ObjectSource
    read: ReadObject
    each: Callable[[Callable[[int], Outcome], Sequence[int]], list[Outcome]]
    """Calls the function for every number, perhaps several at the same time."""
    directory: Path
    objects: Sequence[OfferedObject]
    _files: Iterator[int] = field(default_factory=count)

    def rest(self, columns: Columns, first: int) -> list[Outcome]:
        """All objects from that number on."""
        return self.each(lambda number: self.one(number, columns), range(first, len(self.objects)))

    def one(self, number: int, columns: Columns) -> Outcome:
        """Raises:
        StorageUnavailable, StorageRefused: the store fails, or refuses this process everything: no object is at fault.
        """
        uploaded = self.objects[number].object
        if uploaded.refused:
            return UnreadableObject(uploaded.refused)
        try:
            with self.source.open(uploaded) as file:

                def ranges(start: int, length: int) -> bytes:
                    file.seek(start)
                    return file.read(length)

                found = self.read(uploaded, columns, _watched(ranges, uploaded), self.directory / f"{next(self._files)}.arrow")
            self.source.prove(uploaded)
        except (Missing, NotFound):
            return ObjectGone("it was removed before it was read")
        except (ObjectChanged, Conflict):
            return ObjectGone("it was replaced before it was read")
        except InvalidArgument as error:
            return UnreadableObject(error.message)
        except StorageRefused as error:
            next(iter(self.source.uploads()), None)  # raises where the store refuses everything: then no object is at fault
            return UnreadableObject(error.message)
        return found


ReadWith = Callable[[ObjectSource, Pipeline, Sequence[OfferedObject], Path], Reading]
"""Prepares to read objects of a source, by the template of a pipeline, into files of a directory."""


def _watched(ranges: Callable[[int, int], bytes], uploaded: SourceObject) -> Callable[[int, int], bytes]:
    """Ranges whose errors a template does not take for its own."""

    def read(start: int, length: int) -> bytes:
        try:
            data = ranges(start, length)
        except Missing:
            raise NotFound(f"{uploaded.key} was removed while it was read") from None
        except ObjectChanged:
            raise Conflict(f"{uploaded.key} was replaced while it was read") from None
        if len(data) < length:
            raise Conflict(f"{uploaded.key} became shorter while it was read")
        return data

    return read
