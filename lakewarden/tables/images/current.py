"""What was made from the live rows of some keys, for as long as no other write has one of these keys."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Generic, Self, TypeVar

from lakewarden.catalog.model import Table
from lakewarden.log.position import end_of, position_of
from lakewarden.log.record import decode
from lakewarden.storage.objects import Missing
from lakewarden.tables.images.taking import Images
from lakewarden.tables.reading.seen_keys import SeenKeys

T = TypeVar("T")

_MOST = 1000
"""Positions in between whose rows are compared; after more, it is made again."""


@dataclass(frozen=True)
class _Held(Generic[T]):
    position: int
    version: int
    """Of the schema."""
    value: T
    keys: SeenKeys


class Current(Generic[T]):
    """A context. Without it, a write of many rows would read again for every small one of others that comes while it reads."""

    def __init__(self, images: Images, make: Callable[[Table, SeenKeys], T]) -> None:
        """
        Args:
            make: looks up live rows of the table, as it is now, and adds the keys that it looks up.
        """
        self._images = images
        self._make = make
        self._held: _Held[T] | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open.close()

    def at(self, position: int) -> T:
        """Returns what holds at a position, the last one that the log had before the call.

        Raises:
            Conflict: flushes kept settling the rows while they were read.
        """
        table, held = self._images.newest(), self._held
        if held is None or held.version != table.schema.version or self._is_touched(held, table, position):
            self._open.close()
            keys = self._open.enter_context(SeenKeys(table.schema.primary_key))
            held = _Held(position, table.schema.version, self._make(table, keys), keys)
        self._held = replace(held, position=position)
        return held.value

    def _is_touched(self, held: _Held[T], table: Table, position: int) -> bool:
        """Whether one of the keys was written since; also where that cannot be known from the log alone.

        By the log's trail, which keeps what flushes settle: a view (`LogView.since`) ends at the first flush under a long write.
        """
        after, between = end_of(held.position), range(held.position + 1, position + 1)
        if len(between) > _MOST:
            return True
        log = self._images.warehouse.log(table)
        trail = log.trail(after, ("",))
        ranges = [each for each in trail.ranges("", after) if position_of(each.first_seq) <= position]
        if not trail.complete_after(after) or {position_of(each.first_seq) for each in ranges} != set(between):
            return True  # a write past the log takes a position without rows
        try:
            rows = decode([log.chunk(each) for each in ranges], ranges, table.schemas)
        except Missing:
            return True
        return held.keys.first_of([rows]) is not None
