"""Which scopes failed which check of their data, by keyed hash, until a later check passes: no vacuum deletes what may mend them.

One object for each failure, `failed-checks/<table id>/<keyed hash>/<check>/<version>`: created, and deleted when the check has
passed in that version or a later one. So two checks at a time cannot remove each other's failure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from lakewarden.storage.objects import AlreadyThere, ObjectStore

ROOT = "failed-checks"

UNREADABLE = -1
"""The version of a scope that could not be opened."""


@dataclass(frozen=True)
class Checked:
    """The result of one check of one scope, in one version of its table. `user` is None for a SHARED table."""

    user: str | None
    check: str
    version: int
    passed: bool


@dataclass(frozen=True)
class FailedCheck:
    """A failure that no later check has lifted; `at` is the store's time."""

    check: str
    version: int
    at: datetime


class FailedChecks:
    """Those of one warehouse; `store` is rooted at its `_lakewarden/`, `mark` returns the keyed hash. Safe for threads."""

    def __init__(self, store: ObjectStore, mark: Callable[[str], str]) -> None:
        self._store = store
        self._mark = mark

    def of(self, table_id: str) -> Mapping[str, list[FailedCheck]]:
        """Returns the failures of a table's scopes, by keyed hash, from one listing."""
        failed: dict[str, list[FailedCheck]] = defaultdict(list)
        for found in self._store.list(f"{ROOT}/{table_id}"):
            mark, check, version = found.key.split("/")[-3:]
            failed[mark].append(FailedCheck(check, int(version), found.modified))
        return failed

    def record(self, table_id: str, results: Iterable[Checked]) -> None:
        """Adds what failed, and removes what has passed since; a newer failure replaces an older one."""
        known, lifted = self.of(table_id), list[str]()
        for one in results:
            mark = self._mark(one.user or "")
            if not one.passed:
                with suppress(AlreadyThere):
                    self._store.create(_key(table_id, mark, one.check, one.version), b"")
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
