"""Finds what is kept of a scope's newest version, looked at and compared with what else is known."""

from __future__ import annotations

from collections.abc import Iterator

from lakewarden.catalog.state.floor_entries import NOTHING
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.kept.look import is_current
from lakewarden.delta.kept.memory import KEPT_TEXTS, KEPT_VERSIONS
from lakewarden.delta.kept.signature import verified
from lakewarden.delta.snapshot import Snapshot
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import Missing
from lakewarden.storage.open import open_store

NAME = "manifest.json"
"""The object beside the table that holds it (delta/manifest.py)."""


def kept_snapshot(target: ScopeTarget, *, newest: bool) -> Snapshot | None:
    """Returns the scope's version by what is kept of it, after a look at its commit; None where the table has to be opened.

    Args:
        newest: as in `is_current`. Without it, a newer version may exist: a commit on this one is refused then.
    """
    if not target.manifest_key or _is_new(target):
        return None
    for snapshot in _versions(target):
        if not _is_less(snapshot, target) and is_current(target.location, snapshot, newest=newest):
            return snapshot
    return None


def _versions(target: ScopeTarget) -> Iterator[Snapshot]:
    """What is kept: in this process, of a scope with very many files; otherwise in the manifest."""
    if (remembered := KEPT_VERSIONS.get(target.manifest_key)) is not None:
        yield remembered
    for text in _texts(target):
        if (snapshot := verified(text, target.manifest_key, target.app_id)) is not None:
            yield snapshot


def _texts(target: ScopeTarget) -> Iterator[bytes]:
    """The manifest as this process remembers it, and, if that is not used, the one that is there."""
    remembered = KEPT_TEXTS.get(target.uri)
    if remembered is not None:
        yield remembered
    try:
        text = open_store(target.location).get(NAME)
    except Missing:
        return
    if text != remembered:
        yield text


def _is_new(target: ScopeTarget) -> bool:
    """Whether nothing has to be looked for on an object store: as far as is known, no flush has committed yet."""
    return target.floor is not None and target.known is None and local_path(target.uri) is None


def _is_less(snapshot: Snapshot, target: ScopeTarget) -> bool:
    """Whether more than this is known of the scope. Opening finds out which of the two is wrong."""
    known = target.known
    if known is None or known.forgotten:
        return False
    watermark = NOTHING if snapshot.watermark is None else snapshot.watermark
    return snapshot.version < known.version or watermark < known.watermark
