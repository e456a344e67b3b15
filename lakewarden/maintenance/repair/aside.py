"""Puts damaged objects aside: a repair deletes nothing that it takes out of a scope's table.

They are moved to `_quarantine/<job id>/` in the scope's own directory. Delta readers and vacuums skip that directory. An
erasure removes it with the rest of the scope, and the search after an erasure looks into it.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from lakewarden.base.connection import Location
from lakewarden.delta.failures import delta_errors
from lakewarden.errors import Conflict
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import Missing
from lakewarden.storage.open import open_store

QUARANTINE = "_quarantine"


def put_aside(location: Location, names: Iterable[str], job_id: str) -> tuple[str, ...]:
    """Moves objects of a scope into the quarantine of this job; returns their names there. Objects already gone are skipped.

    Raises:
        Conflict: an object changed while it was moved; it is at its old place.
    """
    root = local_path(location.uri)
    moved = (_renamed(root, name, job_id) if root is not None else _copied(location, name, job_id) for name in names)
    return tuple(name for name in moved if name)


def quarantined(name: str, job_id: str) -> str:
    return f"{QUARANTINE}/{job_id}/{name}"


def _renamed(root: Path, name: str, job_id: str) -> str:
    """Renames, then checks what was renamed: another process may have put a sound commit there since it was read."""
    source, target = root / name, root / quarantined(name, job_id)
    with delta_errors(f"cannot put {source} aside"):
        try:
            before = sha256(source.read_bytes()).digest()
        except FileNotFoundError:
            return ""
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
        # Another process may have put a sound commit under the name between the read and the rename.
        if sha256(target.read_bytes()).digest() != before:
            # By a link, which fails where the name is taken by now: a rename would overwrite what is there.
            source.hardlink_to(target)
            target.unlink()
            raise Conflict(f"{source} changed while it was put aside; repair again")
    return quarantined(name, job_id)


def _copied(location: Location, name: str, job_id: str) -> str:
    """Objects of a bucket never change under their name, so it copies and deletes."""
    store = open_store(location)
    try:
        data = store.get(name)
    except Missing:
        return ""
    # First the copy, then the deletion: a crash in between leaves both.
    store.write(quarantined(name, job_id), data)
    store.delete([name])
    return quarantined(name, job_id)
