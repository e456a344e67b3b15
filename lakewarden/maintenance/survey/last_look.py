"""The last look at a place: what the next one need not read again, and what has changed since.

A listing decides. A table is as it was if its log has the same names with the same ETags, and its directory the same files of the
same sizes: then no request is made for it. That sees a commit that was overwritten in place, which asking for the next version
does not, and a live file that vanished. What it can't see is what no listing shows: a file whose bytes changed at equal size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from lakewarden.maintenance.survey.ranking import SpooledValues
from lakewarden.maintenance.survey.table_survey import Change, TableSurvey

_DIGEST = 16
"""Bytes: two listings that differ are taken for one with a chance of 2^-64 in a million of billions."""


@dataclass(frozen=True)
class TableDigest:
    """Of a table's part of a listing."""

    log: bytes
    """Of the names and ETags of its log; on a disk, modification time, size and inode stand for an ETag."""
    data: bytes
    """Of the names and sizes of all else in its directory."""


def digest_of(log: Iterable[tuple[str, str]], data: Iterable[tuple[str, int]]) -> TableDigest:
    """`log`: names and ETags, `data`: names and sizes, in any order."""
    return TableDigest(_digest(log), _digest(data))


def _digest(pairs: Iterable[tuple[str, str | int]]) -> bytes:
    # no name of an object holds a zero byte, so two different lists never make one text
    text = "\0".join(sorted(f"{name}\0{value}" for name, value in pairs))
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=_DIGEST).digest()


@dataclass(frozen=True)
class SeenTable:
    """A table as one look found it."""

    survey: TableSurvey
    digest: TableDigest
    log: bytes = b""
    """What the next look need not read of its log, if that has changed (`examination.kept_log`); empty where nothing is kept."""

    def is_unchanged(self, digest: TableDigest) -> bool:
        """Whether it is as it was, by its listing. What could not be read then is always read again."""
        return digest == self.digest and self.survey.verdict != "unreadable"


class SeenTables(Mapping[str, SeenTable]):
    """Tables by name. Of each only name and place stay in memory, 200 bytes. Safe for threads."""

    def __init__(self) -> None:
        self._spool = SpooledValues(SeenTable)
        self._places: dict[str, int] = {}

    def put(self, name: str, one: SeenTable) -> None:
        self._places[name] = self._spool.put(one)

    def __getitem__(self, name: str) -> SeenTable:
        return self._spool.get(self._places[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


@dataclass(frozen=True)
class LastLook:
    """What is known of a place before it is looked at."""

    rule: str = ""
    """By what it was judged: release and prices. What was judged otherwise is read again. Empty where there was no look."""
    tables: Mapping[str, SeenTable] = field(default_factory=dict)
    """By `name_of` their paths."""
    name_of: Callable[[str], str] = str
    shown: Callable[[str], str] = str
    """A path as `tables` spell it: users' names may be hidden there."""

    def seen(self, path: str, rule: str) -> SeenTable | None:
        """What was found, if it was judged by the same rule."""
        seen = self.tables.get(self.name_of(path)) if rule == self.rule else None
        return seen and replace(seen, survey=replace(seen.survey, path=path))

    def compared(self, found: SeenTables, unlisted: Collection[str]) -> Iterator[tuple[TableSurvey, str]]:
        """All tables with what changed, and with the verdict of the last look, which is empty for a new table; those that are
        gone stand last, and are in no further look.

        Args:
            found: all that this look saw; takes what is below `unlisted`.
            unlisted: URIs that could not be listed: what is below them is not gone, and stays as it was.
        """
        hidden = [self.shown(uri) for uri in unlisted]
        for name, one in found.items():
            before = self.tables.get(name)
            yield replace(one.survey, change=self._change(before, one)), "" if before is None else before.survey.verdict
        for name, one in self.tables.items():
            if name not in found and _is_below(one.survey.path, hidden):
                found.put(name, one)
            elif name not in found:
                yield replace(one.survey, change="gone"), one.survey.verdict

    def _change(self, before: SeenTable | None, one: SeenTable) -> Change:
        if before is None:
            return "new" if self.rule else ""
        # the verdict, too: a table that could be read again has changed for whoever waits for it
        same = before.digest == one.digest and before.survey.verdict == one.survey.verdict
        return "" if same else "changed"


def _is_below(path: str, places: Collection[str]) -> bool:
    return any(path == place or path.startswith(f"{place.rstrip('/')}/") for place in places)
