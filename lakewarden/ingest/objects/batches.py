"""How many objects are taken in one commit, and which batches tasks read."""

from __future__ import annotations

from collections.abc import Sequence

from lakewarden.base.settings import PipelinesSettings
from lakewarden.storage.sources import SourceObject


def in_tasks(bounds: PipelinesSettings, objects: Sequence[SourceObject]) -> bool:
    """Whether tasks read them: they are many, or many bytes; of a few large ones each would be a task of its own anyway."""
    return len(objects) >= bounds.spark_objects or (len(objects) > bounds.workers and _bytes(objects) >= bounds.spark_bytes)


def fills(bounds: PipelinesSettings, objects: Sequence[SourceObject], *, tasks: bool) -> bool:
    """Whether they are enough for a batch of the full size."""
    most = _most(bounds) if tasks else bounds.batch_objects
    return len(objects) >= most or _bytes(objects) >= bounds.batch_bytes


def cut(
    bounds: PipelinesSettings, objects: Sequence[SourceObject], *, tasks: bool
) -> tuple[list[SourceObject], list[SourceObject]]:
    """The first ones, as many as one batch may have, and the others; of an object that is there twice, the last.

    Args:
        tasks: whether there can be tasks.
    """
    most = _most(bounds) if tasks and in_tasks(bounds, objects) else bounds.batch_objects
    some: dict[str, SourceObject] = {}
    size = 0
    for one in objects:
        if some and (len(some) >= most or size + one.size > bounds.batch_bytes):
            break
        some[one.key] = one
        size += one.size
    return list(some.values()), [one for one in objects if one.key not in some]


def _most(bounds: PipelinesSettings) -> int:
    """Objects that tasks read for one commit."""
    return max(bounds.spark_objects, bounds.batch_objects)


def _bytes(objects: Sequence[SourceObject]) -> int:
    return sum(one.size for one in objects)
