"""Files of FILE columns: objects below `_files/` beside a scope's table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from lakewarden.errors import Corrupt, NotFound
from lakewarden.rows.files import FileRef
from lakewarden.storage.objects import AlreadyThere, Missing
from lakewarden.storage.open import open_store
from lakewarden.storage.owner import RECENT_SECONDS, confirm
from lakewarden.target import ScopeTarget


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


def load_file(target: ScopeTarget, ref: FileRef) -> bytes:
    """Raises:
    NotFound: it was removed.
    Corrupt: the bytes are not those that were stored.
    """
    try:
        data = open_store(target.location).get(ref.path)
    except Missing as error:
        _confirm(target)
        raise NotFound(f"the file {ref.name!r} of {target.scope} was removed") from error
    if hashlib.sha256(data).hexdigest() != ref.sha256:
        raise Corrupt(f"the file {ref.name!r} of {target.scope} does not have the checksum that its row records")
    return data


def remove_files(target: ScopeTarget, refs: Iterable[FileRef]) -> None:
    open_store(target.location).delete([ref.path for ref in refs])
