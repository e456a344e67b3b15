"""The files that a direct write makes, and the `_seq` of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from lakewarden.base.arrays import numbers
from lakewarden.base.clock import NewId, random_id
from lakewarden.base.quantities import portions
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import (
    ChangeFile,
    NewFile,
    direct_name,
    shuffle_name,
    with_type,
    write_changes,
    write_files,
    write_partition,
)
from lakewarden.delta.parquet.schema import SEQ, rows_schema
from lakewarden.delta.partitions import Partition, divided
from lakewarden.errors import LakewardenError
from lakewarden.log.position import WHOLE, end_of, seq_of
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps
from lakewarden.tables.direct.value import Given, Reserve, TaskFiles, in_parts
from lakewarden.tables.fanout import Run, SizedWork, done_and_failed, run_here

# Brings the rows of a partition together that many tasks have found, where each would write a small file to every partition.
#
# A task writes a data file where it has enough rows of a partition. The others go into one shuffle file, in blocks of one
# partition each; then further tasks read the blocks of some partitions from all shuffle files, and write their data files. No
# commit names a shuffle file. What a process leaves that died goes as other files that no commit names
# (maintenance/vacuum/unreferenced_files.py).

_ENOUGH = 8
"""A task writes a data file of its own for rows of an eighth of the table's target size, and more."""

_TASK_BYTES = 64 << 20
"""Bytes of blocks that a task reads at once."""


@dataclass(frozen=True)
class ShuffleBlock:
    """Rows of one partition in a shuffle file: its bytes from `start` up to `end`."""

    path: str
    start: int
    end: int
    rows: int
    partition: Partition

    @property
    def place(self) -> tuple[list[tuple[bool, str]], str, int]:
        """Sorts blocks by their partitions, and those of one by their places."""
        return [(text is not None, text or "") for _, text in self.partition], self.path, self.start


@dataclass(frozen=True)
class TaskOutput:
    """What a task has written: data files, which are durable, and blocks that other tasks are to write."""

    files: tuple[NewFile, ...] = ()
    blocks: tuple[ShuffleBlock, ...] = ()


class PartWriter:
    """Writes the rows that a task has, complete and numbered."""

    def __init__(self, target: ScopeTarget, new_id: NewId = random_id) -> None:
        self._target = target
        self._new_id = new_id
        self._files: list[NewFile] = []
        self._blocks: list[ShuffleBlock] = []

    def write_all(self, rows: Iterable[pa.Table]) -> None:
        """Holds rows of about the table's target size in memory."""
        for part in in_parts(rows, self._target.target_file_size):
            self.write(part)

    def write(self, part: pa.Table) -> list[str]:
        """Returns the paths of the files that it wrote."""
        files, few = list[NewFile](), list[tuple[Partition, pa.Table]]()
        for partition, own in divided(part, self._target.schema.partition_by):
            # A file for each task and partition would be many small ones; without partitions the task's rows are one file
            # anyway.
            if partition and own.nbytes * _ENOUGH < self._target.target_file_size:
                few.append((partition, own))
            else:
                files += write_partition(self._target, partition, own, partial(direct_name, self._new_id))
        blocks = self._put_blocks(few) if few else []
        self._files += files
        self._blocks += blocks
        return [*(file.path for file in files), *{block.path for block in blocks}]

    def written(self) -> TaskOutput:
        return TaskOutput(tuple(self._files), tuple(self._blocks))

    def _put_blocks(self, few: Sequence[tuple[Partition, pa.Table]]) -> list[ShuffleBlock]:
        """In the order of partitions, so that a task's blocks lie side by side."""
        path, out, made = shuffle_name(self._new_id), pa.BufferOutputStream(), list[ShuffleBlock]()
        blocks = [(ShuffleBlock(path, 0, 0, rows.num_rows, partition), rows) for partition, rows in few]
        for block, rows in sorted(blocks, key=lambda one: one[0].place):
            start = out.tell()
            with pa.ipc.new_stream(out, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
                stream.write_table(rows)
            made.append(ShuffleBlock(path, start, out.tell(), block.rows, block.partition))
        open_store(self._target.location).write(path, memoryview(out.getvalue()))
        return made


def file_rows(target: ScopeTarget, rows: pa.Table, seqs: pa.Array[Any] | pa.ChunkedArray[Any]) -> pa.Table:
    """The rows in the types of the table's files, with their `_seq`."""
    schema = rows_schema(target.schema)
    own = schema.remove(schema.get_field_index(SEQ))
    return rows.select(own.names).cast(own).append_column(SEQ, seqs)


def remove_written(target: ScopeTarget, written: Iterable[TaskOutput]) -> None:
    """Removes what no commit names."""
    paths = [path for one in written for path in (*(file.path for file in one.files), *(block.path for block in one.blocks))]
    open_store(target.location).delete(dict.fromkeys(paths))


def shuffled(run: Run, target: ScopeTarget, written: Sequence[TaskOutput]) -> list[NewFile]:
    """Has tasks write the data files of all blocks. Returns the files with all rows; what was written is gone where it raises.

    Raises:
        StorageUnavailable, StorageRefused: a file cannot be read or written.
    """
    files = [file for one in written for file in one.files]
    blocks = sorted((block for one in written for block in one.blocks), key=lambda block: block.place)
    # In their order: a partition is in one pack, or in neighbours.
    packs = portions(blocks, lambda block: block.end - block.start, _TASK_BYTES)
    tasks = [SizedWork(task, task.bytes, target.on_disk) for task in (BlocksTask(target, tuple(some)) for some in packs)]
    over = run if len(tasks) > 1 else run_here  # a job of Spark costs more than one task
    done, failed = done_and_failed(over(write_blocks, tasks))
    made = [file for some in done for file in some]
    if failed is not None:
        remove_written(target, [*written, TaskOutput(tuple(made))])
        raise failed
    # Shuffle files are named by no commit. What a crash leaves of them a vacuum removes.
    remove_written(target, [TaskOutput(blocks=tuple(blocks))])
    return files + made


@dataclass(frozen=True)
class BlocksTask:
    """Blocks whose rows go into data files. Picklable."""

    target: ScopeTarget
    blocks: tuple[ShuffleBlock, ...]

    @property
    def bytes(self) -> int:
        return sum(block.end - block.start for block in self.blocks)


def write_blocks(task: BlocksTask) -> Steps[tuple[NewFile, ...] | LakewardenError]:
    """Holds its blocks, as they were compressed, and the rows of one data file. An error is a value: a task cannot raise it."""
    made: list[NewFile] = []
    try:
        _write(task, made)
        yield task.target.uri
    except LakewardenError as error:
        remove_written(task.target, [TaskOutput(tuple(made))])
        return error
    return tuple(made)


def _write(task: BlocksTask, made: list[NewFile]) -> None:
    read = _reads(task)
    for partition, blocks in groupby(task.blocks, key=lambda block: block.partition):
        for rows in in_parts(map(read, blocks), task.target.target_file_size):
            made += write_partition(task.target, partition, rows, partial(direct_name, random_id))


def _reads(task: BlocksTask) -> Callable[[ShuffleBlock], pa.Table]:
    """Reads each run of adjacent blocks with one request."""
    store, held = open_store(task.target.location), dict[tuple[str, int], memoryview]()
    for some in _adjacent(task.blocks):
        first, last = some[0], some[-1]
        data = memoryview(store.get_range(first.path, first.start, last.end - first.start))
        held |= {(one.path, one.start): data[one.start - first.start : one.end - first.start] for one in some}
    return lambda block: pa.ipc.open_stream(pa.py_buffer(held[block.path, block.start])).read_all()


def _adjacent(blocks: Iterable[ShuffleBlock]) -> Iterator[list[ShuffleBlock]]:
    some: list[ShuffleBlock] = []
    for block in sorted(blocks, key=lambda one: (one.path, one.start)):
        if some and (some[-1].path, some[-1].end) != (block.path, block.start):
            yield some
            some = []
        some.append(block)
    yield some


class Numbers:
    """Gives rows their `_seq`: the numbers of one position of the log, and of further ones where a write has more rows.

    A position is taken when the first number is needed, so a write that changes nothing takes none.
    """

    def __init__(self, take: Callable[[], int]) -> None:
        """`take` takes the next position of the log."""
        self._take = take
        self._position: int | None = None
        self._given = 0

    @property
    def position(self) -> int:
        """The last position that was taken."""
        if self._position is None:
            # Only now: a write that changes nothing takes no position, and no log gets an empty segment for it.
            self._position = self._take()
        return self._position

    @property
    def taken(self) -> int | None:
        """The same, None where none was needed."""
        return self._position

    @property
    def end(self) -> int:
        """The last possible `_seq` that was given."""
        return end_of(self.position)

    def renew(self) -> None:
        """The rows that come next have higher numbers than any that is in the table now."""
        self._position, self._given = None, 0

    def reserve(self, count: int) -> int:
        """Returns the first of so many consecutive numbers, at most `WHOLE`."""
        # A range does not go over the end of a position: the next one may be another writer's.
        if self._given + count > WHOLE:
            self.renew()
        first = seq_of(self.position, self._given)
        self._given += count
        return first


class Outputs:
    """Writes data files that no commit names yet."""

    def __init__(self, target: ScopeTarget, reserve: Reserve, new_id: NewId, *, numbered: bool = True) -> None:
        """
        Args:
            numbered: whether new rows get a `_seq`.
        """
        self.target = target
        self.reserve = reserve
        """Also for rows that others write."""
        self._numbered = numbered
        self._new_id = new_id
        self._made: list[str] = []

    def fresh(self, given: Given) -> tuple[NewFile, ...]:
        """Writes new rows, to files of about the table's target size, one after the other; or has tasks write them."""
        if isinstance(given, TaskFiles):
            return self.took(given.write(self.target, self.reserve))
        batches = (each if isinstance(each, pa.Table) else pa.Table.from_batches([each]) for each in given)
        parts = in_parts((self.numbered(rows) for rows in batches if rows.num_rows), self.target.target_file_size)
        first = next(parts, None)
        return () if first is None else (*self.write(first), *self._together(parts))

    def took(self, files: Iterable[NewFile], changes: Iterable[ChangeFile] = ()) -> tuple[NewFile, ...]:
        """Answers for files that others wrote, as for its own."""
        made = tuple(files)
        self._made += [*(file.path for file in made), *(file.path for file in changes)]
        return made

    def numbered(self, rows: pa.Table) -> pa.Table:
        """The rows in the types of the table, with their `_seq`, or NULL there."""
        if not self._numbered:
            return file_rows(self.target, rows, pa.nulls(rows.num_rows, pa.int64()))
        counts = [min(WHOLE, rows.num_rows - start) for start in range(0, rows.num_rows, WHOLE)]
        parts = [numbers(np.arange(first, first + count)) for first, count in ((self.reserve(each), each) for each in counts)]
        return file_rows(self.target, rows, pa.chunked_array(parts, pa.int64()))

    def write(self, rows: pa.Table) -> list[NewFile]:
        """Writes rows that have their `_seq`, to a file for each partition."""
        made = write_files(self.target, rows, partial(direct_name, self._new_id))
        self._made += [file.path for file in made]
        return made

    def _together(self, parts: Iterator[pa.Table]) -> Iterable[NewFile]:
        """Writes further parts, with the rows of a partition together: a file in each partition for each part would be many."""
        writer = PartWriter(self.target, self._new_id)
        for part in parts:
            self._made += writer.write(part)
        return self.took(shuffled(run_here, self.target, [writer.written()]))

    def changed(self, rows: pa.Table, word: str) -> list[ChangeFile]:
        """Writes, for readers of a change data feed, that these rows came or went."""
        made = write_changes(self.target, with_type(rows, word), self._new_id)
        self._made += [file.path for file in made]
        return made

    def discard(self, paths: Iterable[str] | None = None) -> None:
        """Deletes what no commit names: these files, or all that were written."""
        gone = set(self._made if paths is None else paths)
        self._made = [path for path in self._made if path not in gone]
        open_store(self.target.location).delete(sorted(gone))
