"""Brings the rows of a partition together that many tasks have found, where each would write a small file to every partition.

A task writes a data file where it has enough rows of a partition. The others go into one shuffle file, in blocks of one partition
each; then further tasks read the blocks of some partitions from all shuffle files, and write their data files. No commit names a
shuffle file. What a process leaves that died goes as other files that no commit names (maintenance/vacuum/orphans.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import pyarrow as pa

from lakewarden.base.clock import NewId, random_id
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import NewFile, direct_name, shuffle_name, write_partition
from lakewarden.delta.partitions import Partition, divided
from lakewarden.errors import LakewardenError
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps
from lakewarden.tables.direct.parts import in_parts
from lakewarden.tables.fanout import Run, SizedWork, done_and_failed, run_here

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

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files) + sum(block.rows for block in self.blocks)


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
    tasks = [SizedWork(task, task.bytes, target.on_disk) for task in (BlocksTask(target, some) for some in _packed(blocks))]
    over = run if len(tasks) > 1 else run_here  # a job of Spark costs more than one task
    done, failed = done_and_failed(over(write_blocks, tasks))
    made = [file for some in done for file in some]
    if failed is not None:
        remove_written(target, [*written, TaskOutput(tuple(made))])
        raise failed
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


def _packed(blocks: Iterable[ShuffleBlock]) -> Iterator[tuple[ShuffleBlock, ...]]:
    """The blocks in their order, so many bytes at a time: a partition is in one pack, or in neighbours."""
    some, room = list[ShuffleBlock](), _TASK_BYTES
    for block in blocks:
        if some and block.end - block.start > room:
            yield tuple(some)
            some, room = [], _TASK_BYTES
        some.append(block)
        room -= block.end - block.start
    if some:
        yield tuple(some)
