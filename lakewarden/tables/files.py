"""Files of FILE columns: objects below `_files/` beside a scope's table."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.model import TableSchema
from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import (
    Conflict,
    ConstraintViolation,
    Corrupt,
    LakewardenError,
    NotFound,
    StorageRefused,
    StorageUnavailable,
)
from lakewarden.log.record import USER, LogBatch
from lakewarden.storage.objects import AlreadyThere, Missing
from lakewarden.storage.open import open_store
from lakewarden.storage.owner import RECENT_SECONDS, confirm
from lakewarden.tables.rows.files import FileRef, Files
from lakewarden.tables.strong_read import where_it_lies

PIECE = 2 << 20
"""Bytes that are read at once."""


def store_file(target: ScopeTarget, ref: FileRef, data: bytes) -> bool:
    """Stores a file; returns False where it is already there, as after a repeated import: no id is given out twice."""
    _confirm(target)
    try:
        open_store(target.location).create(ref.path, data)
    except AlreadyThere:
        return False
    return True


def _confirm(target: ScopeTarget) -> None:
    """Raises StorageUnavailable: the scope's storage is not present."""
    if target.root is not None:
        confirm(target.root, RECENT_SECONDS)


@dataclass(frozen=True)
class StoredFile:
    """A stored file. `data` is all of a small one, and the first piece of another one."""

    ref: FileRef
    target: ScopeTarget
    data: bytes

    def pieces(self) -> Iterator[bytes]:
        """All of it. The last piece comes after the checksum: who has it has the file as it was stored.

        Raises:
            NotFound: it was removed meanwhile.
            Corrupt: the bytes are not those that were stored.
        """
        digest, piece = hashlib.sha256(self.data), self.data
        for start in range(len(piece), self.ref.size, PIECE):
            yield piece
            piece = _piece(self.target, self.ref, start)
            if len(piece) != min(PIECE, self.ref.size - start):
                raise Corrupt(f"the file {self.ref.name!r} of {self.target.scope} became another one while it was read")
            digest.update(piece)
        if digest.hexdigest() != self.ref.sha256:
            raise Corrupt(f"the file {self.ref.name!r} of {self.target.scope} does not have the checksum that its row records")
        yield piece


def open_file(target: ScopeTarget, ref: FileRef) -> StoredFile:
    """Raises NotFound: it was removed, or has another size than its reference says."""
    data = _piece(target, ref, 0)
    whole = len(data) == ref.size if ref.size <= PIECE else open_store(target.location).is_whole(ref.path, ref.size)
    if not whole:
        raise NotFound(f"the file {ref.name!r} of {target.scope} does not have the {ref.size:,} bytes that its row records")
    return StoredFile(ref, target, data)


def check_reference(target: ScopeTarget, ref: FileRef) -> None:
    """Reads the whole file.

    Raises:
        ConstraintViolation: the scope has no such file: of this path, size and checksum.
    """
    try:
        for _ in open_file(target, ref).pieces():
            pass
    except (NotFound, Corrupt) as error:
        raise ConstraintViolation(
            f"{ref.text[:80]!r} does not refer to a file of {target.scope}: {error.message}; a FILE column takes a reference that"
            " the same scope shows, or an upload"
        ) from error


def _piece(target: ScopeTarget, ref: FileRef, start: int) -> bytes:
    store = open_store(target.location)
    try:
        return store.get_range(ref.path, start, PIECE) if ref.size > PIECE else store.get(ref.path)
    except Missing as error:
        _confirm(target)
        raise NotFound(f"the file {ref.name!r} of {target.scope} was removed") from error


# The files of one change of rows: stored before the rows that refer to them, removed after the last row that did.
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

    def settle(self, before: Collection[Held], after: Iterable[Held]) -> None:
        """Completes the change: removes files that the rows no longer refer to, and new ones that no row took."""
        if not (before or self._stored):
            return
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
        open_store(target.location).delete([ref.path for ref in refs])


# Checks references to files that rows bring against the files: a reference is text, which anybody can write.
Targets = Callable[[str | None], ScopeTarget]
"""The scope of a user; of a SHARED table, of None."""


def texts_of(rows: pa.Table, columns: Iterable[str]) -> frozenset[str]:
    """The references in these columns, as their rows have them."""
    present = (pc.unique(rows.column(name)).to_pylist() for name in columns if name in rows.column_names)
    return frozenset(text for texts in present for text in texts if text is not None)


def check_rows(schema: TableSchema, rows: pa.Table, user: str | None, targets: Targets, known: Collection[str] = ()) -> None:
    """
    Args:
        user: whose rows they are; None on a SHARED table.
        known: references that need no look: those of live rows, or to files that are stored with the rows.

    Raises:
        ConstraintViolation: a row refers to no file of its scope.
    """
    for text in texts_of(rows, schema.of_files).difference(known):
        ref = FileRef.parse(text)
        where_it_lies(partial(targets, user), partial(_checked, ref))


def _checked(ref: FileRef, target: ScopeTarget) -> tuple[None, bool]:
    check_reference(target, ref)
    return None, True


def check_batch(schema: TableSchema, batch: LogBatch, targets: Targets, known: Collection[str] = ()) -> None:
    """As `check_rows`, for rows of any users."""
    if not texts_of(batch.rows, schema.of_files).difference(known):
        return
    users = batch.rows.column(USER)
    for user in users.unique():
        check_rows(schema, batch.rows.filter(pc.equal(users, user)), user.as_py() or None, targets, known)
