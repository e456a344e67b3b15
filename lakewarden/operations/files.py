"""Files of FILE columns as objects below `_files/` beside a scope's table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from lakewarden.errors import Corrupt, NotFound
from lakewarden.report import ScopeTarget
from lakewarden.rows.files import FILES, FileRef
from lakewarden.storage.objects import Missing
from lakewarden.storage.open import open_store


def store_files(target: ScopeTarget, files: Iterable[tuple[FileRef, bytes]]) -> None:
    """Stores files that nothing refers to yet."""
    store = open_store(target.location)
    for ref, data in files:
        store.create(ref.path, data)


def load_file(target: ScopeTarget, ref: FileRef) -> bytes:
    """Raises:
    NotFound: it was removed.
    Corrupt: these are not the bytes that were stored.
    """
    try:
        data = open_store(target.location).get(ref.path)
    except Missing as error:
        raise NotFound(f"the file {ref.name!r} of {target.scope} was removed") from error
    if hashlib.sha256(data).hexdigest() != ref.sha256:
        raise Corrupt(f"the file {ref.name!r} of {target.scope} has not the checksum that its row says")
    return data


def remove_files(target: ScopeTarget, refs: Iterable[FileRef]) -> None:
    open_store(target.location).delete([ref.path for ref in refs])


def remove_every_file(target: ScopeTarget) -> None:
    """All of a scope's files."""
    store = open_store(target.location)
    store.delete([entry.key for entry in store.list(FILES)])
