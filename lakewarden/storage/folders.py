"""Numbered folders for objects that come one at a time: each takes so many, then the next is begun."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from lakewarden.storage.objects import ObjectStore

_KNOWN = 10_000
"""Scopes whose folder is remembered."""


@dataclass
class _Folder:
    number: int
    objects: int

    @property
    def name(self) -> str:
        return _name(self.number)


class Folders:
    """Where the next object goes. Safe for threads.

    A folder is counted when a process first puts something there, and from then on in memory: a put costs no listing.
    Processes do not see each other's objects until they count anew, so that a folder may have some more than its share.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Folder] = OrderedDict()

    def take(self, store: ObjectStore, root: str, most: int) -> str:
        """The folder of one more object below `root`, as `f0001`."""
        place = f"{store.uri}/{root}"
        with self._lock:
            folder = self._known.pop(place, None)
        if folder is None or folder.objects >= most:
            folder = _with_room(store, root, most)
        folder.objects += 1
        with self._lock:
            self._known[place] = folder
            while len(self._known) > _KNOWN:
                self._known.popitem(last=False)
        return folder.name


def _with_room(store: ObjectStore, root: str, most: int) -> _Folder:
    """The first of the folders that is not full, found by doubling and halving: a million objects are not listed for one."""

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
