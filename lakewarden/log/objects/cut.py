"""Cuts: they say what of a log is settled. The newest one counts.

A number that was pruned can be created again by a process that slept. So nothing may be concluded from a cut before a
listing that began after it was read, or made, shows none newer. Listing the handful of cuts is one request to an
object store and one directory read on a disk: it shows a moment. So does the part of a whole log's listing that
shows its cuts; the other parts may be of other moments.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, field, fields

from lakewarden.base.attempts import Attempts
from lakewarden.errors import Corrupt
from lakewarden.log.objects import names
from lakewarden.log.objects.header import UNKNOWN, BatchIdentity, short
from lakewarden.log.once import ANY, LastBatch
from lakewarden.log.position import NOTHING, end_of
from lakewarden.log.view import UserSigns
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.sums import is_whole, with_sum

REMEMBERED = 512
"""Positions below `upto` whose writers a cut remembers: some 6 KiB. A writer that sleeps between its put and its look
while more than these are settled learns that its rows may or may not have been taken."""

ERASURES_REMEMBERED = 64
"""Erasures of which a cut says how far they went. Each settles more than eight positions, so a put that is below one
that was forgotten is not among the last `REMEMBERED` either."""

_FORGOTTEN = short(UNKNOWN)
WRITERS_REMEMBERED = 4096
"""Writers of batches with an identity, some 150 KiB. One whose last batch is older than the last batches of so many others is
forgotten, and a batch that it repeats is appended again."""

KEYS_REMEMBERED = 2048
"""Writes with a key of their client, some 80 KiB."""

EVERYBODY = "*"
"""In place of a user's keyed hash."""


@dataclass(frozen=True)
class HistoryObject:
    """An object with settled rows that subscribers may still ask for."""

    key: str
    last_seq: int
    """The highest `_seq` in it."""
    left_at: int
    """When its rows left the log, in microseconds since the epoch by the clock of whoever settled them."""
    small: bool = False
    """Whether it may be joined with others: it holds little, and was not joined yet."""


@dataclass(frozen=True)
class LogCut:
    """What is settled, as of one version. Version 0 is the state before the first cut."""

    version: int = 0
    upto: int = NOTHING
    """Every position up to it is settled; what of it is not is in the carry."""
    carry: tuple[str, ...] = ()
    """Keys of the objects with rows at or below `upto` that no flush has taken."""
    settled: Mapping[str, int] = field(default_factory=dict)
    """Marks: a user's rows at or below this `_seq` are in the user's table, although their segment or carry is kept."""
    taken: tuple[str, ...] = ()
    """Beginnings of the ids of the puts at the last positions up to `upto`, the last one's last; zeros for a lost one."""
    sealed: bool = False
    """The table was dropped: nothing is appended any more."""
    closed: tuple[str, ...] = ()
    """Keyed hashes of the users who are being erased: nothing of theirs is appended."""
    erased: Mapping[str, int] = field(default_factory=dict)
    """By keyed hash, the last ones last: the position up to which a user's rows were left out."""
    history: tuple[HistoryObject, ...] = ()
    """Settled rows that are kept, for as long as the settings say."""
    forgotten: int = NOTHING
    """Rows beyond this `_seq` are all there still, in the log or in its history."""
    rewound: Mapping[str, int] = field(default_factory=dict)
    """By keyed hash, users whose tables a restore set back, the last ones last: a position that was taken after it. What
    subscribers were shown before is not so any more. `EVERYBODY` is for all of them: the warehouse came from a backup."""
    direct: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Direct writes under way, by their ids: a position that was taken before theirs, and their last sign of life, in millis."""
    lost: tuple[int, ...] = ()
    """Positions above `upto` whose segments are lost: a repair gave them up. They count as taken, and as empty."""

    published: Mapping[str, int] = field(default_factory=dict)
    """By a writer's key, the last ones last: the number of its last batch up to `upto`, as `log.once` keeps it."""
    restated: Mapping[str, int] = field(default_factory=dict)
    """By a writer's key, or `ANY`: the position up to which segments do not say any more what the writer's last batch is."""
    columns: int = 0
    """The schema version below which no rows are appended: the table was altered (cuts/notes.py)."""
    fence: int = 0
    """The token of the last stream that took the place of the table's streaming writer (cuts/notes.py)."""

    keyed: Mapping[str, int] = field(default_factory=dict)
    """Of the last writes up to `upto` that a client may send again, the last ones last: their rows (`write_key`)."""
    keys_gone: bool = False
    """Whether there were more than are remembered."""

    @property
    def weight(self) -> int:
        """For a cache: how many entries of some hundred bytes it has."""
        lists = (self.carry, self.settled, self.taken, self.closed, self.erased, self.history, self.rewound, self.direct)
        return 1 + sum(map(len, (*lists, self.published, self.restated, self.keyed)))

    @property
    def last_taken(self) -> int:
        """The last position that is taken, as far as the cut knows."""
        # Lost positions may lie above the last segment that is there; writers go on behind them.
        return max(self.upto, *self.lost) if self.lost else self.upto

    def rewound_to(self, mark: str) -> int | None:
        """The position that was taken after the last restore of a user's table; None where none is known."""
        # A jump concerns every user, so it stands beside the user's own restores and does not take one of their places.
        return max((self.rewound[key] for key in (mark, EVERYBODY) if key in self.rewound), default=None)

    def signs(self, mark: str) -> UserSigns:
        """What the cut says of the user with this keyed hash."""
        everybody = self.rewound.get(EVERYBODY)
        return UserSigns(self.sealed, mark in self.closed, self.erased.get(mark), self.rewound_to(mark), everybody)

    def may_have_erased(self, position: int) -> bool:
        """Whether more erasures came after that position than are remembered."""
        # Below the bound nothing was forgotten. At the bound, what was forgotten came before the oldest that is remembered.
        return len(self.erased) >= ERASURES_REMEMBERED and min(self.erased.values()) > position

    def covers(self, position: int) -> bool:
        """Whether no process needs to read a segment that is put at the position from now on."""
        return self.sealed or position <= self.upto or position in self.lost

    def took(self, position: int, put_id: str) -> bool | None:
        """Whether this put's segment is what was settled at a position at or below `upto`; None when forgotten or lost."""
        # The memory ends at `upto`, so a position's place in it is counted from its end.
        index = len(self.taken) - 1 - (self.upto - position)
        if position > self.upto or index < 0 or self.taken[index] == _FORGOTTEN:
            return None
        return self.taken[index] == short(put_id)

    @property
    def last_put(self) -> str:
        """The beginning of the id of the put at `upto`, or zeros."""
        return self.taken[-1] if self.taken else UNKNOWN


def remember_erased(erased: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """The same of erasures."""
    # The user's older entry goes first, so that the new one stands last and is forgotten last.
    before = {user: position for user, position in erased.items() if user not in more}
    return dict(list({**before, **more}.items())[-ERASURES_REMEMBERED:])


def remember(taken: tuple[str, ...], put_ids: list[str]) -> tuple[str, ...]:
    """The memory of a cut that settles further positions."""
    return (*taken, *map(short, put_ids))[-REMEMBERED:]


def remember_published(published: Mapping[str, int], more: Iterable[BatchIdentity]) -> dict[str, int]:
    """The same of batches with an identity. An uncertain number stays until the writer is resumed."""
    known = dict(published)
    for writer, batch in more:
        kept = known.pop(writer, NOTHING)
        # What a segment says does not make an uncertain number certain: batches between may be lost.
        known[writer] = max(batch, kept) if LastBatch.of(kept).certain else kept
    # It stands for all writers that are not kept, so it takes no part in what is forgotten.
    any_writer = {ANY: known.pop(ANY)} if ANY in known else {}
    return any_writer | dict(list(known.items())[-WRITERS_REMEMBERED:])


_MEMBERS = tuple(each.name for each in fields(LogCut) if each.name != "version")
_OF_ALL = frozenset({"upto", "carry", "settled", "taken", "sealed"})
"""Cuts of earlier releases do not have the others."""


def encode_cut(cut: LogCut) -> bytes:
    found = {name: getattr(cut, name) for name in _MEMBERS}
    content = {name: dict(value) if isinstance(value, Mapping) else value for name, value in found.items()}
    content |= {"taken": "".join(cut.taken), "history": [list(astuple(kept)) for kept in cut.history]}
    # Left out where it says nothing, as with the fence: most logs have no keyed writes.
    if not cut.keyed:
        del content["keyed"], content["keys_gone"]
    if not cut.fence:
        del content["fence"]
    # Nothing else would show a bit that turned over: numbers and hashes are compared with nothing
    # (docs/decisions/0113-checksums-where-there-was-none.md).
    return with_sum(json.dumps(content, separators=(",", ":")).encode())


def decode_cut(key: str, version: int, data: bytes) -> LogCut:
    try:
        if not is_whole(data):
            raise ValueError("its checksum is another one")
        content = json.loads(data)
        members = {name: content[name] for name in _MEMBERS if name in content or name in _OF_ALL}
        members |= {name: tuple(members[name]) for name in ("carry", "closed", "lost") if name in members}
        taken, digits = content["taken"], len(_FORGOTTEN)
        members["taken"] = tuple(taken[at : at + digits] for at in range(0, len(taken), digits))
        members["history"] = tuple(HistoryObject(*each) for each in content.get("history", ()))
        members["direct"] = {id_: (at, since) for id_, (at, since) in content.get("direct", {}).items()}
        # A cut of a release without history: all that it had settled is gone.
        members.setdefault("forgotten", NOTHING if content["upto"] == NOTHING else end_of(content["upto"]))
        return LogCut(version, **members)
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"{key} cannot be read as a cut of the write log: {error!r}") from error


def read_cut(store: ObjectStore, log_id: str, version: int) -> LogCut:
    """The cut of that number; raises `Missing`. It counts only if `newest_version` still says so afterwards."""
    if version == 0:
        return LogCut()
    key = names.cut_key(log_id, version)
    return decode_cut(key, version, store.get(key))


def newest_version(store: ObjectStore, log_id: str) -> int:
    # Number 0 is the state before the first cut, and no object.
    return max(filter(None, map(names.number_of, store.keys(names.cuts(log_id)))), default=0)


def confirm(store: ObjectStore, log_id: str, cut: LogCut) -> None:
    """The cut is durable when this returns: what it says may be acted on.

    Raises:
        NotDurable: the disk reported an error.
    """
    if cut.version:
        with suppress(Missing):  # an older one by now: who removed it had confirmed a newer one
            store.confirm(names.cut_key(log_id, cut.version))


def newest_cut(store: ObjectStore, log_id: str, known: LogCut | None = None) -> LogCut:
    """The cut that counts now. `known` spares the read when it still does."""
    version = newest_version(store, log_id)
    if known is not None and known.version == version:
        return known
    attempts = Attempts(100, f"log {log_id} of {store.uri} was cut", "while its newest cut was read")
    while attempts.next():
        try:
            known = read_cut(store, log_id, version)
        except Missing:
            known = None
        version = newest_version(store, log_id)
        if known is not None and known.version == version:
            return known
