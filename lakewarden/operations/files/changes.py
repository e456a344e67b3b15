"""The files of one change of rows: there before the rows that refer to them, gone with those that do so no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from lakewarden.errors import Conflict, LakewardenError, StorageRefused, StorageUnavailable
from lakewarden.operations.files.objects import remove_files, store_file
from lakewarden.rows.files import FileRef, Files
from lakewarden.target import ScopeTarget

Held = tuple[str | None, FileRef]
"""Whose file, None on a SHARED table, and which."""


@dataclass
class Filing:
    """What a change brings along, for one scope; `target` gives the scope of any user that it touches.

    `open_target` gives the scope's own while files may be stored there, and raises `Conflict` while it is being moved.
    `noted` is the key of the registry's note of the scope, where this change was the first to make it.
    """

    user: str | None
    files: Files
    target: Callable[[str | None], ScopeTarget]
    open_target: Callable[[], ScopeTarget]
    noted: str | None = None
    _place: ScopeTarget | None = field(default=None, init=False)
    """Where they were stored."""
    _stored: list[FileRef] = field(default_factory=list, init=False)
    """Those that were not there before."""

    def store(self) -> None:
        """Stores the files, once. Where that fails, none stays.

        Raises:
            Conflict: the scope is being moved, or was meanwhile.
        """
        if self.files and self._place is None:
            place = self._place = self.open_target()
            try:
                for ref, data in self.files:
                    if store_file(place, ref, data()):
                        self._stored.append(ref)
                if self.open_target().location != place.location:  # a move that goes unseen here takes them along
                    raise Conflict(f"{place.scope} was moved while its files were stored; store them again")
            except LakewardenError:
                self.undo()
                raise

    def undo(self) -> None:
        """The rows were refused."""
        if self._place is not None:
            _remove(self._place, self._stored)

    def settle(self, before: Iterable[Held], after: Iterable[Held]) -> None:
        """The rows are written: removes what they referred to before and do not after, and what was brought for none."""
        own = [(self.user, ref) for ref in self._stored]
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
