"""Reads the checkpoint of a version: its files as Arrow columns, and the little else that it has as values.

Sources: Delta's protocol, "Checkpoints", "Checkpoint Schema", "Sidecar File Information". Whoever may write a log may write a
checkpoint of few bytes that means very many, so it is measured before it is unpacked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.base.connection import Location
from lakewarden.delta.failures import file_errors
from lakewarden.delta.replay.actions import (
    AddFile,
    DomainMetadata,
    LogAction,
    Metadata,
    Protocol,
    Sidecar,
    Transaction,
    read_actions,
)
from lakewarden.delta.replay.live_files import MOST_UNPACKED, NO_FILES, of_adds, of_checkpoint, said_columns
from lakewarden.delta.replay.log_objects import MOST_CHECKPOINT, SIDECARS, CheckpointFiles, LogObjects
from lakewarden.delta.replay.parquet_footer import longest_dictionary
from lakewarden.delta.replay.paths import check_inside, key_of, root_of
from lakewarden.errors import Corrupt, Unsupported
from lakewarden.storage.objects import Missing

MOST_FILES = 5_000_000
"""Rows of a checkpoint, of which each takes some 200 bytes."""

_MOST_OTHERS = 1_000_000
"""Rows that are no files: transactions, mostly."""

_MANY = ("txn", "domainMetadata", "sidecar")
_FEW = 100
"""Rows of what stands once in a checkpoint."""

_MOST_BATCH = 512 << 20
_ROWS = 65_536
"""Rows that are unpacked at once, if no value of theirs can be so long that they have more than `_MOST_BATCH` bytes."""

_SMALL = 256 << 10
"""Bytes of a file whose texts stay in their dictionaries until their lengths are known. That takes longer for many rows, and
reading the footer of a larger one in Python takes as long as reading a small file."""

_OTHERS: dict[str, type[msgspec.Struct]] = {
    "protocol": Protocol,
    "metaData": Metadata,
    "txn": Transaction,
    "domainMetadata": DomainMetadata,
    "sidecar": Sidecar,
}


@dataclass
class Checkpoint:
    """What a checkpoint has."""

    version: int
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: dict[str, int] = field(default_factory=dict)
    domains: dict[str, str | None] = field(default_factory=dict)
    parts: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    tombstones: pa.Table | None = None
    """Files that were removed and not yet forgotten; None unless the caller wants them."""
    sidecars: list[Sidecar] = field(default_factory=list)
    size: int = 0
    """Bytes in memory."""

    def take(self, action: LogAction) -> None:
        """Takes what an action says of anything but files: of each kind the last one counts."""
        self.protocol, self.metadata = action.protocol or self.protocol, action.meta_data or self.metadata
        if action.txn is not None:
            self.transactions[action.txn.app_id] = action.txn.version
        if (domain := action.domain_metadata) is not None:
            self.domains[domain.domain] = domain.configuration
            if domain.removed:
                del self.domains[domain.domain]
        if action.sidecar is not None:
            self.sidecars.append(action.sidecar)

    def keep(self, files: pa.Table) -> None:
        """Raises Unsupported: there are more than a process should hold in memory."""
        self.size += files.nbytes
        self.rows += files.num_rows
        if self.rows > MOST_FILES or self.size > MOST_UNPACKED:
            raise Unsupported(f"the checkpoint of version {self.version} has more files than are read: {MOST_FILES:,} at most")
        self.parts.append(files)

    def forget(self, files: pa.Table) -> None:
        if self.tombstones is not None:
            self.tombstones = pa.concat_tables([self.tombstones, files])

    @property
    def files(self) -> pa.Table:
        return pa.concat_tables(self.parts) if self.parts else NO_FILES


def read_checkpoint(log: LogObjects, files: CheckpointFiles, *, tombstones: bool = False) -> Checkpoint:
    """Reads all parts and sidecars.

    Args:
        tombstones: whether they are read, too.

    Raises:
        Corrupt: a part or a sidecar is missing or garbled, or there is no protocol or metadata.
        Unsupported: it is larger than is read.
        OutsideTable: a sidecar is not in the table's own directory.
    """
    checkpoint = Checkpoint(files.version, tombstones=NO_FILES if tombstones else None)
    try:
        for name in files.names:
            data = log.read(name, MOST_CHECKPOINT)
            read = _read_json if name.endswith(".json") else _read_parquet
            read(checkpoint, name, data, log)
        for sidecar in checkpoint.sidecars:
            name = sidecar_name(sidecar, log.location)
            _read_parquet(checkpoint, name, log.read(name, MOST_CHECKPOINT), log)
    except Missing as error:
        raise Corrupt(f"{error} is named by the checkpoint of version {files.version} and missing") from None
    if checkpoint.protocol is None or checkpoint.metadata is None:
        raise Corrupt(f"the checkpoint of version {files.version} lacks the protocol or the metadata")
    return checkpoint


def sidecar_name(sidecar: Sidecar, location: Location) -> str:
    """Its key. A path without a directory is a name below `_sidecars`; an absolute one may lead there, too."""
    key = key_of(sidecar.path, root_of(location))
    name = key if key.startswith(f"{SIDECARS}/") else f"{SIDECARS}/{key}"
    return check_inside(key if key.startswith("/") or "://" in key else name, sidecar.path, location.uri)


def _read_json(checkpoint: Checkpoint, name: str, data: bytes, log: LogObjects) -> None:
    adds, removes = [], []
    for action in read_actions(name, data):
        if action.add is not None:
            adds.append(action.add)
        if action.remove is not None:
            removes.append(AddFile(action.remove.path, deletion_vector=action.remove.deletion_vector))
        checkpoint.take(action)
    checkpoint.keep(of_adds(adds, root_of(log.location)))
    checkpoint.forget(of_adds(removes, root_of(log.location)))


def _read_parquet(checkpoint: Checkpoint, name: str, data: bytes, log: LogObjects) -> None:
    removes = checkpoint.tombstones is not None
    with file_errors(name):
        if len(data) <= _SMALL:
            batches = _small(data, name, removes=removes)
        else:
            file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
            columns, size = _wanted(file.schema_arrow, removes=removes), _batch_size(data, file.metadata.num_rows, name)
            batches = file.iter_batches(size, columns=columns, use_threads=False)
        for batch in batches:
            _read_batch(checkpoint, batch, root_of(log.location))


@dataclass(frozen=True)
class _Layout:
    """What is read of a file with this schema: working that out takes as long as reading a few rows."""

    schema: pq.ParquetSchema
    texts: list[str]
    """The columns of texts: those that stay in their dictionaries have to be named before the schema is known."""
    wanted: tuple[list[str], list[str]]
    """The columns that are read: without the files that were removed, and with them."""

    @classmethod
    def of(cls, file: pq.ParquetFile) -> _Layout:
        columns, schema = map(file.schema.column, range(len(file.schema))), file.schema_arrow
        texts = [each.path for each in columns if each.physical_type == "BYTE_ARRAY"]
        return cls(file.schema, texts, (_wanted(schema, removes=False), _wanted(schema, removes=True)))


_LAST: list[_Layout] = []
"""That of the last small file that was read: most files have the same."""


def _small(data: bytes, name: str, *, removes: bool) -> Iterator[pa.RecordBatch]:
    """Reads a file whose texts stay in their dictionaries, by row groups: Arrow joins no nested columns of which each part has a
    dictionary of its own."""
    layout = _LAST[0] if _LAST else None
    try:
        known = [] if layout is None else layout.texts
        file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False, read_dictionary=known)
    except KeyError:
        layout, file = None, pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
    if layout is None or not file.schema.equals(layout.schema):
        layout = _Layout.of(file)
        _LAST[:] = [layout]
        file = pq.ParquetFile(pa.BufferReader(data), metadata=file.metadata, pre_buffer=False, read_dictionary=layout.texts)
    _check_rows(file.metadata.num_rows, name)
    for number in range(file.num_row_groups):
        yield from file.read_row_group(number, layout.wanted[removes], use_threads=False).to_batches()


def _wanted(schema: pa.Schema, *, removes: bool) -> list[str]:
    wanted = []
    for action in (*_OTHERS, "add", *(["remove"] if removes else ())):
        kind = schema.field(action).type if action in schema.names else None
        if kind is not None and pa.types.is_struct(kind):
            there = {each.name for each in kind}
            fields = _OTHERS[action].__struct_encode_fields__ if action in _OTHERS else said_columns(there)
            wanted += [f"{action}.{name}" for name in fields if name in there]
    return wanted


def _check_rows(rows: int, name: str) -> None:
    if rows > MOST_FILES:
        raise Unsupported(f"{name} has {rows:,} rows; at most {MOST_FILES:,} are read")


def _batch_size(data: bytes, rows: int, name: str) -> int:
    """How many rows may be unpacked at once: a value may stand once in a dictionary and mean as many bytes in each row.

    Raises:
        Unsupported: there are too many rows, or too long values.
    """
    _check_rows(rows, name)
    longest = longest_dictionary(data)
    size = min(_ROWS, _MOST_BATCH // max(longest, 1))
    if size < 8:
        raise Unsupported(f"{name} has a dictionary of {longest:,} bytes; at most {_MOST_BATCH // 8:,} are read")
    return size


def _read_batch(checkpoint: Checkpoint, batch: pa.RecordBatch, root: str) -> None:
    for name in batch.schema.names:
        column: Any = batch.column(name)
        if column.null_count == len(column):
            continue
        if name == "add":
            checkpoint.keep(of_checkpoint(column, root))
        elif name == "remove":
            checkpoint.forget(of_checkpoint(column, root))
        else:
            _read_others(checkpoint, name, column)


def _read_others(checkpoint: Checkpoint, name: str, column: Any) -> None:
    count = len(column) - column.null_count
    if count > (_MOST_OTHERS if name in _MANY else _FEW):
        raise Unsupported(f"the checkpoint of version {checkpoint.version} has {count:,} {name} actions: too many")
    rows = column if len(column) <= _FEW else column.drop_null()  # which takes as long as reading a few rows
    for row in rows.to_pylist(maps_as_pydicts="lossy"):
        # some writers leave a row whose columns are all NULL of what is not there
        if said := {field: value for field, value in (row or {}).items() if value is not None}:
            try:
                checkpoint.take(msgspec.convert({name: said}, LogAction))
            except msgspec.ValidationError as error:
                raise Corrupt(f"a checkpoint has an action that is not as Delta's protocol has it: {error}") from error
