"""Checks that a storage is the one that the catalog means, and that it serves what it has to."""

from __future__ import annotations

from datetime import datetime

from lakewarden.catalog.model import Catalog, Storage
from lakewarden.clock import random_id
from lakewarden.connection import Location
from lakewarden.errors import LakewardenError, NotFound
from lakewarden.operations.check.scope import Finding
from lakewarden.storage.open import open_store
from lakewarden.storage.owner import confirm
from lakewarden.storage.probe import probe
from lakewarden.storage.uploads import find_uploads
from lakewarden.warehouse import Warehouse


def storages_named(catalog: Catalog, storage_id: str | None) -> dict[str, Storage]:
    """All storages, or the named one.

    Raises:
        NotFound: the storage does not exist.
    """
    if storage_id is not None and storage_id not in catalog.storages:
        raise NotFound(f"there is no storage {storage_id!r}; the storages are {', '.join(catalog.storages)}")
    return {id_: storage for id_, storage in catalog.storages.items() if storage_id in (None, id_)}


def check_storage(warehouse: Warehouse, storage: Storage) -> list[Finding]:
    subject, place = f"storage {storage.id}", warehouse.location(storage)
    try:
        confirm(warehouse.root(storage))  # an empty mount point is not tried
    except LakewardenError as error:
        return [Finding(subject, "identity", False, error.code, error.message)]
    try:
        probe(open_store(place), random_id)
    except LakewardenError as error:
        return [Finding(subject, "reachable", False, error.code, error.message)]
    identity = [Finding(subject, "identity", True)] if storage.identity else []
    uploads = _uploads(place, warehouse.clock())
    unfinished = [Finding(subject, "uploads", True, message=uploads)] if uploads else []
    return [*identity, Finding(subject, "reachable", True), *unfinished]


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
