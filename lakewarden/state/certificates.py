"""Certificates: what an erasure removed and what was searched afterwards, with the user's keyed hash in place of the id."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

from lakewarden.errors import Corrupt
from lakewarden.state.erasures import ROOT, ErasedTable
from lakewarden.storage.objects import ObjectStore


@dataclass(frozen=True)
class Certificate:
    """One attempt's, with the counts of all attempts. `user` is the keyed hash; times are ISO 8601 in UTC."""

    id: str
    erasure: str
    """Id of the erasure: that of its first attempt."""
    user: str
    asked_by: str
    result: Literal["complete", "failed"]
    tables: tuple[ErasedTable, ...]
    exports: int
    """Exports that were removed."""
    jobs: int
    """States of jobs in which the id became the keyed hash."""
    audit: int
    """Entries of the audit log in which it did."""
    old_versions: int
    """Old versions of objects that were removed from a versioned bucket."""
    to_do: str
    """What remains to be done by hand, and how; empty where nothing is."""
    deep: bool
    objects_searched: int
    bytes_searched: int
    objects_read: int
    checksum: str
    """SHA-256 over the names and sizes of all that was searched."""
    coincidences: int
    """Objects of others in which the id stands as a value."""
    findings: tuple[str, ...]
    """What was found of the user; empty where nothing was."""
    started_at: str
    finished_at: str
    uploads: int = 0
    """Uploads to the user's places, the log's and the exports' that nobody had ended; they were given up."""
    unseen: str = ""
    """What no look could reach, and what becomes of it; empty where there is nothing of the kind."""


def keep_certificate(store: ObjectStore, certificate: Certificate) -> None:
    text = json.dumps(asdict(certificate), ensure_ascii=False, indent=1)
    store.create(f"{ROOT}/{certificate.id}.json", text.encode())


def certificates(store: ObjectStore) -> list[Certificate]:
    """All of them, oldest first.

    Raises:
        Corrupt: one cannot be read.
    """
    keys = [found.key for found in store.list(ROOT) if found.key.endswith(".json")]
    return [_decoded(key, store.get(key)) for key in keys]


def _decoded(key: str, data: bytes) -> Certificate:
    try:
        said = json.loads(data)
        tables = tuple(ErasedTable(**table) for table in said["tables"])
        return Certificate(**{**said, "tables": tables, "findings": tuple(said["findings"])})
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"{key} is no certificate: {data[:80]!r}") from error
