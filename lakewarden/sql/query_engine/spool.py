"""The rows of a result as they come: in memory up to a bound, and beyond it in a file on disk."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator
from io import FileIO

import pyarrow as pa

from lakewarden.errors import StorageUnavailable


class Spool:
    """Takes the rows of one result, then yields them as often as they are needed. Not for several threads.

    The file has no name: it is gone with the spool, or with the process.
    """

    def __init__(self, memory_bytes: int) -> None:
        """`memory_bytes`: how many bytes of rows stay in memory. With more, all go to the file."""
        self._memory_bytes = memory_bytes
        self._held: list[pa.Table] = []
        self._size = 0
        self._schema: pa.Schema | None = None
        self._file: FileIO | None = None
        self._stream: pa.RecordBatchStreamWriter | None = None

    @property
    def schema(self) -> pa.Schema:
        assert self._schema is not None, "a result has one table at least"
        return self._schema

    @property
    def in_memory(self) -> bool:
        return self._file is None

    def add(self, rows: pa.Table) -> None:
        """Raises:
        StorageUnavailable: the disk is full, or failed.
        """
        self._schema = self._schema or rows.schema
        self._size += rows.nbytes
        if self.in_memory and self._size <= self._memory_bytes:
            self._held.append(rows)
            return
        try:
            stream = self._stream or self._opened(rows.schema)
            for each in (*self._held, rows):
                stream.write_table(each)
        except OSError as error:
            raise _failed(error) from error
        self._held = []

    def tables(self) -> Iterator[pa.Table]:
        """Raises:
        StorageUnavailable: the disk failed.
        """
        if self._file is None:
            yield from self._held or [self.schema.empty_table()]
            return
        try:
            if self._stream is not None:
                self._stream.close()
                self._stream = None
            self._file.seek(0)
            again = FileIO(self._file.fileno(), "r", closefd=False)  # Arrow closes what it reads
            with pa.PythonFile(again, "r") as source, pa.ipc.open_stream(source) as stream:
                for batch in stream:
                    yield pa.Table.from_batches([batch])
        except OSError as error:
            raise _failed(error) from error

    def _opened(self, schema: pa.Schema) -> pa.RecordBatchStreamWriter:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # closed with the spool
        weakref.finalize(self, self._file.close)
        self._stream = pa.ipc.new_stream(pa.PythonFile(self._file, "w"), schema)
        return self._stream


def _failed(error: OSError) -> StorageUnavailable:
    return StorageUnavailable(
        f"the rows of the query could not be kept in a temporary file in {tempfile.gettempdir()}: {error}; nothing was written."
        " TMPDIR names another directory"
    )
