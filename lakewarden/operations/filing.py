"""The files of one change of rows: there before the rows that refer to them, gone with those that do so no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from lakewarden.errors import Conflict, LakewardenError, StorageRefused, StorageUnavailable
from lakewarden.operations.files import remove_files, store_files
from lakewarden.report import ScopeTarget
from lakewarden.rows.files import FileRef

Held = tuple[str | None, FileRef]
"""Whose file, None on a SHARED table, and which."""


@dataclass
class Filing:
    """What a change brings along, for one scope.

    `target` gives the scope of any user that it touches, and `open_target` the same, refused while that scope is being moved.
    `noted` is the key of the registry's note of the scope, where this change was the first to make it.
    """

    user: str | None
    files: Sequence[tuple[FileRef, bytes]]
    target: Callable[[str | None], ScopeTarget]
    open_target: Callable[[str | None], ScopeTarget]
    noted: str | None = None
    _stored: ScopeTarget | None = field(default=None, init=False)

    def store(self) -> None:
        """Stores the files, once. Where that fails, none stays.

        Raises:
            Conflict: the scope is being moved, or was moved meanwhile; a move that begins later takes the files along.
        """
        if not self.files or self._stored is not None:
            return
        self._stored = here = self.open_target(self.user)
        try:
            store_files(here, self.files)
            if self.open_target(self.user).location != here.location:
                raise Conflict(f"{here.scope} was moved while its files were stored; write the rows again")
        except LakewardenError:
            self.undo()
            raise

    def undo(self) -> None:
        """The rows were refused."""
        if self._stored is not None:
            _remove(self._stored, [ref for ref, _ in self.files])

    def settle(self, before: Iterable[Held], after: Iterable[Held]) -> None:
        """The rows are written: removes what they referred to before and do not after, and what was brought for none."""
        own = [(self.user, ref) for ref, _ in self.files] if self._stored is not None else []
        kept = {(user, ref.path) for user, ref in after}
        gone: dict[str | None, list[FileRef]] = {}
        for user, ref in (*before, *own):
            if (user, ref.path) not in kept:
                gone.setdefault(user, []).append(ref)
        for user, refs in gone.items():
            _remove(self.target(user), refs)


def _remove(target: ScopeTarget, refs: Sequence[FileRef]) -> None:
    with suppress(StorageUnavailable, StorageRefused):  # the rows are as they should be; a vacuum takes what is left
        remove_files(target, refs)
