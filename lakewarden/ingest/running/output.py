"""The rows of one object, in a file: an Arrow stream of small batches, written by a worker and mapped by its caller."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.errors import Unsupported
from lakewarden.ingest.running.bounds import ReadBounds

BATCH_BYTES = 8 << 20
"""Of one batch, or of one row where that is larger."""


def open_rows(file: Path) -> pa.RecordBatchReader:
    """Reads what `Output` wrote. Rows stay in the file, which the system may drop from memory."""
    return pa.ipc.open_stream(pa.memory_map(str(file)))


class Output:
    """Writes batches of one schema."""

    def __init__(self, file: io.IOBase, bounds: ReadBounds) -> None:
        self._file = pa.PythonFile(file, "w")
        self._bounds = bounds
        self._stream: pa.ipc.RecordBatchStreamWriter | None = None
        self.rows = 0
        self.bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._stream is not None and error is None:
            self._stream.close()
        self._file.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Raises:
        Unsupported: the object has more rows, bytes or a longer value than it may have.
        OSError: the file's bound, which the kernel holds, or a full disk.
        """
        self.rows += batch.num_rows
        self.bytes += batch.nbytes
        self._check(batch)
        if self._stream is None:
            self._stream = pa.ipc.new_stream(self._file, batch.schema)
        for part in _parts(batch):
            self._stream.write_batch(part)

    def _check(self, batch: pa.RecordBatch) -> None:
        if self.rows > self._bounds.rows:
            raise Unsupported(f"the object has more than the {self._bounds.rows:,} rows that are allowed")
        if self.bytes > self._bounds.output_bytes:
            raise Unsupported(f"the object's rows take more than the {self._bounds.output_bytes:,} bytes that are allowed")
        for name, values in zip(batch.schema.names, batch.columns, strict=True):
            if (longest := _longest(values)) > self._bounds.value_bytes:
                raise Unsupported(
                    f"column {name!r} has a value of {longest:,} bytes, and {self._bounds.value_bytes:,} are allowed"
                )


def _longest(values: pa.Array[Any]) -> int:
    if not isinstance(values, pa.StringArray | pa.BinaryArray):
        return 0
    return pc.max(pc.binary_length(values)).as_py() or 0


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = max(batch.num_rows * BATCH_BYTES // max(batch.nbytes, 1), 1)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
