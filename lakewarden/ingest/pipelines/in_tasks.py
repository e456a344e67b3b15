"""An attempt at a large batch: tasks of Spark read its objects and write data files, which one commit adds.

The numbers of the rows belong to the write, so the tasks run inside it. The outcome is named there too: before the commit, as in
every attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.clock import random_id
from lakewarden.base.quantities import portions
from lakewarden.catalog.model import Table
from lakewarden.catalog.state.ledger import LOOKS, Attempt, ObjectBatch, ObjectFate, OfferedObject
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import NewFile, direct_name, write_files
from lakewarden.delta.parquet.reading import open_file
from lakewarden.delta.parquet.schema import SEQ, read_schema
from lakewarden.delta.reading.keys import Keys
from lakewarden.errors import Conflict, InvalidArgument, LakewardenError, Unsupported
from lakewarden.ingest.pipelines.context import CountingAttempt, IngestContext
from lakewarden.ingest.pipelines.fit import ObjectTable, PipelineFitting, columns_of
from lakewarden.ingest.pipelines.landing import land, replaced_by
from lakewarden.ingest.pipelines.reading import Reading, ReadObject, ReadWith
from lakewarden.ingest.templates.template import Columns
from lakewarden.ingest.templates.worker import ObjectRows
from lakewarden.log.once import WriterBatch
from lakewarden.log.position import WHOLE
from lakewarden.storage.location import local_path
from lakewarden.storage.open import open_store
from lakewarden.storage.sources import ObjectSource
from lakewarden.storage.steps import Steps
from lakewarden.tables.direct.outputs import TaskOutput, remove_written, shuffled
from lakewarden.tables.direct.task_files import TaskNumbers, all_written, write_rows
from lakewarden.tables.direct.value import Reserve, TaskFiles
from lakewarden.tables.fanout import Run, SizedWork, done_and_failed

# What a task does with its pack of a batch's objects: it reads them, and writes the rows of those that fit to data files.
#
# No row passes through the process that commits. A pack in which an object brings a new column writes nothing more: the catalog
# has to have the column first, and the pack runs again.


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


def write_pack(work: PackWork, pack: ObjectPack) -> Steps[tuple[TaskOutput, list[Found]] | LakewardenError]:
    """Says what became of each object, in their order. Holds the rows of one data file and one batch in memory."""
    found = list[Found]()
    return write_rows(work.target, _rows(work, pack, found), found)


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
        if isinstance(outcome, ObjectRows) and grown.schemas != work.table.schemas:
            found = Grows(outcome.columns)
        elif taken.rows > numbers.left:
            found = SequenceExhausted()
        made.append(found)
        if not isinstance(outcome, ObjectRows):
            continue
        if taken.rows and all(isinstance(one, ObjectFate) for one in made):
            for rows in work.fitting.checked(work.table.schema, ObjectTable(offered.object.key, outcome.path)):
                yield numbers.numbered(rows)
        outcome.path.unlink(missing_ok=True)


# Of rows with the same key, which tasks wrote to data files, the last one stays: a later object or row of the batch wins.
@dataclass(frozen=True)
class _Thin:
    """A file, and the `_seq` of rows that leave it. Picklable."""

    file: NewFile
    gone: pa.ChunkedArray[Any]


def each_key_once(run: Run, target: ScopeTarget, files: Sequence[NewFile]) -> tuple[list[NewFile], pa.Table]:
    """Returns the files without rows whose key has a later one, and the keys, which are in memory: only they are read here.

    Raises:
        LakewardenError: a file could not be written; all files are deleted.
    """
    key = list(target.schema.primary_key)
    found = [_read(target, file, [*key, SEQ]) for file in files]
    none = pa.table({field.name: pa.array([], field.type) for field in read_schema(target.schema) if field.name in (*key, SEQ)})
    rows = pa.concat_tables([none.select([*key, SEQ]), *found])
    newest = Keys.newest(rows, key).rows
    if newest.num_rows == rows.num_rows:
        return list(files), rows.select(key)
    stays = newest.column(SEQ)
    gone = [one.column(SEQ).filter(pc.invert(pc.is_in(one.column(SEQ), value_set=stays))) for one in found]
    thin = [SizedWork(_Thin(file, lost), file.size, target.on_disk) for file, lost in zip(files, gone, strict=True) if len(lost)]
    kept = [file for file, lost in zip(files, gone, strict=True) if not len(lost)]
    made, failed = done_and_failed(run(partial(_thinned, target), thin))
    written = [file for one in made for file in one]
    store = open_store(target.location)
    if failed is not None:
        store.delete([file.path for file in (*files, *written)])
        raise failed
    store.delete([one.work.file.path for one in thin])
    return [*kept, *written], newest.select(key)


def _thinned(target: ScopeTarget, thin: _Thin) -> Steps[list[NewFile] | LakewardenError]:
    try:
        made = _without(target, thin)
        yield target.uri
    except LakewardenError as error:
        return error
    return made


def _without(target: ScopeTarget, thin: _Thin) -> list[NewFile]:
    names = [field.name for field in read_schema(target.schema)]
    rows = _read(target, thin.file, names)
    left = rows.filter(pc.invert(pc.is_in(rows.column(SEQ), value_set=thin.gone)))
    return write_files(target, left, partial(direct_name, random_id)) if left.num_rows else []


def _read(target: ScopeTarget, file: NewFile, names: Sequence[str]) -> pa.Table:
    every = read_schema(target.schema)
    opened = open_file(open_store(target.location), file.path, file.partition)
    return opened.read(pa.schema([every.field(name) for name in names]), {})


OpenReads = Callable[[], AbstractContextManager[ReadObject]]
"""In a task: what reads one object. Picklable."""

_PACK_OBJECTS = 250
_PACK_BYTES = 64 << 20
"""Each pack takes a position of the log for its rows' numbers, and writes data files of its own: a pack is worth both."""


@dataclass(frozen=True)
class InTasks:
    """Attempts whose objects are read by tasks."""

    context: IngestContext
    read: ReadWith
    """For the first objects of a table without a schema: the tasks need its columns."""
    run: Run
    opened: OpenReads
    otherwise: Callable[[ObjectBatch], CountingAttempt | None]
    """Attempts a batch none of whose objects gives the table a schema."""

    def attempted(self, batch: ObjectBatch) -> CountingAttempt | None:
        """Returns None where the batch is settled."""
        table = self._shaped(batch)
        if not table.schemas:
            return self.otherwise(batch)
        for _ in range(LOOKS):  # each brings another column
            view = self.context.ledger.look()
            if view.settled >= batch.number:
                return None
            run = _Run(self.context, batch, table, view.next, self.run, self.opened)
            try:
                return run.landed()
            except Conflict:
                if run.grown is None:
                    raise
            table = self._grown(table, run.grown, batch)
        raise self.context.ledger.busy()

    def _shaped(self, batch: ObjectBatch) -> Table:
        before = self.context.table()
        if before.schemas:
            return before
        with TemporaryDirectory(prefix="lakewarden-ingest-") as directory:
            reading = self.read(self.context.source, self.context.pipeline, batch.objects, Path(directory))
            shaped = self.context.fitting.shaped(before, reading)
        self.context.reach("ingest:read")
        return self._grown(before, shaped, batch)

    def _grown(self, before: Table, after: Table, batch: ObjectBatch) -> Table:
        table = self.context.grow(before, after, batch)
        self.context.reach("ingest:grown")
        return table


@dataclass
class _Run:
    """One direct write with its tasks."""

    context: IngestContext
    batch: ObjectBatch
    table: Table
    number: int
    """Of the attempt."""
    run: Run
    opened: OpenReads
    attempt: Attempt | None = None
    grown: Table | None = None
    """The table with columns that objects bring, where that is why the write ended."""
    keys: pa.Table = field(default_factory=lambda: pa.table({}))

    def landed(self) -> CountingAttempt:
        """Raises:
        Conflict: columns are to be added first (`grown`), another process attempts the batch, or others change the table.
        """
        direct = self.context.direct(self.table)
        once = WriterBatch(self.context.pipeline.id, self.number, self.batch.number)
        replaceable = [one.object.key for one in self.batch.objects if one.replaces]
        given = TaskFiles(self._written)
        done = land(direct, once, given, keys=lambda: self.keys, replaceable=replaceable, replaced=self._replaced)
        attempt = self.attempt or Attempt(self.number, self.batch.number, self.context.job_id, self.context.warehouse.clock(), ())
        return self.context.landed_by(direct, attempt, done)

    def _replaced(self) -> Sequence[str]:
        return replaced_by(self.batch, self.attempt.taken) if self.attempt is not None else ()

    def _written(self, target: ScopeTarget, reserve: Reserve) -> Sequence[NewFile]:
        """Has tasks write the files, and names the outcome. What it wrote is gone where it raises."""
        written, found = self._run_packs(target, self._packs(reserve, _PACK_OBJECTS))
        if any(isinstance(one, SequenceExhausted) for one in found):
            remove_written(target, written)
            written, found = self._run_packs(target, self._packs(reserve, 1))
        self.context.reach("ingest:read")
        grows = [one for one in found if isinstance(one, Grows)]
        if grows:
            remove_written(target, written)
            self.grown = self._with(grows)
            raise Conflict(f"objects bring new columns of {self.table.name}")
        files = shuffled(self.run, target, written)
        if target.schema.keyed:
            files, self.keys = each_key_once(self.run, target, files)
        taken = tuple(one for one in found if isinstance(one, ObjectFate))
        self.attempt = self.context.named(self.number, self.batch, taken)
        if self.attempt is None:
            remove_written(target, [TaskOutput(tuple(files))])
            raise Conflict(f"another process takes the same objects into {self.table.name}")
        self.context.reach("ingest:named")
        return files

    def _packs(self, reserve: Reserve, most: int) -> list[ObjectPack]:
        packs = portions(self.batch.objects, lambda one: one.object.size, _PACK_BYTES, most)
        return [ObjectPack(tuple(pack), reserve(WHOLE)) for pack in packs]

    def _run_packs(self, target: ScopeTarget, packs: Sequence[ObjectPack]) -> tuple[list[TaskOutput], list[Found]]:
        work = PackWork(target, self.table, self.context.fitting, self.context.source, self.opened)
        on_disk = local_path(self.context.source.uri) is not None
        sized = [SizedWork(pack, sum(one.object.size for one in pack.objects), on_disk) for pack in packs]
        written, found = all_written(self.run, target, partial(write_pack, work), sized)
        return written, [*chain.from_iterable(found)]

    def _with(self, grows: Sequence[Grows]) -> Table:
        """The table with their columns; of two that do not go together, the first one's. The other is a reject, then."""
        table = self.table
        for one in grows:
            with suppress(InvalidArgument, Unsupported):
                table = self.context.fitting.grown(table, one.columns)
        return table
