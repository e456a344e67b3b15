"""Rewrites one bin of an optimize by itself: in a task of Spark's, where a scope has too many bytes for one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import pyarrow as pa

from lakewarden.base.clock import Clock, random_id
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.committing import check_held
from lakewarden.delta.parquet.files import DataFile, NewFile, compact_name, write_files
from lakewarden.delta.reading.file_group import FileGroup
from lakewarden.maintenance.optimize.zorder import z_ordered
from lakewarden.storage.steps import Steps


@dataclass(frozen=True)
class BinTask:
    """Files of one partition, to be written again. Picklable. `target` has the schema that the table has now."""

    target: ScopeTarget
    group: FileGroup
    zorder: tuple[str, ...]
    planned_at: datetime
    clock: Clock


def write_bin(task: BinTask) -> Steps[tuple[NewFile, ...]]:
    """Returns the new files, which are durable where they were written.

    Raises:
        TooLate: the plan is too old.
    """
    made: list[NewFile] = []
    for part in cut(task.group.read(), task.zorder, task.group.files, task.target):
        check_held(f"the optimize of {task.target.scope}", task.planned_at, task.clock())
        made += write_files(task.target, part, partial(compact_name, random_id))
    yield task.target.uri
    return tuple(made)


def cut(rows: pa.Table, zorder: tuple[str, ...], files: tuple[DataFile, ...], target: ScopeTarget) -> Iterator[pa.Table]:
    """The rows of a bin, which was these files, as those of new files: of one, or in Z-order of several of the target size."""
    if not zorder:
        return (each for each in (rows,) if each.num_rows)
    ordered = z_ordered(rows, zorder)
    step = max(1, -(-ordered.num_rows // outputs(sum(file.size for file in files), target)))
    return (ordered.slice(start, step) for start in range(0, ordered.num_rows, step))


def outputs(size: int, target: ScopeTarget) -> int:
    """How many files so many bytes become."""
    return max(1, -(-size // target.target_file_size))
