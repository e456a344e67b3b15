"""`Idempotency-Key`: a write that is sent again under its key is answered from what is kept, and not done again.

`serve/writes/<day>/<digest of user and key>` is created before the write, and holds the digest of the request;
`…/<digest>.answer` is created behind it. A key works for at least 24 hours: those of a day and of the day before are known.
No object holds a user's name, a key, or a column's value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

import msgspec

from lakewarden.clock import Clock
from lakewarden.errors import Conflict, InvalidArgument, LakewardenError
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore

_ROOT = "serve/writes"
_LONGEST = 255
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Done:
    """A write's answer, and what a second request is answered: the same without columns' values. None: nothing was written."""

    answer: bytes
    kept: bytes | None


class _Kept(msgspec.Struct, frozen=True):
    """The end of a write: its answer, or the code of its error. An error's message may quote a value, so it is not kept."""

    answer: str | None
    code: str | None


@dataclass
class Writes:
    """The keyed writes of one warehouse; `store` is rooted at its `_lakewarden/`. Safe for threads and processes."""

    store: ObjectStore
    clock: Clock
    _known_since: str = ""

    def once(self, user: str, key: str, request: bytes, write: Callable[[], Done]) -> bytes:
        """The answer of the write, which is done now if the key is new.

        Args:
            request: its path and body, or what stands for them.
            write: does it.

        Raises:
            InvalidArgument: the key is empty or too long, or was sent with another request.
            Conflict: the first request with the key has not ended, or failed.
        """
        if not 1 <= len(key) <= _LONGEST:
            raise InvalidArgument(f"an Idempotency-Key has 1 to {_LONGEST} characters, not {len(key)}")
        name, mine = sha256(f"{user}\0{key}".encode()).hexdigest(), sha256(request).hexdigest()
        now = self.clock()
        for day in (now - _DAY, now):
            first = self._read(_key(day, name))
            if first is not None:
                return self._again(_key(day, name), first.decode() == mine)
        self._forget_before(now - _DAY)
        claimed = _key(now, name)
        try:
            self.store.create(claimed, mine.encode())
        except AlreadyThere:
            return self._again(claimed, self.store.get(claimed).decode() == mine)
        if any(self._read(_key(day, name)) is not None for day in (now - _DAY, now + _DAY)):
            raise Conflict("two requests with this Idempotency-Key met at midnight: look whether the write was done")
        return self._first(claimed, write)

    def _forget_before(self, moment: datetime) -> None:
        """Removes older days, when the first write of a day comes."""
        since = _day(moment)
        if self._known_since != since:
            self.store.delete([key for key in self.store.keys(_ROOT) if key.split("/")[-2] < since])
            self._known_since = since

    def _first(self, claimed: str, write: Callable[[], Done]) -> bytes:
        try:
            done = write()
        except LakewardenError as error:
            self._keep(claimed, _Kept(None, error.code))
            raise
        if done.kept is None:
            self.store.delete([claimed])
        else:
            self._keep(claimed, _Kept(done.kept.decode(), None))
        return done.answer

    def _again(self, claimed: str, same: bool) -> bytes:
        if not same:
            raise InvalidArgument("this Idempotency-Key was sent with another request: a new request needs a new key")
        kept = self._read(f"{claimed}.answer")
        if kept is None:
            raise Conflict(
                "the first request with this Idempotency-Key has not ended, or its server died: look whether it was done"
            )
        found = msgspec.json.decode(kept, type=_Kept)
        if found.answer is None:
            raise Conflict(f"the first request with this Idempotency-Key failed with {found.code}: try again with a new key")
        return found.answer.encode()

    def _keep(self, claimed: str, kept: _Kept) -> None:
        self.store.create(f"{claimed}.answer", msgspec.json.encode(kept))

    def _read(self, key: str) -> bytes | None:
        try:
            return self.store.get(key)
        except Missing:
            return None


def _key(moment: datetime, name: str) -> str:
    return f"{_ROOT}/{_day(moment)}/{name}"


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"
