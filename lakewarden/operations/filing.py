"""The files of one change of rows: there before the rows that refer to them, gone with those that do so no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from lakewarden.errors import LakewardenError, StorageRefused, StorageUnavailable
from lakewarden.operations.files import remove_files, store_file
from lakewarden.report import ScopeTarget
from lakewarden.rows.files import FileRef, Files

Held = tuple[str | None, FileRef]
"""Whose file, None on a SHARED table, and which."""


@dataclass
class Filing:
    """What a change brings along, for one scope; `target` gives the scope of any user that it touches.

    `noted` is the key of the registry's note of the scope, where this change was the first to make it.
    """

    user: str | None
    files: Files
    target: Callable[[str | None], ScopeTarget]
    noted: str | None = None
    _stored: list[FileRef] | None = field(default=None, init=False)

    def store(self) -> None:
        """Stores the files, once. Where that fails, none stays."""
        if self._stored is not None:
            return
        self._stored = []
        try:
            for ref, data in self.files:
                if store_file(self.target(self.user), ref, data()):
                    self._stored.append(ref)
        except LakewardenError:
            self.undo()
            raise

    def undo(self) -> None:
        """The rows were refused."""
        self._remove((self.user, ref) for ref in self._stored or ())

    def settle(self, before: Iterable[Held], after: Iterable[Held]) -> None:
        """The rows are written: removes what they referred to before and do not after, and what was brought for none."""
        own = [(self.user, ref) for ref in self._stored or ()]
        kept = {(user, ref.path) for user, ref in after}
        self._remove(held for held in (*before, *own) if (held[0], held[1].path) not in kept)

    def _remove(self, gone: Iterable[Held]) -> None:
        by_user: dict[str | None, list[FileRef]] = {}
        for user, ref in gone:
            by_user.setdefault(user, []).append(ref)
        for user, refs in by_user.items():
            with suppress(StorageUnavailable, StorageRefused):  # the rows are as they should be; a vacuum takes what is left
                remove_files(self.target(user), refs)
