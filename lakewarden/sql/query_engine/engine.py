"""The interface that runs queries: it takes a text and the rows of each relation in it, and has access to nothing else."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import FileIO
from typing import Any, Protocol

import pyarrow as pa

from lakewarden.base.cancellation import Cancellation
from lakewarden.catalog.model import TableSchema
from lakewarden.errors import StorageUnavailable
from lakewarden.sql.results import ResultRows


# The rows of a result as they come: in memory up to a bound, and beyond it in a file on disk.
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
        """Raises StorageUnavailable: the disk is full, or failed."""
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
        """Raises StorageUnavailable: the disk failed."""
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


@dataclass(frozen=True)
class Limits:
    """The limits of one query. All queries of the engine share its memory and threads."""

    seconds: float
    result_bytes: int
    """In memory."""
    spooled_bytes: int = 1 << 60
    """Of a result that goes to a file where it has more than `result_bytes`. As many as the disk takes, unless it is said."""
    cancellation: Cancellation = field(default_factory=Cancellation)


def for_duck(rows: pa.Table, schema: TableSchema) -> pa.Table:
    """JSON and FILE columns in DuckDB's JSON type: its JSON shorthands do not accept text."""
    for index, name in enumerate(rows.column_names):
        column = schema.column(name)
        if column is not None and column.type.name in ("JSON", "FILE") and not pa.types.is_null(rows.field(name).type):
            kind = pa.json_(pa.string())
            chunks: list[pa.Array[Any]] = [pa.ExtensionArray.from_storage(kind, chunk) for chunk in rows.column(index).chunks]
            whole = pa.chunked_array(chunks) if chunks else pa.ExtensionArray.from_storage(kind, pa.array([], pa.string()))
            rows = rows.set_column(index, name, whole)
    return rows


class QueryEngine(Protocol):
    """Runs the queries of every session of a process, in any number of threads at once.

    A query depends on its text and its relations, and leaves nothing that another could see. Every method may raise
    PermissionDenied, BadSyntax, InvalidArgument or Unsupported, each because of the query alone, and Canceled.
    """

    def check(self, sql: str, limits: Limits) -> None:
        """Refuses a text that is not a query, or that calls a function which does more than compute."""

    def run(self, sql: str, relations: Mapping[str, pa.Table], limits: Limits) -> ResultRows:
        """Returns the query's rows. It may name the given relations and its own CTEs, and no others.

        Raises:
            Unsupported: the result, the memory or the time would be more than the limits or the engine's settings allow.
        """

    def spool(self, sql: str, relations: Mapping[str, pa.Table], limits: Limits) -> tuple[Spool, tuple[str, ...]]:
        """As `run`, for a result of up to `limits.spooled_bytes`: one beyond `limits.result_bytes` is on disk. Returns the
        columns' types too.
        """

    def explain(self, sql: str, relations: Mapping[str, pa.Table], limits: Limits) -> str:
        """The plan of the query as text; raises as `run`."""
