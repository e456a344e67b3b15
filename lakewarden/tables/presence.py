"""Which storages of a job are present. Without this check, an unmounted disk looks like an empty storage: rows would be
flushed into its mount point, and an erasure would find nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from lakewarden.base.connection import StorageRoot
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.commits import CommitLog
from lakewarden.errors import LakewardenError, StorageUnavailable
from lakewarden.storage.location import local_path
from lakewarden.storage.open import open_store
from lakewarden.storage.owner import confirm, device_of
from lakewarden.tables.fanout import failed_report


@dataclass(frozen=True)
class Presence:
    """The storages of one job as one look found them; never cached."""

    devices: Mapping[StorageRoot, int | None]
    """The device of each present storage that is a directory."""
    away: Mapping[StorageRoot, LakewardenError]
    """Why the other storages cannot be used."""

    @classmethod
    def of(cls, targets: Iterable[ScopeTarget], proven: Collection[StorageRoot] = ()) -> Presence:
        return cls.among({target.root for target in targets if target.root is not None}, proven)

    @classmethod
    def among(cls, roots: Iterable[StorageRoot], proven: Collection[StorageRoot] = ()) -> Presence:
        """The storages in `proven` were just shown to be present by something other than their markers."""
        devices: dict[StorageRoot, int | None] = {}
        away: dict[StorageRoot, LakewardenError] = {}
        for root in roots:
            try:
                if root not in proven:
                    confirm(root)
                devices[root] = device_of(root)
            except LakewardenError as error:
                away[root] = error
        return cls(devices, away)

    def again(self) -> Presence:
        """Looks again at the storages that were present. Another device under the same name is another storage: what was
        written meanwhile may be hidden below it."""
        now = Presence.among(self.devices)
        swapped = {root: _swapped(root) for root, device in now.devices.items() if device != self.devices[root]}
        return Presence({root: device for root, device in now.devices.items() if root not in swapped}, {**now.away, **swapped})

    def check(self) -> None:
        """Raises:
        StorageUnavailable, StorageRefused, Corrupt: a storage is away.
        """
        for error in self.away.values():
            raise error

    def why_not(self, target: ScopeTarget) -> LakewardenError | None:
        """Returns why the scope cannot be worked on."""
        return None if target.root is None else self.away.get(target.root)

    def judged(self, target: ScopeTarget, operation: Operation, report: ScopeReport, now: datetime) -> ScopeReport:
        """The report, or a failed one if the scope's storage was away at some moment, since then its result is uncertain."""
        error = self.why_not(target) or _missed(target, report)
        return report if error is None or report.fault else failed_report(target, operation, error, now)


def _missed(target: ScopeTarget, report: ScopeReport) -> StorageUnavailable | None:
    """Whether a commit went into the mount point of a disk that was away and is back: checks one name, on disks only."""
    if report.outcome != "done" or report.version is None or target.root is None or local_path(target.uri) is None:
        return None
    if CommitLog(open_store(target.location)).has(report.version):
        return None
    return StorageUnavailable(
        f"version {report.version} of {target.scope} was committed and is not at {target.uri}: was storage"
        f" {target.root.storage_id!r} unmounted meanwhile? try again"
    )


def _swapped(root: StorageRoot) -> StorageUnavailable:
    return StorageUnavailable(
        f"another file system was mounted at {root.location} while storage {root.storage_id!r} was written to; try again"
    )
