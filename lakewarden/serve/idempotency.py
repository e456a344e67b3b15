"""`Idempotency-Key`: a write that is sent again under its key is answered from what is kept, and not done again.

`serve/keyed/<digest of user and key>` is created before the write, and holds the digest of the request; `….answer` is created
behind it. Where there is no answer, what became of the write is looked for: what it wrote carries the key (`serve.idempotency`).
A key works for at least 24 hours by the store's own clock. No object holds a user's name, a key, or a column's value.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from hashlib import sha256
from typing import Protocol

import msgspec

from lakewarden.base.clock import to_millis
from lakewarden.base.scope import TableName
from lakewarden.base.write_key import PARAMETER, WITHIN_SECONDS, Trace, WriteKey, carrying
from lakewarden.catalog.model import Table
from lakewarden.delta.scope import open_scope
from lakewarden.delta.timeline import walk
from lakewarden.errors import (
    Conflict,
    Corrupt,
    Internal,
    InvalidArgument,
    LakewardenError,
    ScopesFailed,
    StorageRefused,
    StorageUnavailable,
)
from lakewarden.sql.statement import OnTable, Statement
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore
from lakewarden.storage.open import open_store
from lakewarden.tables.warehouse import Warehouse

# Finds out what became of a keyed write without an answer: the log and Delta's commits carry its key.
_BEFORE = timedelta(days=2)
"""Commits that say to be so much older than the request are not its: clocks differ by less."""


class Fate(Enum):
    DONE = "was done"
    PARTLY = "was done in part: some of its rows are in the table"
    NOT_DONE = "was not done"
    OPEN = "left nothing so far, and may still be under way"
    UNKNOWN = "left nothing that says whether it was done"


@dataclass(frozen=True)
class StatementOutcome:
    """What became of one statement of a request. `rows` where it was done."""

    fate: Fate
    rows: int = 0
    version: int | None = None
    """The version of the Delta table that it committed, if it did."""


Places = Callable[[], Sequence[TableName | None]]
"""The table that each statement of a request writes rows to; None where it writes none."""


def places_of(statements: Sequence[Statement], namespace: str | None) -> list[TableName | None]:
    """Of statements that were parsed."""
    return [_place(each, namespace) for each in statements]


def _place(statement: Statement, namespace: str | None) -> TableName | None:
    if not isinstance(statement, OnTable):
        return None
    place = statement.table.namespace or namespace
    return None if place is None else TableName(place, statement.table.name)


@dataclass(frozen=True)
class Outcomes:
    """Looks into the tables of one warehouse."""

    warehouse: Warehouse

    def of(self, key: str, place: TableName | None, since: datetime, *, over: bool) -> StatementOutcome:
        """What became of a statement.

        Args:
            key: as what it wrote carries it.
            since: when the request began, by the store's clock.
            over: whether none of its puts can begin any more.
        """
        table = None if place is None else self.warehouse.catalog.read().tables.get(place)
        if table is None:
            return StatementOutcome(Fate.UNKNOWN)
        found = self._in_delta(key, table, since) if table.type == "SHARED" else None
        if found is not None:
            return found
        log = self.warehouse.log(table)
        trace = log.trace(key)
        if not trace.found and over and table.schema.keyed:
            log.take_position()  # where a put may still be on its way to
            trace = log.trace(key)
        return self._of_log(trace, table, over=over)

    def _of_log(self, trace: Trace, table: Table, *, over: bool) -> StatementOutcome:
        if trace.found:
            return StatementOutcome(Fate.DONE if trace.whole else Fate.PARTLY, trace.rows)
        if not over:
            return StatementOutcome(Fate.OPEN)
        through_log = table.type != "SHARED"  # else a commit may still be on its way
        return StatementOutcome(Fate.NOT_DONE if through_log and trace.certain else Fate.UNKNOWN)

    def _in_delta(self, key: str, table: Table, since: datetime) -> StatementOutcome | None:
        target = self.warehouse.target_of(self.warehouse.catalog.read(), table, None)
        opened = open_scope(target)
        if opened is None:
            return None
        for entry in walk(open_store(target.location), opened.version):
            if entry.stamp is not None and entry.stamp.parameters.get(PARAMETER) == key:
                metrics = entry.stamp.metrics
                return StatementOutcome(Fate.DONE, sum(metrics.get(name, 0) for name in _ROWS), entry.version)
            if entry.at < to_millis(since - _BEFORE):
                return None
        return None


_ROWS = (
    "numOutputRows",
    "numUpdatedRows",
    "numDeletedRows",
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
    "numTargetRowsDeleted",
)
"""What a commit says of the rows that a statement changed."""


_ROOT = "serve/keyed"
_EARLIER_ROOT = "serve/writes"
"""Where earlier releases kept keys, by the day of their servers' clocks."""
_LONGEST = 255
_DIGITS = 24
_KEPT_FOR = timedelta(days=2)
_OVER = timedelta(seconds=2 * WITHIN_SECONDS)
_FORGETS_EACH = 86_400.0
"""Seconds between two looks for keys that are too old."""
_UNDECIDED = (StorageUnavailable, StorageRefused, Corrupt, Internal, ScopesFailed)
"""Errors that may come when something was written."""
_NOT_DONE = "NOT_DONE"


@dataclass(frozen=True)
class StoredAnswer:
    """A write's answer, and what a second request is answered: the same without columns' values. None: nothing was written."""

    answer: bytes
    kept: bytes | None


@dataclass(frozen=True)
class KeyedRequest:
    """What a client sent under a key, and how to answer it where the first answer was lost."""

    content: bytes
    """Its path and body, or what stands for them."""
    places: Places
    answered: Callable[[StatementOutcome], bytes | None]
    """The answer of a request of one statement that was done; None where what is left of it does not say it."""


class _Kept(msgspec.Struct, frozen=True):
    """The end of a write: its answer, or the code of its error and how many statements before it are done. An error's
    message may quote a value, so it is not kept."""

    answer: str | None
    code: str | None
    statements: int = 0


class Finder(Protocol):
    """Finds out what became of a statement; `Outcomes` says how."""

    def of(self, key: str, place: TableName | None, since: datetime, *, over: bool) -> StatementOutcome: ...


@dataclass
class Writes:
    """The keyed writes of one warehouse; `store` is rooted at its `_lakewarden/`. Safe for threads and processes."""

    store: ObjectStore
    outcomes: Finder
    _forgot_at: float = field(default=-_FORGETS_EACH, init=False)

    def once(self, user: str, key: str, request: KeyedRequest, write: Callable[[], StoredAnswer]) -> bytes:
        """The answer of the write, which is done now if the key is new.

        Raises:
            InvalidArgument: the key is empty or too long, or was sent with another request.
            Conflict: the first request with the key has not ended, failed, or left nothing that says what became of it.
        """
        if not 1 <= len(key) <= _LONGEST:
            raise InvalidArgument(f"an Idempotency-Key has 1 to {_LONGEST} characters, not {len(key)}")
        name, mine = sha256(f"{user}\0{key}".encode()).hexdigest(), sha256(request.content).hexdigest()
        claimed = f"{_ROOT}/{name}"
        self._forget_old(claimed)
        try:
            self.store.create(claimed, mine.encode())
        except AlreadyThere:
            return self._again(claimed, request, mine)
        return self._first(claimed, write)

    def _first(self, claimed: str, write: Callable[[], StoredAnswer]) -> bytes:
        key = WriteKey(_carried(claimed), time.monotonic() + WITHIN_SECONDS)
        try:
            with carrying(key):
                done = write()
        except _UNDECIDED:
            raise  # what became of it is found out when it is sent again
        except LakewardenError as error:
            self._keep(claimed, _Kept(None, error.code, key.statement))
            raise
        if done.kept is None:
            self.store.delete([claimed])
        else:
            self._keep(claimed, _Kept(done.kept.decode(), None))
        return done.answer

    def _again(self, claimed: str, request: KeyedRequest, mine: str) -> bytes:
        first, began = self.store.get_dated(claimed)
        if first.decode() != mine:
            raise InvalidArgument("this Idempotency-Key was sent with another request: a new request needs a new key")
        kept = self._read(f"{claimed}.answer")
        if kept is None:
            return self._found_out(claimed, request, began)
        found = msgspec.json.decode(kept, type=_Kept)
        if found.answer is not None:
            return found.answer.encode()
        if found.code == _NOT_DONE:
            raise Conflict(
                "the first request with this Idempotency-Key ended without an answer, and wrote nothing: a new key may try again"
            )
        before = f"; {found.statements} of its statements are done, the others are not" if found.statements else ""
        again = "send those again with a new key" if found.statements else "try again with a new key"
        raise Conflict(f"the first request with this Idempotency-Key failed with {found.code}{before}: {again}")

    def _found_out(self, claimed: str, request: KeyedRequest, began: datetime) -> bytes:
        """The answer of a request that got none, if it was done.

        Raises:
            Conflict: it was not, or in part, or that is not known.
        """
        over = self._now(claimed) - began >= _OVER
        name, places = _carried(claimed), request.places()
        found = [self.outcomes.of(f"{name}.{number}", place, began, over=over) for number, place in enumerate(places)]
        if len(found) == 1 and found[0].fate is Fate.DONE and (answer := request.answered(found[0])) is not None:
            self._keep(claimed, _Kept(answer.decode(), None))
            return answer
        if all(each.fate is Fate.NOT_DONE for each in found):
            self._keep(claimed, _Kept(None, _NOT_DONE))
        raise Conflict(f"the first request with this Idempotency-Key has no answer: {_said(found)}")

    def _now(self, claimed: str) -> datetime:
        """The store's time."""
        self.store.put(f"{claimed}.seen", b"")
        return self.store.get_dated(f"{claimed}.seen")[1]

    def _forget_old(self, claimed: str) -> None:
        """Removes keys that are too old, by the store's time, once a day in each process."""
        if time.monotonic() - self._forgot_at < _FORGETS_EACH:
            return
        self._forgot_at = time.monotonic()
        now = self._now(claimed)
        stored = [*self.store.list(_ROOT), *self.store.list(_EARLIER_ROOT)]
        self.store.delete([each.key for each in stored if now - each.modified > _KEPT_FOR])

    def _keep(self, claimed: str, kept: _Kept) -> None:
        with suppress(AlreadyThere):  # another request found out the same
            self.store.create(f"{claimed}.answer", msgspec.json.encode(kept))

    def _read(self, key: str) -> bytes | None:
        try:
            return self.store.get(key)
        except Missing:
            return None


def _carried(claimed: str) -> str:
    """What its writes carry."""
    return claimed.rpartition("/")[2][:_DIGITS]


def _said(found: Sequence[StatementOutcome]) -> str:
    """What became of its statements, and what to do."""
    if len(found) == 1:
        return f"it {found[0].fate.value}; {_ADVICE[found[0].fate]}"
    done = [number for number, each in enumerate(found, 1) if each.fate is Fate.DONE]
    last = max(done, default=0)  # a statement begins when those before it have ended
    following = found[last:] if last < len(found) else ()
    rest = next((each.fate for each in following), Fate.DONE)
    return f"{last} of its {len(found)} statements are done; the next one {rest.value}; {_ADVICE[rest]}"


_ADVICE = {
    Fate.DONE: "do not send it again",
    Fate.PARTLY: "look at the table before you send anything again",
    Fate.NOT_DONE: "a new key may try again",
    Fate.OPEN: "send the same request again with the same key, later",
    Fate.UNKNOWN: "look whether what it says is there before you send it again with a new key",
}
