"""What is kept of surveys: `surveys/<place>/<number>-<id>/<n>-of-<count>`, one directory a look at a place.

A look counts if all of its objects are there, the highest number before others: so whoever dies in the middle, or loses a race,
leaves the look before it, or a whole one, and never a mixture. Numbers, not times, decide, since clocks go wrong. All of it is
derived: whoever deletes it pays a first look again. `place` is a keyed hash, since a place's name may hold a user's.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress

from lakewarden.base.clock import NewId
from lakewarden.storage.objects import Missing, ObjectStore

ROOT = "surveys"

_NAME = re.compile(rf"({ROOT}/[^/]+/(\d{{12}})-[^/]+)/(\d+)-of-(\d+)")
_ATTEMPTS = 5
"""How often a reader begins again whose look was replaced while it was read."""


def kept_look(state: ObjectStore, place: str) -> list[bytes]:
    """The objects of the newest whole look at a place, in order; empty where none is kept."""
    for _ in range(_ATTEMPTS):
        whole = _whole(state.keys(f"{ROOT}/{place}"))
        if not whole:
            return []
        with suppress(Missing):  # a newer look came while this one was read, and removed it
            return [state.get(key) for key in whole[-1]]
    return []


def keep_look(state: ObjectStore, place: str, parts: Iterable[bytes], count: int, new_id: NewId) -> list[str]:
    """Keeps a look of so many parts as the newest, and removes those before it. Returns its keys."""
    before = list(state.keys(f"{ROOT}/{place}"))
    number = 1 + max((int(found[2]) for key in before if (found := _NAME.fullmatch(key))), default=0)
    look = f"{ROOT}/{place}/{number:012d}-{new_id()}"
    keys = [f"{look}/{part}-of-{count}" for part in range(1, count + 1)]
    for key, data in zip(keys, parts, strict=True):
        state.create(key, data)
    state.delete(before)
    return keys


def remove_naming(state: ObjectStore, keys: Iterable[str], is_named: Callable[[bytes], bool]) -> None:
    """Removes those of these objects that name somebody, of unfinished looks too.

    Removed, and not changed: of two erasures at once, each would write back whom the other had taken out. A look without one of
    its objects does not count.
    """
    for key in keys:
        with suppress(Missing):
            if is_named(state.get(key)):
                state.delete([key])


def _whole(keys: Iterable[str]) -> list[list[str]]:
    """The keys of each whole look, the newest last."""
    found = defaultdict[tuple[str, str, str], dict[int, str]](dict)
    for key in keys:
        if name := _NAME.fullmatch(key):
            found[name[2], name[1], name[4]][int(name[3])] = key
    return [
        [parts[number] for number in sorted(parts)] for (_, _, count), parts in sorted(found.items()) if len(parts) == int(count)
    ]
