"""Reads the checkpoint of a version: its files as Arrow columns, and the little else that it has as values.

Sources: Delta's protocol, "Checkpoints", "Checkpoint Schema", "Sidecar File Information". Whoever may write a log may write a
checkpoint of few bytes that means very many, so it is measured before it is unpacked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.delta.failures import file_errors
from lakewarden.delta.replay.actions import DomainMetadata, Metadata, Protocol, Sidecar, Torn, Transaction, read_actions
from lakewarden.delta.replay.live_files import NO_FILES, of_adds, of_checkpoint, said_columns
from lakewarden.delta.replay.log_objects import MOST_CHECKPOINT, LogObjects
from lakewarden.delta.replay.paths import check_inside, key_of, root_of
from lakewarden.delta.replay.segment import LOG, CheckpointFiles
from lakewarden.errors import Corrupt, Unsupported
from lakewarden.storage.objects import Missing

T = TypeVar("T")

MOST_FILES = 5_000_000
"""Rows of a checkpoint, of which each takes some 200 bytes."""

_MOST_UNPACKED = 2 << 30
"""Bytes of a checkpoint in memory."""

_MOST_OTHERS = 1_000_000
"""Rows that are no files: transactions, mostly."""

_MOST_BATCH = 512 << 20
_ROWS = 65_536
"""Rows that are unpacked at once, if no value of theirs can be so long that they have more than `_MOST_BATCH` bytes."""

_OTHERS = ("protocol", "metaData", "txn", "domainMetadata", "sidecar")
_SIDECARS = f"{LOG}/_sidecars"


@dataclass
class Checkpoint:
    """What a checkpoint has. Tombstones are left out."""

    version: int
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: dict[str, int] = field(default_factory=dict)
    domains: dict[str, str | None] = field(default_factory=dict)
    parts: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    sidecars: list[Sidecar] = field(default_factory=list)
    size: int = 0
    """Bytes in memory."""

    def keep(self, files: pa.Table) -> None:
        """Raises:
        Unsupported: there are more than a process can be asked to remember.
        """
        self.size += files.nbytes
        self.rows += files.num_rows
        if self.rows > MOST_FILES or self.size > _MOST_UNPACKED:
            raise Unsupported(f"the checkpoint of version {self.version} has more files than are read: {MOST_FILES:,} at most")
        self.parts.append(files)

    @property
    def files(self) -> pa.Table:
        return pa.concat_tables(self.parts) if self.parts else NO_FILES


def read_checkpoint(log: LogObjects, files: CheckpointFiles) -> Checkpoint:
    """Reads all parts and sidecars.

    Raises:
        Corrupt: a part or a sidecar is missing or garbled, or there is no protocol or metadata.
        Unsupported: it is larger than is read.
        OutsideTable: a sidecar is not in the table's own directory.
    """
    checkpoint = Checkpoint(files.version)
    try:
        for name in files.names:
            data = log.read(name, MOST_CHECKPOINT)
            read = _read_json if name.endswith(".json") else _read_parquet
            read(checkpoint, name, data, log)
        for sidecar in checkpoint.sidecars:
            name = _sidecar_name(sidecar, log)
            _read_parquet(checkpoint, name, log.read(name, MOST_CHECKPOINT), log)
    except Missing as error:
        raise Corrupt(f"{error} is named by the checkpoint of version {files.version} and missing") from None
    if checkpoint.protocol is None or checkpoint.metadata is None:
        raise Corrupt(f"the checkpoint of version {files.version} lacks the protocol or the metadata")
    return checkpoint


def _sidecar_name(sidecar: Sidecar, log: LogObjects) -> str:
    """A path without a directory is a name below `_sidecars`; an absolute one may lead there, too."""
    key = key_of(sidecar.path, root_of(log.location))
    name = key if key.startswith(f"{_SIDECARS}/") else f"{_SIDECARS}/{key}"
    return check_inside(key if key.startswith("/") or "://" in key else name, sidecar.path, log.location)


def _read_json(checkpoint: Checkpoint, name: str, data: bytes, log: LogObjects) -> None:
    adds = []
    for action in read_actions(name, data):
        if action.add is not None:
            adds.append(action.add)
        for found in (action.protocol, action.meta_data, action.txn, action.domain_metadata, action.sidecar):
            if found is not None:
                _take(checkpoint, found)
    checkpoint.keep(of_adds(adds, root_of(log.location)))


def _take(checkpoint: Checkpoint, found: Protocol | Metadata | Transaction | DomainMetadata | Sidecar) -> None:
    match found:
        case Protocol():
            checkpoint.protocol = found
        case Metadata():
            checkpoint.metadata = found
        case Transaction():
            checkpoint.transactions[found.app_id] = found.version
        case DomainMetadata(removed=False):
            checkpoint.domains[found.domain] = found.configuration
        case Sidecar():
            checkpoint.sidecars.append(found)


def _read_parquet(checkpoint: Checkpoint, name: str, data: bytes, log: LogObjects) -> None:
    with file_errors(name):
        file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
        wanted = _wanted(file.schema_arrow)
        batch_size = _batch_size(file.metadata, data, wanted, name)
        for batch in file.iter_batches(batch_size, columns=wanted, use_threads=False):
            _read_batch(checkpoint, batch, root_of(log.location))


def _wanted(schema: pa.Schema) -> list[str]:
    adds = schema.field("add").type if "add" in schema.names else pa.struct([])
    files = [f"add.{name}" for name in said_columns({each.name for each in adds})] if pa.types.is_struct(adds) else []
    return [*files, *(name for name in _OTHERS if name in schema.names)]


def _batch_size(metadata: pq.FileMetaData, data: bytes, wanted: list[str], name: str) -> int:
    """How many rows may be unpacked at once: a value may stand once in a dictionary and mean as many bytes in each row.

    Raises:
        Unsupported: too many rows or bytes, as the footer says.
    """
    if metadata.num_rows > MOST_FILES:
        raise Unsupported(f"{name} has {metadata.num_rows:,} rows; at most {MOST_FILES:,} are read")
    unpacked = longest = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema.startswith(tuple(wanted)):
                unpacked += column.total_uncompressed_size
                longest = max(longest, _dictionary_size(column, data))
    if unpacked > _MOST_UNPACKED:
        raise Unsupported(f"{name} has {unpacked:,} bytes in memory; at most {_MOST_UNPACKED:,} are read")
    size = min(_ROWS, _MOST_BATCH // max(longest, 1))
    if size < 8:
        raise Unsupported(f"{name} has a dictionary of {longest:,} bytes; at most {_MOST_BATCH // 8:,} are read")
    return size


def _dictionary_size(column: pq.ColumnChunkMetaData, data: bytes) -> int:
    """Bytes of its dictionary's values, by the page's header: Thrift's compact form begins it with type, size and packed size."""
    if not column.has_dictionary_page or column.dictionary_page_offset is None or column.physical_type != "BYTE_ARRAY":
        return 0
    place = column.dictionary_page_offset
    numbers = _fields(data[place : place + 32])
    _, size = next(numbers, 0), next(numbers, 0)
    return max(size, 0)


def _fields(header: bytes) -> Iterator[int]:
    """Whole numbers at the beginning of a struct, whose fields follow each other."""
    place = 0
    while place < len(header) and header[place] == 0x15:
        place, number, shift = place + 1, 0, 0
        while place < len(header):
            byte = header[place]
            number |= (byte & 0x7F) << shift
            place, shift = place + 1, shift + 7
            if byte < 0x80:
                break
        yield (number >> 1) ^ -(number & 1)


def _read_batch(checkpoint: Checkpoint, batch: pa.RecordBatch, root: str) -> None:
    for name in batch.schema.names:
        column: Any = batch.column(name)
        if column.null_count == len(column):
            continue
        if name == "add":
            checkpoint.keep(of_checkpoint(column, root))
            continue
        rows = column.drop_null()
        if len(rows) > _MOST_OTHERS:
            raise Unsupported(f"the checkpoint of version {checkpoint.version} has more than {_MOST_OTHERS:,} actions of {name}")
        for row in rows.to_pylist(maps_as_pydicts="lossy"):
            if (found := _converted(row, _TYPES[name])) is not None:
                _take(checkpoint, found)


_TYPES: dict[str, type[Protocol | Metadata | Transaction | DomainMetadata | Sidecar]] = {
    "protocol": Protocol,
    "metaData": Metadata,
    "txn": Transaction,
    "domainMetadata": DomainMetadata,
    "sidecar": Sidecar,
}


def _converted(row: dict[str, object], kind: type[T]) -> T | None:
    """None for a row whose columns are all NULL, as some writers leave of what is not there."""
    said = {name: value for name, value in row.items() if value is not None}
    if not said:
        return None
    try:
        return msgspec.convert(said, kind)
    except msgspec.ValidationError as error:
        raise Corrupt(f"a checkpoint has an action that is not as Delta's protocol has it: {error}") from error
