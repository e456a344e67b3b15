"""What a task does with its pack of a batch's objects: it reads them, and writes the rows of those that fit to data files.

No row passes through the process that commits. A pack in which an object brings a new column writes nothing more: the catalog has
to have the column first, and the pack runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from lakewarden.catalog.model import Table
from lakewarden.catalog.state.ledger import ObjectFate, OfferedObject
from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import LakewardenError
from lakewarden.ingest.pipelines.fit import ObjectTable, PipelineFitting, columns_of
from lakewarden.ingest.pipelines.reading import Reading, ReadObject, ReadRows
from lakewarden.ingest.templates.template import Columns
from lakewarden.storage.sources import ObjectSource
from lakewarden.storage.steps import Steps
from lakewarden.tables.direct.outputs import TaskOutput
from lakewarden.tables.direct.task_files import TaskNumbers, write_rows


@dataclass(frozen=True)
class Grows:
    """The object fits, and brings columns that the table lacks."""

    columns: Columns


@dataclass(frozen=True)
class SequenceExhausted:
    """The pack's `_seq` did not suffice for the object's rows."""


Found = ObjectFate | Grows | SequenceExhausted


@dataclass(frozen=True)
class PackWork:
    """What all packs of a batch have in common. Picklable."""

    target: ScopeTarget
    table: Table
    fitting: PipelineFitting
    source: ObjectSource
    opened: Callable[[], AbstractContextManager[ReadObject]]


@dataclass(frozen=True)
class ObjectPack:
    """Objects that one task reads, in their order."""

    objects: tuple[OfferedObject, ...]
    first_seq: int
    """The first of `WHOLE` numbers: nothing says how many rows an object has before it is read."""


@dataclass(frozen=True)
class PackWritten:
    """What became of each object, in their order, and the rows of those that fit."""

    found: tuple[Found, ...]
    written: TaskOutput


def write_pack(work: PackWork, pack: ObjectPack) -> Steps[PackWritten | LakewardenError]:
    """Holds the rows of one data file and one batch in memory."""
    found = list[Found]()
    return write_rows(work.target, _rows(work, pack, found), lambda written: PackWritten(tuple(found), written))


def _rows(work: PackWork, pack: ObjectPack, found: list[Found]) -> Generator[pa.Table, None, None]:
    with TemporaryDirectory(prefix="lakewarden-ingest-") as directory, work.opened() as read:
        reading = Reading(work.source, read, lambda one, which: [*map(one, which)], Path(directory), pack.objects)
        yield from _numbered(work, TaskNumbers(work.target, pack.first_seq), reading, found)


def _numbered(work: PackWork, numbers: TaskNumbers, reading: Reading, made: list[Found]) -> Iterator[pa.Table]:
    """The rows of the objects that fit."""
    columns = columns_of(work.table)
    for number, offered in enumerate(reading.objects):
        outcome = reading.one(number, columns)
        grown, taken = work.fitting.taken(work.table, outcome)
        found: Found = taken
        if isinstance(outcome, ReadRows) and grown.schemas != work.table.schemas:
            found = Grows(outcome.columns)
        elif taken.rows > numbers.left:
            found = SequenceExhausted()
        made.append(found)
        if not isinstance(outcome, ReadRows):
            continue
        if taken.rows and all(isinstance(one, ObjectFate) for one in made):
            for rows in work.fitting.checked(work.table.schema, ObjectTable(offered.object.key, outcome.path)):
                yield numbers.numbered(rows)
        outcome.path.unlink(missing_ok=True)
