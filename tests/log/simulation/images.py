"""Writers that keep before images: the real `Current` decides when they are taken again, over rows in their cheapest form."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from types import SimpleNamespace, TracebackType
from typing import Any, Self, cast
from unittest.mock import patch

from lakewarden.errors import Conflict, LakewardenError
from lakewarden.log.chunk import RowRange
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.group import parcels_of
from lakewarden.log.objects.segment import read_chunk
from lakewarden.log.objects.trail import Trail, read_trail
from lakewarden.log.objects.view import read_view
from lakewarden.log.once import StagedPiece, WriterBatch
from lakewarden.log.position import Receipt
from lakewarden.storage.objects import ObjectStore
from lakewarden.tables import images as current_module
from lakewarden.tables.images import Current
from tests.log.simulation.actors import LOG, Warehouse, Writer
from tests.log.simulation.batches import Query
from tests.log.simulation.journal import Written
from tests.log.simulation.light import chunk_of, rows_of_chunk
from tests.log.simulation.stores import Row

SHARED = ""
"""Whose the rows of a SHARED table are, for its log."""

_ATTEMPTS = 4
_TABLE = SimpleNamespace(schema=SimpleNamespace(version=1, primary_key=("key",)), schemas=())


class ImagedWriter(Writer):
    """As `ImagedLog.append`: looks, takes the images, and appends behind the look; or takes them again."""

    def write(self, times: int) -> None:
        for _ in range(times):
            self._write([self._row() for _ in range(self.world.rng.choice((1, 1, 2, 5)))])

    def _write(self, rows: list[Row]) -> None:
        call = self.journal.begin(SHARED, rows, self.world.now)
        self.store.begin([call])
        self.world.say(f"writes {[row.id for row in rows]} with the rows before them")
        try:
            with _current(self.house, self.cache, lambda table, keys: imaged(self.house, self.cache, rows, keys)) as current:
                receipt = self._behind(current)
        except LakewardenError as error:
            self._failed(error, [call], after=0)
            return
        self._acknowledged([call], receipt, alone=True)

    def _behind(self, current: Current[list[Row]]) -> Receipt:
        for _ in range(_ATTEMPTS):
            position = read_view(cast("ObjectStore", self.store), LOG, self.cache, (SHARED,)).last_position
            made = current.at(position)
            chunks = [chunk_of(SHARED, made[start : start + 2]) for start in range(0, len(made), 2)]
            touched = {SHARED: frozenset((row.key,) for row in made)}
            try:
                return self.log.append_parcels(parcels_of(1, chunks, self.house.settings), position, touched)
            except Conflict:
                self.world.say("another write came first")
        raise Conflict("others kept coming between")


class ImagedQuery(Query):
    """As `ImagedLog.publish`: what was staged is staged again with its images."""

    def _put(self, calls: list[Written], once: WriterBatch) -> Receipt | None:
        house, staging, cache, objects = self.house, self.log.begin_batch(), HeaderCache(), count(100, 100)
        self._stage(staging, calls)

        def taken(_: object, keys: Keys) -> Sequence[StagedPiece]:
            rows = imaged(house, cache, [row for call in calls for row in call.rows], keys)
            return self._stage_rows(staging, {SHARED: rows}, next(objects))

        with _current(house, cache, taken) as current:
            return self.log.publish(staging, current.at, once)


class Keys:
    """In place of `SeenKeys`."""

    def __init__(self, _: object) -> None:
        self._keys: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None

    def add(self, rows: Sequence[Row]) -> None:
        self._keys |= {row.key for row in rows}

    def first_of(self, others: Sequence[Sequence[Row]]) -> str | None:
        return next((row.key for rows in others for row in rows if row.key in self._keys), None)


def imaged(house: Warehouse, cache: HeaderCache, rows: Sequence[Row], keys: Keys) -> list[Row]:
    """The rows with those before them, by a strong read."""
    keys.add(rows)
    _, last = house.strong_read(SHARED, cache)
    made: list[Row] = []
    for row in rows:
        before = last.get(row.key)
        made.append(replace(row, before=0 if before is None or before.value is None else before.id))
        last = {**last, row.key: row}
    return made


@contextmanager
def light_images() -> Iterator[None]:
    """`Current` works on rows of the simulation."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(current_module, "SeenKeys", Keys))
        stack.enter_context(patch.object(current_module, "decode", _decoded))
        yield


def _decoded(chunks: Sequence[memoryview], ranges: Sequence[RowRange], _: object) -> list[Row]:
    return [row for chunk, each in zip(chunks, ranges, strict=True) for row in rows_of_chunk(bytes(chunk), each)]


def _current(house: Warehouse, cache: HeaderCache, taken: Any) -> Current[Any]:
    log = _Log(cast("ObjectStore", house.store), cache)
    images = SimpleNamespace(newest=lambda: _TABLE, warehouse=SimpleNamespace(log=lambda _: log))
    return Current(cast("Any", images), taken)


@dataclass(frozen=True)
class _Log:
    """What `Current` asks of a log."""

    store: ObjectStore
    cache: HeaderCache

    def trail(self, after: int, users: Collection[str]) -> Trail:
        return read_trail(self.store, LOG, after, self.cache, users)

    def chunk(self, where: RowRange) -> memoryview:
        return read_chunk(self.store, where)
