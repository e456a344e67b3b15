"""What is known to be broken: scopes that failed a check, or an operation, by keyed hash, until a later check passes.

One object for each failure, `failed-checks/<table id>/<keyed hash>/<check>/<number>`: created, and deleted when the check has
passed for that number or a later one. So two checks at a time cannot remove each other's failure. In it stand its code and
its reason, without the user's id: an erasure forgets the objects, and one that is made late names nobody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

import msgspec

from lakewarden.errors import Corrupt
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore

ROOT = "failed-checks"

UNREADABLE = -1
"""The version of a scope that could not be opened."""

LATEST = (1 << 62) - 1
"""In place of a version: whichever it was, the failure is over."""


EXPECTATION = "expect_"
"""The begin of the names of checks that users bring."""

NO_FILE_MENDS = frozenset({"takes_rows", "pending_rows_keep_rules", "pending_rows_readable"})
"""Checks that fail for what other programs ask of commits, or for rows in the log: older files are no help, so a vacuum is not
kept from them."""


@dataclass(frozen=True)
class CheckResult:
    """The result of one check of one scope. `user` is None for a SHARED table.

    `version`: of its table; for an operation, which counts as a check here, the watermark that the table had.
    """

    user: str | None
    check: str
    version: int
    passed: bool
    code: str = Corrupt.code
    reason: str = ""
    """Without the user's id."""


@dataclass(frozen=True)
class StandingFailure:
    """A failure that no later check has lifted; `at` is the store's time. `version` as in `CheckResult`."""

    check: str
    version: int
    at: datetime


@dataclass(frozen=True)
class Cause:
    """What a failure says of itself. `reason` is empty where it would have named the user, or an earlier release noted it."""

    code: str = Corrupt.code
    reason: str = ""


class FailedChecks:
    """Those of one warehouse; `store` is rooted at its `_lakewarden/`, `mark` returns the keyed hash. Safe for threads."""

    def __init__(self, store: ObjectStore, mark: Callable[[str], str]) -> None:
        self._store = store
        self._mark = mark

    def of(self, table_id: str) -> Mapping[str, Sequence[StandingFailure]]:
        """Returns the failures of a table's scopes, by keyed hash, from one listing."""
        failed: dict[str, list[StandingFailure]] = defaultdict(list)
        for found in self._store.list(f"{ROOT}/{table_id}"):
            mark, check, version = found.key.split("/")[-3:]
            failed[mark].append(StandingFailure(check, int(version), found.modified))
        return failed

    def cause(self, table_id: str, mark: str, failed: StandingFailure) -> Cause:
        """Why it failed, from one read."""
        try:
            data = self._store.get(_key(table_id, mark, failed.check, failed.version))
            return msgspec.json.decode(data, type=Cause) if data else Cause()
        except (Missing, ValueError):  # lifted meanwhile; or garbled, and it failed all the same
            return Cause()

    def record(self, table_id: str, results: Iterable[CheckResult]) -> None:
        """Adds what failed, and removes what has passed since; a newer failure replaces an older one."""
        known, lifted = self.of(table_id), list[str]()
        for one in results:
            mark = self._mark(one.user or "")
            # The failure is created before older ones go: a scope that is broken is never without one.
            if not one.passed:
                with suppress(AlreadyThere):
                    cause = msgspec.json.encode(Cause(one.code, one.reason))
                    self._store.create(_key(table_id, mark, one.check, one.version), cause)
            # A pass speaks for its version and those before it; a failure of a later version stays.
            upto = one.version if one.passed else one.version - 1
            before = [each for each in known.get(mark, ()) if each.check == one.check and each.version <= upto]
            lifted += [_key(table_id, mark, each.check, each.version) for each in before]
        self._store.delete(lifted)

    def forget(self, table_id: str, user: str | None = None) -> None:
        """Removes the failures of a user's scope, which was erased; without a user, those of a table, which was dropped."""
        of_user = "" if user is None else f"/{self._mark(user)}"
        self._store.delete([found.key for found in self._store.list(f"{ROOT}/{table_id}{of_user}")])


def _key(table_id: str, mark: str, check: str, version: int) -> str:
    return f"{ROOT}/{table_id}/{mark}/{check}/{version}"
