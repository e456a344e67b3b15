"""Makes everything written to a local disk durable, whichever library wrote it: one call for any number of files."""

from __future__ import annotations

import ctypes
import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from lakewarden.errors import LakewardenError, NotDurable, StorageRefused
from lakewarden.storage.location import local_path


def sync(uris: Iterable[str]) -> None:
    """Makes everything written below these places durable, with one call per file system.

    Object stores need nothing: what they acknowledged is durable.

    Raises:
        NotDurable, StorageRefused: the disk reported an error; what was written may be lost.
    """
    for failure in sync_each(uris).values():
        raise failure


def sync_each(uris: Iterable[str]) -> dict[str, LakewardenError]:
    """Does the same and returns the failures by place, so that a failing disk does not hold back work on another."""
    devices: dict[int, Path] = {}
    below: dict[int, list[str]] = defaultdict(list)
    for uri in uris:
        if (path := local_path(uri)) is not None:
            present = next(above for above in (path, *path.parents) if above.exists())
            device = present.stat().st_dev
            devices.setdefault(device, present)
            below[device].append(uri)
    failed: dict[str, LakewardenError] = {}
    for device, present in devices.items():
        try:
            _sync_file_system(present)
        except LakewardenError as error:
            failed.update(dict.fromkeys(below[device], error))
    return failed


def _sync_file_system(path: Path) -> None:
    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is None:  # not Linux
        os.sync()
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError as error:
        raise StorageRefused(f"cannot sync {path}: this process may not read it") from error
    try:
        if call(descriptor) != 0:
            raise NotDurable(f"cannot sync {path}: {os.strerror(ctypes.get_errno())}; what was written last may be lost")
    finally:
        os.close(descriptor)
