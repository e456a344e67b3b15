"""Writes the rows of one piece of a file to data files: in a task, where a load has many bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakewarden.base.arrays import numbers
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.schema import SEQ, rows_schema
from lakewarden.errors import InvalidArgument, LakewardenError
from lakewarden.ingest.load.checking import RowCheck
from lakewarden.ingest.load.reading import Rejects, read_piece
from lakewarden.ingest.load.value import FilePiece
from lakewarden.log.position import WHOLE
from lakewarden.storage.steps import Steps
from lakewarden.tables.direct.outputs import PartWriter, TaskOutput, remove_written


@dataclass(frozen=True)
class PieceTask:
    """A piece whose rows go into data files of the table. Picklable."""

    target: ScopeTarget
    check: RowCheck
    piece: FilePiece
    first_seq: int
    """The `_seq` of its first row; as many follow as the piece can have rows."""
    stops: bool
    """Whether a row that does not fit ends the task."""


@dataclass(frozen=True)
class PieceWritten:
    """The rows of a piece; and what was rejected."""

    written: TaskOutput
    rejects: Rejects

    @property
    def rows(self) -> int:
        return self.written.rows


def write_piece(task: PieceTask) -> Steps[PieceWritten | LakewardenError]:
    """Holds the rows of one data file and one block in memory. An error is a value: a task of Spark cannot raise it."""
    rejects, writer = Rejects(), PartWriter(task.target)
    try:
        writer.write_all(_numbered(task, rejects))
        yield task.target.uri
    except LakewardenError as error:
        remove_written(task.target, [writer.written()])
        return error
    return PieceWritten(writer.written(), rejects)


def _numbered(task: PieceTask, rejects: Rejects) -> Iterator[pa.Table]:
    """The rows that fit, in the types of the table's files, with their `_seq`."""
    schema = rows_schema(task.target.schema)
    own = schema.remove(schema.get_field_index(SEQ))
    seq = task.first_seq
    for made in read_piece(task.check, task.piece, rejects):
        if rejects.count and task.stops:
            return
        count = made.rows.num_rows
        if seq + count > task.first_seq + min(task.piece.most, WHOLE):
            raise InvalidArgument(
                f"{task.piece.source.found.uri}: a piece has more rows than can be numbered; make load.piece_bytes smaller"
            )
        yield made.rows.select(own.names).cast(own).append_column(SEQ, numbers(np.arange(seq, seq + count)))
        seq += count
