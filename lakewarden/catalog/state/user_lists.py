"""A sorted list of users in one object. A long one is read in parts: only those that may have the users who are looked up.

A short list is JSON: the users, or an object with the users and the keys of what the list replaces. A long one has a line of
JSON for each block of users, after a line that says with whom each block begins and how many bytes it has.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from lakewarden.errors import Corrupt
from lakewarden.storage.objects import ObjectStore

BLOCK = 4096
"""Users of a line at least, when it is made, and less than twice as many. A list of no more is short."""

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

    def check(self) -> None:
        """It was read whole."""

    def blocks(self) -> Iterator[Collection[str]]:
        """All users, a part at a time."""
        yield self.users


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
        by_line = self._by_line(users)
        # One read of all lines then costs less than a request for each.
        if 2 * len(by_line) > len(self.firsts):
            return self.users.intersection(users)
        lines = ((self._lines(number, number + 1)[0], theirs) for number, theirs in by_line.items())
        return frozenset().union(*(line.intersection(theirs) for line, theirs in lines))

    def check(self) -> None:
        """Raises `Missing`, and `Corrupt` where it does not end as its first line says."""
        if not self.store.is_whole(self.key, self.ends[-1]):
            raise _unreadable(self.store, self.key, b"cut off")

    def blocks(self) -> Iterator[Collection[str]]:
        """All users, a line at a time: of a million, no more than some thousand names are in memory. Raises as `users`."""
        for number, data in enumerate(self._data(0, len(self.firsts))):
            yield self._names(number, data)

    def changed(self, coming: Iterable[str], going: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """The lines of the list with some users more and others less, each with its first user. Only lines that change are
        decoded. Raises as `users`."""
        more, less = self._by_line(coming), self._by_line(going)
        for number, data in enumerate(self._data(0, len(self.firsts))):
            if number in more or number in less:
                gone = frozenset(less.get(number, ()))
                users = dict.fromkeys((*self._names(number, data), *more.get(number, ())))  # in order, so sorted at once
                yield from _lines_of(sorted(user for user in users if user not in gone))
            # Lines that are copied are not decoded, so a list that was cut off has to be seen by its bytes.
            elif data.endswith(b"\n") and len(data) == self.ends[number + 1] - self.ends[number]:
                yield self.firsts[number], data
            else:
                raise _unreadable(self.store, self.key, data)

    def _by_line(self, users: Iterable[str]) -> dict[int, list[str]]:
        """Each in the line where it is, or would be."""
        found: dict[int, list[str]] = {}
        for user in users:
            # A user before the first line's first one belongs into that line.
            found.setdefault(max(bisect_right(self.firsts, user) - 1, 0), []).append(user)
        return found

    def _lines(self, first: int, last: int) -> list[frozenset[str]]:
        return [frozenset(self._names(first + number, data)) for number, data in enumerate(self._data(first, last))]

    def _data(self, first: int, last: int) -> list[bytes]:
        start = self.ends[first]
        data = self.store.get_range(self.key, start, self.ends[last] - start)
        return [data[one - start : other - start] for one, other in pairwise(self.ends[first : last + 1])]

    def _names(self, number: int, data: bytes) -> list[str]:
        try:
            names: list[str] = json.loads(data)
        except ValueError as error:
            raise _unreadable(self.store, self.key, data) from error
        # A line in another's place would say that its users have no scope.
        if not names or names[0] != self.firsts[number]:
            raise _unreadable(self.store, self.key, data)
        return names


def pack_users(users: Sequence[str], replaced: Collection[str] | None, *, in_blocks: bool) -> bytes:
    """The object of a sorted list.

    Args:
        replaced: keys of the objects whose users the list has.
        in_blocks: a long list is written in blocks.
    """
    # Processes of an older format read JSON alone.
    if not in_blocks or len(users) <= BLOCK:
        return _encoded(users if replaced is None else {"users": users, "entries": sorted(replaced)})
    return _packed(_lines_of(users), replaced or ())


def repack_users(before: LongList, coming: Collection[str], going: Collection[str], replaced: Collection[str]) -> bytes:
    """As `pack_users` of a long list with some users more and others less. Raises as `LongList.users`."""
    return _packed(before.changed(coming, going), replaced)


def _packed(lines: Iterable[tuple[str, bytes]], replaced: Collection[str]) -> bytes:
    blocks = list(lines)
    if not blocks:
        return pack_users((), replaced, in_blocks=True)
    head = {"firsts": [first for first, _ in blocks], "sizes": [len(line) for _, line in blocks], "entries": sorted(replaced)}
    return b"".join((_encoded(head), b"\n", *(line for _, line in blocks)))


def _lines_of(users: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Lines of even length, each with its first user: so one more or less does not make a line of one."""
    size = -(-len(users) // max(len(users) // BLOCK, 1)) or 1
    blocks = (users[start : start + size] for start in range(0, len(users), size))
    return ((block[0], _encoded(block) + b"\n") for block in blocks)


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
    # A short list that is larger than the first read, or a first line that is.
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
    # Look-ups bisect, and would pass over users where the lines are not in order.
    if len(ends) != len(said["firsts"]) + 1 or any(one >= other for one, other in pairwise(said["firsts"])):
        raise ValueError("blocks that are not in order")
    return LongList(store, key, tuple(said["firsts"]), ends, frozenset(said["entries"]))


def _unreadable(store: ObjectStore, key: str, data: bytes) -> Corrupt:
    advice = "put it back from a backup, or remove it and run lakewarden repair --restored, which lists the scopes anew"
    return Corrupt(f"{store.uri}/{key} is not a list of users: {data[:80]!r}; {advice}")
