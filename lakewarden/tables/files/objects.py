"""Files of FILE columns: objects below `_files/` beside a scope's table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import ConstraintViolation, Corrupt, NotFound
from lakewarden.storage.objects import AlreadyThere, Missing
from lakewarden.storage.open import open_store
from lakewarden.storage.owner import RECENT_SECONDS, confirm
from lakewarden.tables.rows.files import FileRef

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
    """Raises:
    StorageUnavailable: the scope's storage is not present.
    """
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
    """Raises:
    NotFound: it was removed, or has another size than its reference says.
    """
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


def remove_files(target: ScopeTarget, refs: Iterable[FileRef]) -> None:
    open_store(target.location).delete([ref.path for ref in refs])
