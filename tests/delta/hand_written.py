"""Delta tables written by hand, action by action: what no writer would write, or none that a test can start."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.base.connection import Location

Json = dict[str, Any]

ID = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


class HandWritten:
    """A table below a directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path / "_delta_log"
        self.log.mkdir(parents=True)
        self.location = Location(str(path))

    def commit(self, version: int, *actions: Json) -> None:
        text = "".join(f"{json.dumps(action)}\n" for action in actions)
        (self.log / f"{version:020d}.json").write_text(text)

    def begin(self, *actions: Json, **more: Any) -> None:
        """Version 0 with its protocol and metadata; `more` as for `metadata`."""
        self.commit(0, protocol(*more.pop("features", ())), metadata(**more), *actions)

    def file(self, path: str, rows: pa.Table | Sequence[int], **more: Any) -> Json:
        """Writes a data file, and returns its `add`. Whole numbers are the column `id`."""
        table = rows if isinstance(rows, pa.Table) else pa.table({"id": pa.array(rows, pa.int64())})
        place = self.path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, place)
        return add(path, size=place.stat().st_size, **more)

    def vector(self, name: str, bitmap: bytes) -> int:
        """Writes the file of a deletion vector; returns the bytes of the bitmap, which begins at offset 1."""
        body = struct.pack(">BI", 1, len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap))
        (self.path / name).write_bytes(body)
        return len(bitmap)


def protocol(*features: str) -> Json:
    """With these reader features; without any, the oldest."""
    if not features:
        return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    return {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": [*features],
            "writerFeatures": [*features],
        }
    }


def metadata(
    fields: Sequence[Json] = ID, partition_by: Sequence[str] = (), configuration: Mapping[str, str] | None = None
) -> Json:
    return {
        "metaData": {
            "id": "t",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": [*fields]}),
            "partitionColumns": [*partition_by],
            "configuration": dict(configuration or {}),
        }
    }


def add(path: str, size: int = 1, partition: Mapping[str, str | None] | None = None, vector: Json | None = None) -> Json:
    more = {} if vector is None else {"deletionVector": vector}
    said = {"path": path, "partitionValues": dict(partition or {}), "size": size, "modificationTime": 1, "dataChange": True}
    return {"add": said | more}


def remove(path: str, vector: Json | None = None) -> Json:
    more = {} if vector is None else {"deletionVector": vector}
    return {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True} | more}


def bitmap(rows: Sequence[int]) -> bytes:
    """A 64-bit Roaring bitmap in Delta's form: containers as arrays, or as bits where they have more than 4,096 values."""
    buckets: dict[int, dict[int, list[int]]] = {}
    for row in sorted(rows):
        buckets.setdefault(row >> 32, {}).setdefault(row >> 16 & 0xFFFF, []).append(row & 0xFFFF)
    out = struct.pack("<IQ", 1681511377, len(buckets))
    for high, containers in buckets.items():
        bodies = [_container(values) for values in containers.values()]
        out += struct.pack("<III", high, 12346, len(containers))
        out += b"".join(struct.pack("<HH", key, len(values) - 1) for key, values in containers.items())
        start = 8 + 8 * len(containers)
        for body in bodies:
            out += struct.pack("<I", start)
            start += len(body)
        out += b"".join(bodies)
    return out


def runs(*pairs: tuple[int, int]) -> bytes:
    """The same with one container of runs, each by its first row and its length."""
    count = sum(length for _, length in pairs)
    head = struct.pack("<IQI", 1681511377, 1, 0) + struct.pack("<IB", 12347, 1) + struct.pack("<HH", 0, count - 1)
    return head + struct.pack("<H", len(pairs)) + b"".join(struct.pack("<HH", first, length - 1) for first, length in pairs)


def _container(values: Sequence[int]) -> bytes:
    if len(values) <= 4096:
        return struct.pack(f"<{len(values)}H", *values)
    bits = bytearray(8192)
    for value in values:
        bits[value // 8] |= 1 << value % 8
    return bytes(bits)


def inline(data: bytes, count: int) -> Json:
    """The descriptor of a vector in the log itself."""
    return {"storageType": "i", "pathOrInlineDv": z85(data), "sizeInBytes": len(data), "cardinality": count}


def z85(data: bytes) -> str:
    padded = data + bytes(-len(data) % 4)
    out = ""
    for (number,) in struct.iter_unpack(">I", padded):
        digits = ""
        for power in range(5):
            digits = _DIGITS[number // 85**power % 85] + digits
        out += digits
    return out
