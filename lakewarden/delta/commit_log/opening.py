"""Opens a Delta table, and distinguishes the ways in which it can be missing or damaged."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from deltalake import DeltaTable

from lakewarden.base.connection import Location
from lakewarden.delta.commit_log.commits import commit_name
from lakewarden.delta.commit_log.damage import torn_commits
from lakewarden.delta.commit_log.damaged_checkpoints import mended
from lakewarden.delta.failures import delta_errors
from lakewarden.delta.uri import delta_uri
from lakewarden.errors import Corrupt, NotFound
from lakewarden.storage.clients import OUTAGES
from lakewarden.storage.location import local_path
from lakewarden.storage.meter import count
from lakewarden.storage.open import open_store
from lakewarden.storage.options import delta_options

_NO_FILES = re.compile(r"No files in log segment|does not exist")


@dataclass(frozen=True)
class OpenedTable:
    """A table as it could be opened; `delta` is None where there is none."""

    delta: DeltaTable | None
    torn: int | None = None
    """The version above it whose commit is torn (delta/commit_log/damage.py)."""
    mended: bool = False
    """Whether a checkpoint had to be left out."""


def open_newest(location: Location) -> OpenedTable:
    """The newest version that can be read, below torn commits, and despite checkpoints that can't be read.

    Raises:
        Corrupt: there is no readable Delta table there.
    """
    try:
        table = opened(location, None)
    except NotFound as error:
        check_absent(location.uri, error)
        return OpenedTable(None)
    except Corrupt as error:
        return _despite_damage(location, error)
    if is_empty(location, table.version()):  # which delta-rs takes for a commit that changes nothing
        return _despite_damage(location, Corrupt(f"{location}: the commit of version {table.version()} is empty"))
    return OpenedTable(table)


def open_version(location: Location, version: int) -> OpenedTable:
    """That version; raises as `opened`."""
    if is_empty(location, version):
        raise Corrupt(f"{location}: the commit of version {version} is empty")
    try:
        return OpenedTable(opened(location, version))
    except Corrupt as error:
        return _mended(location, version, error)


def _despite_damage(location: Location, error: Corrupt) -> OpenedTable:
    torn = torn_commits(location, open_store(location))
    if not torn:
        return _mended(location, None, error)
    if torn[0] == 0:
        return OpenedTable(None, torn=0)
    below = open_version(location, torn[0] - 1)
    return OpenedTable(below.delta, torn[0], below.mended)


def _mended(location: Location, version: int | None, error: Corrupt) -> OpenedTable:
    table = mended(location, version)
    if table is None:
        raise error
    return OpenedTable(table, mended=True)


def is_empty(location: Location, version: int) -> bool:
    """Whether a commit on a disk has no byte: torn by a power cut, or below a fence."""
    root = local_path(location.uri)
    try:
        return root is not None and os.stat(f"{root}/{commit_name(version)}").st_size == 0
    except OSError:  # it has left the log, or cannot be looked at, which opening says
        return False


def opened(location: Location, version: int | None) -> DeltaTable:
    """Raises:
    NotFound: there may be no table (`check_absent` says); an unknown version may look the same.
    Corrupt: the table cannot be read.
    """
    what = f"cannot open the Delta table at {location}"
    with OUTAGES.requesting(location, what), delta_errors(what):
        options = delta_options(location, os.environ)
        if local_path(location.uri) is None:
            count("OPEN")
        return DeltaTable(delta_uri(location.uri), version=version, storage_options=options or None)


def check_absent(uri: str, error: NotFound) -> None:
    """Raises unless there is no table at all.

    deltalake says the same of that, of a directory that may not be read, and of an unknown scheme.
    """
    if not _NO_FILES.search(error.message):
        raise Corrupt(error.message) from error
    path = local_path(uri)
    if path is not None:
        with delta_errors(f"cannot open the Delta table at {uri}"):
            if path.exists():
                os.listdir(path)
