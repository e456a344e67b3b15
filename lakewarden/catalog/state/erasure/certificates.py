"""Certificates: what an erasure removed and what was searched afterwards, with the user's keyed hash in place of the id."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

from lakewarden.catalog.state.erasure.erasures import ROOT, ErasedTable
from lakewarden.errors import Corrupt
from lakewarden.storage.objects import ObjectStore


@dataclass(frozen=True)
class Certificate:
    """The certificate of one attempt, with the counts of all attempts. `user` is the keyed hash; times are ISO 8601 in UTC."""

    id: str
    erasure: str
    """The erasure's id: the job id of its first attempt."""
    user: str
    asked_by: str
    result: Literal["complete", "failed"]
    tables: tuple[ErasedTable, ...]
    exports: int
    """The number of removed exports."""
    jobs: int
    """The number of job states in which the keyed hash replaced the id."""
    audit: int
    """The number of such entries of the audit log."""
    old_versions: int
    """The number of old object versions removed from a versioned bucket."""
    to_do: str
    """What remains to be done by hand, and how; empty when nothing does."""
    deep: bool
    objects_searched: int
    bytes_searched: int
    objects_read: int
    checksum: str
    """SHA-256 of the names and sizes of everything that was searched."""
    coincidences: int
    """Objects of other users that contain the id as a value."""
    findings: tuple[str, ...]
    """What was found of the user; empty when nothing was."""
    started_at: str
    finished_at: str
    uploads: int = 0
    """The number of incomplete uploads to the places of the user, the log and the exports, which were aborted."""
    unseen: str = ""
    """What could not be searched, and what becomes of it; empty when there is nothing of the kind."""


def keep_certificate(store: ObjectStore, certificate: Certificate) -> None:
    text = json.dumps(asdict(certificate), ensure_ascii=False, indent=1)
    store.create(f"{ROOT}/{certificate.id}.json", text.encode())


def certificates(store: ObjectStore) -> list[Certificate]:
    """Returns all certificates, oldest first.

    Raises:
        Corrupt: a certificate cannot be read.
    """
    keys = [found.key for found in store.list(ROOT) if found.key.endswith(".json")]
    return [_decoded(key, store.get(key)) for key in keys]


def _decoded(key: str, data: bytes) -> Certificate:
    try:
        said = json.loads(data)
        tables = tuple(ErasedTable(**table) for table in said["tables"])
        return Certificate(**{**said, "tables": tables, "findings": tuple(said["findings"])})
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"{key} is not a certificate: {data[:80]!r}") from error
