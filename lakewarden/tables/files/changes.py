"""The files of one change of rows: stored before the rows that refer to them, removed after the last row that did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import Conflict, LakewardenError, StorageRefused, StorageUnavailable
from lakewarden.tables.files.objects import remove_files, store_file
from lakewarden.tables.rows.files import FileRef, Files

Held = tuple[str | None, FileRef]
"""The user of a file (None on a SHARED table) and its reference."""


@dataclass
class Filing:
    """The files of a change in one scope; `target` gives the scope of any user that it touches.

    `open_target` gives the scope's own while files may be stored there, and raises `Conflict` while it is being moved.
    `noted` is the key of the registry's entry for the scope, where this change created it.
    """

    user: str | None
    files: Files
    target: Callable[[str | None], ScopeTarget]
    open_target: Callable[[], ScopeTarget]
    noted: str | None = None
    _place: ScopeTarget | None = field(default=None, init=False)
    """Where the files were stored."""
    _stored: list[FileRef] = field(default_factory=list, init=False)
    """The files that were not there before."""

    def store(self) -> None:
        """Stores the files, once. If that fails, none stays.

        Raises:
            Conflict: the scope is being moved, or was meanwhile.
        """
        if self.files and self._place is None:
            place = self._place = self.open_target()
            try:
                for ref, data in self.files:
                    if store_file(place, ref, data()):
                        self._stored.append(ref)
                if self.open_target().location != place.location:  # a move that is not seen here copies them
                    raise Conflict(f"{place.scope} was moved while its files were stored; store them again")
            except LakewardenError:
                self.undo()
                raise

    def undo(self) -> None:
        """Undoes the change: the rows were refused."""
        if self._place is not None:
            _remove(self._place, self._stored)

    def settle(self, before: Iterable[Held], after: Iterable[Held]) -> None:
        """Completes the change: removes files that the rows no longer refer to, and new ones that no row took."""
        own = [(self.user, ref) for ref in self._stored]
        kept = {(user, ref.path) for user, ref in after}
        gone: dict[str | None, list[FileRef]] = {}
        for user, ref in (*before, *own):
            if (user, ref.path) not in kept:
                gone.setdefault(user, []).append(ref)
        for user, refs in gone.items():
            _remove(self.target(user), refs)


def _remove(target: ScopeTarget, refs: Sequence[FileRef]) -> None:
    with suppress(StorageUnavailable, StorageRefused):  # the rows are right; a vacuum removes what is left
        remove_files(target, refs)
