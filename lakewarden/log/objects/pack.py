"""How segments and carry objects lie in bytes, and how they are written (`objects.segment` reads them).

    magic (8) · length of the header (4) · kind (1) · rows (3) · unique id of the put (16) · link (16) · header · chunks

The link says whose put made the segment at the position before, and how many rows that one has; zeros where its writer did
not know. Segments of format 1, and carry objects, have no link, and zeros for kind and rows.

The header is JSON, padded with spaces to eight bytes: per chunk its user, rows and bytes. A chunk is the id of its
object once more (a writer that came too late may have put another object under the same name: whoever reads a range
must notice), the rows of one user, and its sum (`sums`). A user may have several chunks. The header has a sum, too.

A segment's rows have the `_seq` that follows from its position and their ordinal. A carry object holds chunks of
several segments as they were, each with the `_seq` of its first row.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakewarden.log.chunk import Chunk, Payload
from lakewarden.log.crowd import Block, Crowd, names_in
from lakewarden.log.objects.header import ID_BYTES, NO_KEYS, UNKNOWN, counted
from lakewarden.log.objects.index import MANY, Numbers, pack_index
from lakewarden.log.once import StagedPiece, WriterBatch
from lakewarden.storage.sums import ROOM, with_sum

# Checksums of chunks: garbled bytes are found, and never read as other rows.
#
# A chunk has its own behind its rows, because chunks are read one by one. Releases before read past it, and their chunks have
# none. The header has one of its own (`storage.sums`). They are no signatures.

_MARK = b"\xffLWc"
"""In front of a chunk's sum. The bytes before are those of `_op`, or of `_before`, which is text: neither has 0xff."""

SUM_BYTES = 8
_KEPT = SUM_BYTES - len(_MARK)


def behind(chunk: Payload) -> bytes:
    """What stands behind a chunk's rows. Every append of one row makes one: zlib's takes a tenth of what numpy's calls do."""
    return _MARK + zlib.crc32(chunk).to_bytes(_KEPT, "little")


def sealed(chunk: memoryview) -> Payload:
    """The chunk with its sum: as it is, where it has one, even a wrong one; of an earlier release, with a new one."""
    # A new sum over garbled rows would make them look whole (docs/decisions/0113-checksums-where-there-was-none.md).
    return chunk if chunk[-SUM_BYTES:-_KEPT] == _MARK else bytes(chunk) + behind(chunk)


def seal(block: NDArray[np.uint8], start: int) -> None:
    """Writes the sums of chunks of one length, a chunk in each line from `start` on, into the last bytes of the lines."""
    count, width = block.shape
    lines, crc = block.reshape(-1).data, zlib.crc32
    chunks = (lines[at + start : at + width - SUM_BYTES] for at in range(0, count * width, width))
    sums = np.fromiter(map(crc, chunks), "<u4", count)
    block[:, -SUM_BYTES:-_KEPT] = np.frombuffer(_MARK, np.uint8)
    block[:, -_KEPT:] = sums[:, None].view(np.uint8)


def stripped(chunk: memoryview) -> memoryview | None:
    """The chunk without its sum; None where it does not have the sum that stands behind it."""
    rows, trailer = chunk[:-SUM_BYTES], bytes(chunk[-SUM_BYTES:])
    if trailer[: len(_MARK)] != _MARK:
        return chunk  # of an earlier release
    return rows if behind(rows) == trailer else None


LINKED = 2
"""The format whose segments name their predecessors; 1 is that of warehouses made before it."""

FIRST = 1
"""The schema version of a batch without rows."""

INDEXED = 3
"""The format whose segments and carry objects with many chunks have an index. Those with few are as in the one before."""

OF_ROWS = 0
WITH_INDEX = 1
NAMING = 2
NAMING_USERS = 3
"""Kinds. The last two have no chunks: they name those of a staged batch (`objects.staging`), of one user, or of several and
maybe with an identity."""

FIXED = struct.Struct("<8sIB3s16s")
AROUND = ID_BYTES + SUM_BYTES
"""Bytes of a chunk in an object beside its rows."""
_BLANKS = b" " * 7

MAGICS = {1: b"LWLOG\x001\n", LINKED: b"LWLOG\x002\n"}


Bytes = Payload | Block


class CarriedChunk(NamedTuple):
    """A chunk that moves from a segment into a carry object, with what it was given when it was appended."""

    user: str
    rows: int
    data: Payload
    """Its rows, with their sum: what is garbled stays so, wherever it moves."""
    first_seq: int
    schema_version: int
    stored_at: int


def pack_segment(
    put_id: str,
    schema_version: int,
    stored_at: int,
    chunks: Sequence[Chunk],
    *,
    keys: Mapping[str, int] = NO_KEYS,
    after: str = UNKNOWN,
    segment_format: int = INDEXED,
) -> bytes:
    """A segment's bytes; `stored_at` in microseconds since the epoch, by the writer's clock.

    Args:
        keys: of the writes that are in it, with their rows; with them, it has no index.
        after: the link to the segment at the position before.
        segment_format: 1 leaves `after` out; 3 gives many chunks an index.
    """
    linked = segment_format >= LINKED
    start = _Start(min(segment_format, LINKED), bytes.fromhex(put_id), bytes.fromhex(after) if linked else b"")
    # Older formats have no index, and a process of an older release must be able to read what is written here.
    if segment_format >= INDEXED and len(chunks) >= MANY and not keys:
        constant = (np.full(len(chunks), each, np.int64) for each in (schema_version, stored_at))
        if isinstance(chunks, Crowd):
            blocks = _summed(chunks.blocks(start.unique, SUM_BYTES))
            first_seqs = np.cumsum(chunks.counts) - chunks.counts
            return start.indexed(chunks.users, chunks.counts, chunks.sizes + SUM_BYTES, blocks, first_seqs, *constant)
        rows = np.fromiter((chunk.rows for chunk in chunks), np.int64, len(chunks))
        data = [chunk.data for chunk in chunks]
        parts = start.behind_ids(map(_with_sum, data))
        return start.indexed(names_in(chunks), rows, _sizes(data) + SUM_BYTES, parts, np.cumsum(rows) - rows, *constant)
    chunks = [*chunks]  # a crowd is encoded only once
    users, counts, payloads = zip(*chunks, strict=True) if chunks else ((), (), ())
    columns = _columns(users, counts, payloads, AROUND)
    header = {"version": schema_version, "stored_at": stored_at, **columns, **({"keys": keys} if keys else {})}
    # In format 1 these bytes are zeros, which says "not known".
    rows_in_all = counted(sum(counts)) if linked else counted(None)
    return start.joined(header, map(_with_sum, payloads), rows_in_all)


def pack_naming(
    put_id: str,
    stored_at: int,
    pieces: Sequence[StagedPiece],
    once: WriterBatch | None = None,
    *,
    keys: Mapping[str, int] = NO_KEYS,
    after: str = UNKNOWN,
    segment_format: int = INDEXED,
) -> bytes:
    """The bytes of a segment that names a staged batch; the other arguments as in `pack_segment`, of format 3."""
    start = _Start(min(segment_format, LINKED), bytes.fromhex(put_id), bytes.fromhex(after))
    users = [each.user for each in pieces]
    # One user's batch names the user once, not for each piece.
    alone = once is None and len(set(users)) == 1
    columns = {name: [getattr(each, name) for each in pieces] for name in ("object", "rows", "offset", "length")}
    header = {
        "version": pieces[0].schema_version if pieces else FIRST,  # `StagedBatch.of` refuses several
        "stored_at": stored_at,
        "users": users[:1] if alone else users,
        "objects": columns["object"],
        "rows": columns["rows"],
        "offsets": columns["offset"],
        "lengths": columns["length"],
    }
    identity = {} if once is None else {"once": [once.key, once.batch]}
    return start.named(
        NAMING if alone else NAMING_USERS,
        {**header, **identity, **({"keys": keys} if keys else {})},
        counted(sum(columns["rows"])),
    )


def pack_carry(put_id: str, chunks: Sequence[CarriedChunk], segment_format: int = INDEXED) -> bytes:
    """A carry object's bytes."""
    users, rows, data, *others = zip(*chunks, strict=True)
    # Carry has no neighbour: it is found by its key in the cut, so it needs no link.
    start = _Start(1, bytes.fromhex(put_id), b"")
    if segment_format >= INDEXED and len(chunks) >= MANY:
        numbers = (np.array(each, np.int64) for each in others)
        return start.indexed(users, np.array(rows), _sizes(data), start.behind_ids((each,) for each in data), *numbers)
    header = {
        **_columns(users, rows, data, ID_BYTES),
        **dict(zip(("first_seqs", "versions", "stored_ats"), others, strict=True)),
    }
    # The chunks come with their sums from where they were copied.
    return start.joined(header, ((each,) for each in data), counted(None))


def _with_sum(rows: Payload) -> tuple[Payload, Payload]:
    return rows, behind(rows)


def _columns(users: Sequence[str], rows: Sequence[int], data: Sequence[Payload], around: int) -> dict[str, object]:
    """`around`: the bytes of a chunk that are not its data."""
    return {"users": users, "rows": rows, "lengths": [len(each) + around for each in data]}


class _Start(NamedTuple):
    """What an object begins with."""

    format: int
    unique: bytes
    """The id of its put."""
    link: bytes

    def joined(self, header: dict[str, object], chunks: Iterable[tuple[Payload, ...]], rows: bytes) -> bytes:
        return b"".join((*self._headed(OF_ROWS, header, rows), *self.behind_ids(chunks)))

    def named(self, kind: int, header: dict[str, object], rows: bytes) -> bytes:
        return b"".join(self._headed(kind, header, rows))

    def _headed(self, kind: int, header: dict[str, object], rows: bytes) -> tuple[bytes, bytes]:
        """What stands in front of the header, and the header with the sum of both."""
        text = msgspec.json.encode(header)
        length = len(text) + ROOM
        filling = -length % 8
        front = self._fixed(kind, length + filling, rows) + self.link
        return front, with_sum(text, front) + _BLANKS[:filling]

    def indexed(
        self, users: Sequence[str] | pa.Array[Any], rows: Numbers, sizes: Numbers, parts: Iterable[Bytes], *others: Numbers
    ) -> bytes:
        """`parts` are the chunks, behind their ids; `sizes` those without."""
        head, blocks = pack_index(self.unique, users, rows, sizes + ID_BYTES, *others)
        whole = BytesIO()  # takes part after part, where a join would keep all of them, and what they become
        whole.writelines((self._fixed(WITH_INDEX, len(head), counted(int(rows.sum()))), self.link, head, blocks))
        whole.writelines(parts)  # type: ignore[arg-type]  # numpy's arrays are bytes too
        return whole.getvalue()

    def behind_ids(self, chunks: Iterable[tuple[Payload, ...]]) -> Iterator[Payload]:
        """Each, in its parts, behind the object's id."""
        return chain.from_iterable((self.unique, *parts) for parts in chunks)

    def _fixed(self, kind: int, header_bytes: int, rows: bytes) -> bytes:
        return FIXED.pack(MAGICS[self.format], header_bytes, kind, rows, self.unique)


def _summed(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        seal(block, ID_BYTES)
        yield block


def _sizes(data: Sequence[Payload]) -> Numbers:
    return np.fromiter(map(len, data), np.int64, len(data))
