"""What this process knows of the scopes that it wrote last. Whatever it says is looked at all the same before it is used."""

from __future__ import annotations

from lakewarden.base.recent import Recent
from lakewarden.delta.snapshot import MOST_KEPT, Snapshot

_MOST_BYTES = 64 << 20
"""Bytes of manifests; that of a small scope has two thousand."""

KEPT_TEXTS: Recent[str, bytes] = Recent(_MOST_BYTES)
"""The manifests that this process wrote last on object stores, by the scope's URI, which saves reading them again."""

KEPT_VERSIONS: Recent[str, Snapshot] = Recent(MOST_KEPT)
"""Versions with too many files for a manifest to list them, by the key that their manifest would be signed with."""
