"""A sorted list of users in one object. A long one is read in parts: only those that may have the users who are looked up.

A short list is JSON: the users, or an object with the users and the keys of what the list replaces. A long one has a line of
JSON for each block of users, after a line that says with whom each block begins and how many bytes it has.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from lakewarden.errors import Corrupt
from lakewarden.storage.objects import ObjectStore

BLOCK = 4096
"""Users of a line. A list of no more is short."""

_FIRST_READ = 128 << 10
"""Holds a short list, or the first line of one with two million users and more."""


@dataclass(frozen=True)
class ShortList:
    """A list that was read whole."""

    users: frozenset[str] = frozenset()
    replaced: frozenset[str] = frozenset()
    """Keys of the objects whose users the list has."""

    def known(self, users: Collection[str]) -> frozenset[str]:
        """Those of the users who are in it."""
        return self.users.intersection(users)


@dataclass(frozen=True)
class LongList:
    """The first line of a long list."""

    store: ObjectStore
    key: str
    firsts: tuple[str, ...]
    ends: tuple[int, ...]
    """Where the first block begins, and where each one ends."""
    replaced: frozenset[str]

    @property
    def users(self) -> frozenset[str]:
        """Raises `Missing`, and `Corrupt` where a line is not as the first one says."""
        return frozenset().union(*self._lines(0, len(self.firsts)))

    def known(self, users: Collection[str]) -> frozenset[str]:
        """Those of the users who are in it; reads only lines that may have them. Raises as `users`."""
        by_line: dict[int, list[str]] = {}
        for user in users:
            by_line.setdefault(bisect_right(self.firsts, user) - 1, []).append(user)
        by_line.pop(-1, None)
        if 2 * len(by_line) > len(self.firsts):
            return self.users.intersection(users)
        lines = ((self._lines(number, number + 1)[0], theirs) for number, theirs in by_line.items())
        return frozenset().union(*(line.intersection(theirs) for line, theirs in lines))

    def _lines(self, first: int, last: int) -> list[frozenset[str]]:
        start = self.ends[first]
        data = self.store.get_range(self.key, start, self.ends[last] - start)
        cuts = [end - start for end in self.ends[first : last + 1]]
        return [self._line(first + number, data[one:other]) for number, (one, other) in enumerate(pairwise(cuts))]

    def _line(self, number: int, data: bytes) -> frozenset[str]:
        try:
            names: list[str] = json.loads(data)
        except ValueError as error:
            raise _unreadable(self.store, self.key, data) from error
        if not names or names[0] != self.firsts[number]:
            raise _unreadable(self.store, self.key, data)
        return frozenset(names)


def pack_users(users: Sequence[str], replaced: Collection[str] | None, *, in_blocks: bool) -> bytes:
    """The object of a sorted list.

    Args:
        replaced: keys of the objects whose users the list has.
        in_blocks: a long list is written in blocks.
    """
    if not in_blocks or len(users) <= BLOCK:
        return _encoded(users if replaced is None else {"users": users, "entries": sorted(replaced)})
    blocks = [users[start : start + BLOCK] for start in range(0, len(users), BLOCK)]
    lines = [_encoded(block) + b"\n" for block in blocks]
    head = {"firsts": [block[0] for block in blocks], "sizes": [len(line) for line in lines], "entries": sorted(replaced or ())}
    return b"".join((_encoded(head), b"\n", *lines))


def _encoded(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def read_users(store: ObjectStore, key: str) -> ShortList | LongList:
    """Reads a list, or the first line of a long one.

    Raises:
        Missing: it does not exist.
        Corrupt: it is not a list of users.
    """
    data = store.get_range(key, 0, _FIRST_READ)
    line, newline, _ = data.partition(b"\n")
    if not newline and len(data) == _FIRST_READ:
        line, newline, _ = store.get(key).partition(b"\n")
    try:
        return _long(store, key, json.loads(line), len(line) + 1) if newline else _short(json.loads(line))
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(store, key, data) from error


def _short(said: Any) -> ShortList:
    if isinstance(said, dict):
        return ShortList(frozenset(said["users"]), frozenset(said["entries"]))
    return ShortList(frozenset(said))


def _long(store: ObjectStore, key: str, said: Any, start: int) -> LongList:
    ends = tuple(accumulate(said["sizes"], initial=start))
    if len(ends) != len(said["firsts"]) + 1 or any(one >= other for one, other in pairwise(said["firsts"])):
        raise ValueError("blocks that are not in order")
    return LongList(store, key, tuple(said["firsts"]), ends, frozenset(said["entries"]))


def _unreadable(store: ObjectStore, key: str, data: bytes) -> Corrupt:
    return Corrupt(f"{store.uri}/{key} is not a list of users: {data[:80]!r}")
