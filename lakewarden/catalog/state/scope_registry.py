"""The scope registry: which users of a table have a scope.

Users are added in objects called entries, without waiting for others. Now and then a fold replaces entries: a numbered
object, created if absent, that lists all users and the entries that it contains. The newest fold and the entries that it
does not contain are the registry. So of two processes that fold or forget at once, none restores a user whom the other left out.

A registry may lag behind: the scope's table is the truth, and listing the storage is the repair.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from lakewarden.base.attempts import Attempts
from lakewarden.base.clock import NewId
from lakewarden.catalog.state.user_lists import LongList, ShortList, pack_users, read_users, repack_users
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore

_FOLD_AT = 64
"""The number of a table's entries that is worth folding; reading the registry costs a listing and as many reads."""

_FOLD_NAME = "fold-"
_FOLD = re.compile(rf"/{_FOLD_NAME}(\d{{12}})$")

_Part = ShortList | LongList
"""The users of an entry; or those of a fold, which replaces entries."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class RegistryNews:
    """What came to a registry since it had certain objects."""

    users: frozenset[str]
    """Those whom none of these objects had."""
    objects: frozenset[str]
    """The names of the objects that it has now."""
    counted: int | None
    """The number of all users, where one of the earlier objects is gone, and maybe users with it; None where all are there."""


@dataclass(frozen=True)
class _Look:
    """One table's registry as of one moment."""

    fold: int
    """Number of the newest fold; 0 when there is no fold."""
    folded: _Part
    entries: Mapping[str, _Part]
    """By key, the entries that are not in the fold."""
    stale: tuple[str, ...]
    """Older folds, and entries that are in the newest fold: no longer needed."""

    @property
    def long(self) -> bool:
        """Whether more of it is read when users are looked up."""
        return any(isinstance(part, LongList) for part in (self.folded, *self.entries.values()))

    @property
    def users(self) -> frozenset[str]:
        return self.folded.users | self.entered

    @property
    def entered(self) -> frozenset[str]:
        """Those of the entries."""
        return frozenset[str]().union(*(entry.users for entry in self.entries.values()))

    def known(self, users: Collection[str]) -> frozenset[str]:
        """Returns those of the users who are in it."""
        return self.folded.known(users).union(*(entry.known(users) for entry in self.entries.values()))

    def added(self, since: frozenset[str]) -> RegistryNews | None:
        """As `ScopeRegistry.added`. A fold that came since has no others than those of the objects before it, if it is the only
        one and each entry that it replaced was there."""
        before = max((int(name.rpartition("-")[2]) for name in since if name.startswith(_FOLD_NAME)), default=0)
        # A fold in between was never seen: who was taken out of the list by it, or added before it, is not known.
        if self.fold > before + 1 or (self.fold > before and not since.issuperset(map(_name, self.folded.replaced))):
            return None
        objects = self._names
        fresh = [entry for key, entry in self.entries.items() if _name(key) not in since]
        older = {key: entry for key, entry in self.entries.items() if _name(key) in since}
        users = frozenset[str]().union(*(entry.users for entry in fresh))
        # An entry may name users who were registered already.
        users -= replace(self, entries=older).known(users)
        return RegistryNews(users, objects, None if since.issubset(objects) else len(self.users))

    @property
    def everything(self) -> RegistryNews:
        return RegistryNews(users := self.users, self._names, len(users))

    def each_block(self, of: Callable[[Collection[str]], _T]) -> tuple[list[_T], frozenset[str]]:
        parts = (self.folded, *self.entries.values())
        return [of(block) for part in parts for block in part.blocks()], self._names

    @property
    def _names(self) -> frozenset[str]:
        fold = [f"{_FOLD_NAME}{self.fold:012d}"] if self.fold else []
        return frozenset([*fold, *map(_name, self.entries)])


class ScopeRegistry:
    """The registry of one warehouse; `store` is rooted at its `_lakewarden/`. Safe for threads.

    In a warehouse of the newest format long lists are written `in_blocks`.
    """

    def __init__(self, store: ObjectStore, new_id: NewId, *, in_blocks: bool = True) -> None:
        self._store = store
        self._new_id = new_id
        self._in_blocks = in_blocks
        self._read: dict[str, _Part] = {}

    def version(self, table_id: str) -> str:
        """Returns a name for the registry as it is now, by its objects' names, which are never used again: one listing."""
        return hashlib.sha256("\n".join(self._keys(table_id)).encode()).hexdigest()[:32]

    def users(self, table_id: str) -> frozenset[str]:
        """Returns every user that was added.

        Raises:
            Corrupt: an object cannot be read.
        """
        return self._read_steadily(table_id, lambda look: look.users)

    def known(self, table_id: str, users: Collection[str]) -> frozenset[str]:
        """Returns those of the users who were added; the others cost nothing. Raises as `users`."""
        wanted = frozenset(users)
        # Whoever is found is there: who is taken out is in no object any more when the erasure ends, and begins anew behind it.
        # That somebody is not there takes a second listing (docs/decisions/0151-keys-in-columns-and-chains-of-commits.md).
        return self._read_steadily(
            table_id, lambda look: look.known(wanted), lambda look: not look.long and look.known(wanted) == wanted
        )

    def everything(self, table_id: str) -> RegistryNews:
        """Returns all users, as added since there were no objects. Raises as `users`."""
        return self._read_steadily(table_id, lambda look: look.everything)

    def each_block(self, table_id: str, of: Callable[[Collection[str]], _T]) -> tuple[list[_T], frozenset[str]]:
        """Returns what follows from each few thousand users, of whom some may stand in two blocks, and the names of the objects
        that have them: a million names at once take 200 MB. Raises as `users`."""
        return self._read_steadily(table_id, lambda look: look.each_block(of))

    def added(self, table_id: str, since: Collection[str]) -> RegistryNews | None:
        """Returns what was added since the registry had these objects (`RegistryNews.objects`); None where that cannot be said:
        then all users have to be compared. Reads only the objects that came since. Raises as `users`."""
        return self._read_steadily(table_id, lambda look: look.added(frozenset(since)))

    def check(self, table_id: str) -> None:
        """Reads each object, of a long list the first line and whether its end is there. Raises as `users`."""
        self._read_steadily(table_id, lambda look: [part.check() for part in (look.folded, *look.entries.values())])

    def add(self, table_id: str, users: Iterable[str]) -> str:
        """Adds users in one entry, and returns its key. Users who are registered already do no harm."""
        key = f"{_prefix(table_id)}/{self._new_id()}"
        # An object of its own, without a look at the others: adding never waits, and never conflicts.
        self._store.create(key, pack_users(sorted(set(users)), None, in_blocks=self._in_blocks))
        if len(self._store.list(_prefix(table_id))) > _FOLD_AT:
            self._fold(table_id, frozenset())
        return key

    def withdraw(self, table_id: str, key: str, users: Iterable[str]) -> None:
        """Removes users that `add` stored under this key. A user whom others added too stays, unless a fold came first."""
        gone, before = frozenset(users), self._look(table_id)
        kept = _without(before.entries.get(key), gone)
        if kept is not None:
            if kept:
                # First the others' entry, then the deletion: a crash in between leaves users twice, and none missing.
                self.add(table_id, kept)
            self._store.delete([key])
        # A fold that ran meanwhile has taken the entry in; only another fold takes users out of it.
        folded = kept is None or self._look(table_id).fold != before.fold
        if folded and self.known(table_id, gone):
            self._fold(table_id, gone)

    def discard(self, table_id: str, user: str) -> bool:
        """Removes one user of a table; returns whether the user was registered."""
        known = self.known(table_id, {user})
        if known:
            self._fold(table_id, frozenset({user}))
        else:
            # Older folds and entries may still have the user's name.
            self._store.delete(self._look(table_id).stale)
        return bool(known)

    def remove(self, table_id: str) -> None:
        """Removes the registry of a dropped table."""
        self._store.delete([stored.key for stored in self._store.list(_prefix(table_id))])

    def _fold(self, table_id: str, without: frozenset[str]) -> None:
        """Creates the next fold. A paused process can create a pruned number again: a fold counts only if it is the newest.

        Raises:
            Conflict: other processes folded again and again meanwhile.
        """
        attempts = Attempts(100, f"the list of scopes of table {table_id} was folded", "meanwhile")
        while attempts.next():
            look = self._look(table_id)
            key = _fold_key(table_id, look.fold + 1)
            # Entries that an earlier fold contains and that are still there stay in the list of what is replaced, or they would
            # count again.
            left = [stale for stale in look.stale if not _is_fold(stale)]
            try:
                self._store.create(key, self._folded(look, without, [*left, *look.entries]))
            except (AlreadyThere, Missing):
                continue
            # A number that was pruned was free: others went on from the fold that counts
            # (docs/decisions/0004-catalog-of-objects.md).
            if _newest(self._keys(table_id)) != look.fold + 1:
                self._store.delete([key])
                continue
            # What was read, and nothing else: an entry that came since is in no fold yet.
            self._store.delete([*look.stale, *look.entries, _fold_key(table_id, look.fold)])
            return

    def _folded(self, look: _Look, without: frozenset[str], replaced: Collection[str]) -> bytes:
        """The fold of what was looked at. Of a long list, only the lines that change are decoded. Raises as `users`."""
        if self._in_blocks and isinstance(look.folded, LongList):
            return repack_users(look.folded, look.entered - without, without, replaced)
        return pack_users(sorted(look.users - without), replaced, in_blocks=self._in_blocks)

    def _read_steadily(
        self, table_id: str, of: Callable[[_Look], _T], enough: Callable[[_Look], bool] = lambda look: False
    ) -> _T:
        """Reads users of a look. What is read of a long list counts if the fold is still the newest: names come again."""
        attempts = Attempts(100, f"the list of scopes of table {table_id} was folded", "while it was read")
        while attempts.next():
            look = self._look(table_id, enough)
            try:
                found = of(look)
            except Missing:
                continue
            # Lines of a long list are read behind the look; the name may be another fold's by then.
            if not look.long or look.fold == _newest(self._keys(table_id)):
                return found

    def _look(self, table_id: str, enough: Callable[[_Look], bool] = lambda look: False) -> _Look:
        """Reads the registry. A listing is not atomic: it is valid if no newer fold exists after it was read, or if what it shows
        is `enough`. One that shows exactly what was read before misses nothing that was folded since."""
        attempts = Attempts(100, f"the list of scopes of table {table_id} was folded", "while it was read")
        while attempts.next():
            keys, before = self._keys(table_id), self._read_of(table_id)
            try:
                look = self._read_all(table_id, keys)
            except Missing:
                continue
            # Nothing came and nothing went since the last look, which was valid.
            same = keys and before.issuperset(keys) and len(keys) == len(before)
            if same or enough(look) or _newest(self._keys(table_id)) == look.fold:
                return look

    def _read_all(self, table_id: str, keys: list[str]) -> _Look:
        """Reads an object. Raises `Missing` when it was folded since the listing."""
        number = _newest(keys)
        newest = _fold_key(table_id, number)
        fold: _Part = self._part(newest) if number else ShortList()
        entries = {key: self._part(key) for key in keys if not _is_fold(key) and key not in fold.replaced}
        needed = {newest, *entries}
        self._read = {k: part for k, part in self._read.items() if k in needed or not k.startswith(f"{_prefix(table_id)}/")}
        return _Look(number, fold, entries, tuple(key for key in keys if key not in needed))

    def _read_of(self, table_id: str) -> frozenset[str]:
        return frozenset(key for key in self._read if key.startswith(f"{_prefix(table_id)}/"))

    def _keys(self, table_id: str) -> list[str]:
        return [stored.key for stored in self._store.list(_prefix(table_id))]

    def _part(self, key: str) -> _Part:
        if key not in self._read:
            self._read[key] = read_users(self._store, key)
        return self._read[key]


def _without(entry: _Part | None, gone: frozenset[str]) -> frozenset[str] | None:
    """Returns the other users of an entry; None when it was folded."""
    try:
        return None if entry is None else entry.users - gone
    except Missing:
        return None


def _prefix(table_id: str) -> str:
    return f"scopes/{table_id}"


def _fold_key(table_id: str, number: int) -> str:
    return f"{_prefix(table_id)}/{_FOLD_NAME}{number:012d}"


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _is_fold(key: str) -> bool:
    return _FOLD.search(key) is not None


def _newest(keys: Iterable[str]) -> int:
    return max((int(found[1]) for key in keys if (found := _FOLD.search(key))), default=0)


# Users of whom a process knows that they are registered (`scopes`), so that its next flush of them asks for nothing.
_HOLDS = timedelta(minutes=10)
"""Then the registry is read again: what is known here would hide for ever that an entry was lost."""

_MOST = 100_000
"""Users. A flush of more reads the registry."""


@dataclass(frozen=True)
class RegistrationLook:
    """What was so when users with rows in a log were seen to be registered, or is so now."""

    removals: tuple[tuple[str, int], ...]
    """Of the log (`LogView.removals`). Who is removed from the registry is erased from the log first, which shows here."""
    catalog: int
    """A version of the catalog that was read after the registry, or that no move began behind which missed these users. A move
    that begins later reads the registry later."""
    at: datetime

    def holds(self, now: RegistrationLook) -> bool:
        """Returns whether what was seen is still so, and no move that `now.catalog` does not show can have missed it."""
        return self.removals == now.removals and self.catalog <= now.catalog and self.at <= now.at < self.at + _HOLDS


class RegisteredUsers:
    """Those of one warehouse, by table. Safe for threads."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._seen: dict[str, dict[str, RegistrationLook]] = defaultdict(dict)
        self._lock = threading.Lock()

    def has(self, table_id: str, users: Collection[str], now: RegistrationLook) -> bool:
        """Returns whether all of these users are known to be registered, without a look."""
        with self._lock:
            seen = self._seen[table_id]
            return all((before := seen.get(user)) is not None and before.holds(now) for user in users)

    def note(self, table_id: str, users: Collection[str], seen: RegistrationLook) -> None:
        """Notes that these users were seen in the registry. Beyond the most, the others are forgotten."""
        with self._lock:
            if sum(map(len, self._seen.values())) + len(users) > self._most:
                self._seen.clear()
            if len(users) <= self._most:
                self._seen[table_id].update(dict.fromkeys(users, seen))
