"""Remembers the transaction identifiers of this process's commits, so that a scope's next flush need not read them again.

A data file's name is never made twice. Where the file that a commit of ours brought is live at the version that the commit
made, that commit is the one that lies there, whatever has happened to the table in between.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

from lakewarden.delta.parquet.files import NewFile

_MOST = 10_000
"""Commits, a few hundred bytes each."""


class RememberedCommits:
    """Bounded, the oldest forgotten first; safe for threads."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._made: OrderedDict[str, tuple[int, Mapping[str, int]]] = OrderedDict()
        self._lock = threading.Lock()

    def remember(self, adds: Sequence[NewFile], version: int, transactions: Mapping[str, int]) -> None:
        """A commit without files is not remembered."""
        if not adds:
            return
        with self._lock:
            self._made[adds[-1].path] = (version, transactions)
            if len(self._made) > self._most:
                self._made.popitem(last=False)

    def recall(self, files: Iterable[str], version: int) -> Mapping[str, int] | None:
        """Those of the commit that made this version, in which these files are live; None where it was not ours."""
        found = (self._made.get(file) for file in files)
        return next((transactions for made, transactions in filter(None, found) if made == version), None)


REMEMBERED = RememberedCommits()
