"""Moving rows out of segments that go, as they are: nothing here decodes them. Open rows go into the carry, settled ones
into the history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lakewarden.base.clock import NewId
from lakewarden.base.settings import LogSettings
from lakewarden.log.chunk import RowRange
from lakewarden.log.objects import names
from lakewarden.log.objects.cut import HistoryObject
from lakewarden.log.objects.cuts.history import Leaving
from lakewarden.log.objects.segments.header import Header
from lakewarden.log.objects.segments.pack import CarriedChunk, pack_carry
from lakewarden.log.objects.segments.segment import copied_chunks, tiny_carry
from lakewarden.storage.objects import ObjectStore


def make_carry(
    store: ObjectStore,
    log_id: str,
    version: int,
    moved: Sequence[Sequence[RowRange]],
    settings: LogSettings,
    new_id: NewId,
    segment_format: int,
) -> list[str]:
    """Copies the chunks (those of one object beside each other) into objects for the cut of that version; their keys.

    Raises:
        Missing: an object to copy from was cleaned away.
    """
    keys: list[str] = []
    for chunks in _portions(_copied(store, moved, {}), settings.segment_max_bytes):
        unique = new_id()
        keys.append(names.carry_key(log_id, version, unique))
        store.create(keys[-1], pack_carry(unique, chunks, segment_format))
    return keys


def make_history(
    store: ObjectStore,
    log_id: str,
    version: int,
    leaving: Leaving,
    settings: LogSettings,
    new_id: NewId,
    segment_format: int,
    tiny: Mapping[str, bytes],
) -> dict[HistoryObject, Header | None]:
    """The same of settled chunks; the objects, with the headers of tiny ones.

    `tiny` has objects of the history that are in memory whole, by key.
    """
    made: dict[HistoryObject, Header | None] = {}
    for chunks in _portions(_copied(store, leaving.chunks, tiny), settings.segment_max_bytes):
        unique = new_id()
        key = names.history_key(log_id, version, unique)
        data = pack_carry(unique, chunks, segment_format)
        store.create(key, data)
        kept = HistoryObject(key, max(each.first_seq + each.rows - 1 for each in chunks), leaving.left_at, leaving.small)
        made[kept] = tiny_carry(key, data)
    return made


def _copied(store: ObjectStore, moved: Sequence[Sequence[RowRange]], tiny: Mapping[str, bytes]) -> Iterator[CarriedChunk]:
    for ranges in moved:
        read = copied_chunks(store, ranges, tiny.get(ranges[0].key, b"") if ranges else b"")
        for each, data in zip(ranges, read, strict=True):
            yield CarriedChunk(each.user, each.rows, data, each.first_seq, each.schema_version, each.stored_at)


def _portions(chunks: Iterator[CarriedChunk], max_bytes: int) -> Iterator[list[CarriedChunk]]:
    portion: list[CarriedChunk] = []
    size = 0
    for chunk in chunks:
        if portion and size + len(chunk.data) > max_bytes:
            yield portion
            portion, size = [], 0
        portion.append(chunk)
        size += len(chunk.data)
    if portion:
        yield portion
