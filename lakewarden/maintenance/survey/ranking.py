"""The tables of a survey, the worst first, however many there are: beyond some they are sorted on disk, in a temporary file."""

from __future__ import annotations

import pickle
import tempfile
import threading
import weakref
from collections import Counter
from collections.abc import Collection, Iterator
from heapq import merge
from typing import IO, cast

from lakewarden.delta.examination.kinds import Verdict
from lakewarden.maintenance.survey.table_survey import TableSurvey

_MOST = 10_000
"""Tables in memory, of some 2 KB each."""

_ORDER: dict[Verdict, int] = {"damaged": 0, "unreadable": 1, "catalog": 2, "sound": 3}


class RankedTables(Collection[TableSurvey]):
    """Safe for threads, while tables are added; iterated when all are there, as often as wanted. Tables that are gone since an
    earlier look stand last, and are not counted."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._newest: list[TableSurvey] = []
        self._runs: list[IO[bytes]] = []
        self._lock = threading.Lock()
        self._verdicts: Counter[Verdict] = Counter()

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many tables have each verdict, the worst first; without those that none has."""
        return {verdict: self._verdicts[verdict] for verdict in _ORDER if self._verdicts[verdict]}

    def add(self, found: TableSurvey) -> None:
        with self._lock:
            self._verdicts[found.verdict] += found.change != "gone"
            self._newest.append(found)
            if len(self._newest) >= self._most:
                self._runs.append(self._run())
                self._newest = []

    def __len__(self) -> int:
        return self._verdicts.total()

    def __contains__(self, found: object) -> bool:
        return any(each == found for each in self)

    def __iter__(self) -> Iterator[TableSurvey]:
        return merge(*map(_read, self._runs), sorted(self._newest, key=rank), key=rank)

    def _run(self) -> IO[bytes]:
        """A file without a name: it ends with this object, or with the process."""
        file = tempfile.TemporaryFile(prefix="lakewarden-survey-")  # noqa: SIM115  # kept open: it has no name
        for each in sorted(self._newest, key=rank):
            pickle.dump(each, file)
        weakref.finalize(self, file.close)
        return file


def _read(run: IO[bytes]) -> Iterator[TableSurvey]:
    at = 0
    while True:
        run.seek(at)  # several iterations may go on at once
        try:
            found = cast("TableSurvey", pickle.load(run))  # written by this process, into a file without a name
        except EOFError:
            return
        at = run.tell()
        yield found


def rank(found: TableSurvey) -> tuple[bool, int, int, int, str]:
    """What comes first is worse."""
    damage = len(found.damage)
    return found.change == "gone", _ORDER[found.verdict], -damage, -(found.small_files or 0), found.path
