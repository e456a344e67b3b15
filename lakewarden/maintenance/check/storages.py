"""Checks that a storage is the one that the catalog means, and that it serves what it has to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from lakewarden.base.clock import random_id
from lakewarden.base.connection import Location
from lakewarden.catalog.model import Catalog, Storage
from lakewarden.errors import LakewardenError, NotFound, StorageUnavailable
from lakewarden.maintenance.check.scope import Finding
from lakewarden.storage.buckets import find_uploads
from lakewarden.storage.open import open_store
from lakewarden.storage.owner import confirm
from lakewarden.storage.probe import probe
from lakewarden.tables.warehouse import Warehouse


def storages_named(catalog: Catalog, storage_id: str | None) -> dict[str, Storage]:
    """All storages, or the named one.

    Raises:
        NotFound: the storage does not exist.
    """
    if storage_id is not None and storage_id not in catalog.storages:
        raise NotFound(f"there is no storage {storage_id!r}; the storages are {', '.join(catalog.storages)}")
    return {id_: storage for id_, storage in catalog.storages.items() if storage_id in (None, id_)}


@dataclass(frozen=True)
class CheckedStorage:
    """The findings on a storage. One that is away has one, and its scopes are not looked at."""

    id: str
    findings: tuple[Finding, ...]
    away: bool = False

    def without(self, scopes: int) -> tuple[Finding, ...]:
        """The findings, where so many of its scopes were left out."""
        if not self.away or not scopes:
            return self.findings
        (found,) = self.findings
        return (replace(found, message=f"{found.message}; its {scopes} scopes were not looked at"),)


def check_storage(warehouse: Warehouse, storage: Storage) -> CheckedStorage:
    subject, place = f"storage {storage.id}", warehouse.location(storage)
    try:
        confirm(warehouse.root(storage))  # an empty mount point is not tried
    except LakewardenError as error:
        why = error.message.removeprefix(f"storage {storage.id!r}: ")  # as the subject says
        return CheckedStorage(storage.id, (Finding(subject, "identity", False, error.code, why),), away=True)
    try:
        probe(open_store(place), random_id)
    except LakewardenError as error:
        failed = Finding(subject, "reachable", False, error.code, error.message)
        return CheckedStorage(storage.id, (failed,), away=isinstance(error, StorageUnavailable))  # else it can be read
    identity = [Finding(subject, "identity", True)] if storage.identity else []
    uploads = _uploads(place, warehouse.clock())
    unfinished = [Finding(subject, "uploads", True, message=uploads)] if uploads else []
    return CheckedStorage(storage.id, (*identity, Finding(subject, "reachable", True), *unfinished))


def _uploads(place: Location, now: datetime) -> str:
    """Other writers leave them, and so does a checkpoint that was cut off: reported, but not a failure."""
    found, unknown = find_uploads(place)
    if not found:
        return unknown
    oldest = now - min(upload.begun for upload in found)
    return (
        f"{len(found)} uploads below {place} were never completed, the oldest {oldest.total_seconds() / 3600:.1f} hours"
        " ago; give the bucket a lifecycle rule that ends them (AbortIncompleteMultipartUpload)"
    )
