"""Numbered folders for objects that arrive one at a time: when one is full, the next is started."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.base.recent import Recent
from lakewarden.storage.objects import ObjectStore

_KNOWN = 10_000
"""The most scopes whose folder is remembered."""


@dataclass
class _Folder:
    number: int
    objects: int

    @property
    def name(self) -> str:
        return _name(self.number)


class Folders:
    """Chooses the folder for the next object. Safe for threads.

    A folder is counted when a process first puts an object there, and in memory after that: a put needs no listing.
    Processes do not see each other's objects until they count again, so a folder may hold slightly more than its share.
    """

    def __init__(self) -> None:
        self._known: Recent[str, _Folder] = Recent(_KNOWN)

    def take(self, store: ObjectStore, root: str, most: int) -> str:
        """Returns the folder for one more object below `root`, such as `f0001`."""
        place = f"{store.uri}/{root}"
        folder = self._known.get(place)
        # Counted once and then kept in memory; other processes may add a few beyond the bound, which does no harm.
        if folder is None or folder.objects >= most:
            folder = _with_room(store, root, most)
        folder.objects += 1
        self._known.put(place, folder)
        return folder.name


def _with_room(store: ObjectStore, root: str, most: int) -> _Folder:
    """Finds the first folder that is not full by doubling and halving, so that no put lists a million objects."""

    def counted(number: int) -> _Folder:
        return _Folder(number, len(store.list(f"{root}/{_name(number)}")))

    full, found = 0, counted(1)
    while found.objects >= most:
        full, found = found.number, counted(found.number * 2)
    while found.number - full > 1:
        middle = counted((full + found.number) // 2)
        if middle.objects >= most:
            full = middle.number
        else:
            found = middle
    return found


def _name(number: int) -> str:
    return f"f{number:04d}"
