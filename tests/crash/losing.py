"""A disk whose n-th sync fails. Linux then forgets that there was anything to write: the next sync succeeds and saves nothing."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest


@dataclass
class LosingDisk:
    """Counts the syncs below `root` and lets one of them fail."""

    root: Path
    fails_at: int
    syncs: int = 0
    what: str = ""
    """What the sync that failed was of."""
    _names: dict[Path, set[str]] = field(default_factory=dict)
    """What each directory held when it was last synced."""
    _whole: set[tuple[int, int]] = field(default_factory=set)
    """The files that are as they were when they were last synced: a further sync of theirs has nothing to lose."""
    _lost_names: list[Path] = field(default_factory=list)
    _lost_files: list[int] = field(default_factory=list)
    """Kept open, since a file may have another name by then, or none."""

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Everything that lies there now counts as durable."""
        self._all_durable()
        with pytest.MonkeyPatch.context() as patch:
            sync = os.fsync

            def losing(descriptor: int) -> None:
                self._sync(descriptor)
                sync(descriptor)

            patch.setattr(os, "fsync", losing)
            patch.setattr(ctypes, "CDLL", lambda *_, **__: _Library(self))
            yield

    @property
    def failed(self) -> bool:
        return self.syncs > self.fails_at

    def crash(self) -> None:
        """Takes what the failed sync was for from the disk."""
        for path in self._lost_names:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        for descriptor in self._lost_files:
            os.close(os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_TRUNC))
            os.close(descriptor)

    def sync_file_system(self) -> int:
        """As `syncfs` answers. Of one that failed, any part may have reached the disk."""
        if not self._fails("the file system"):
            self._all_durable()
            return 0
        reached = Random(self.fails_at)
        for directory, folders, files in os.walk(self.root):
            place = Path(directory)
            new = {*folders, *files} - self._names.get(place, set())
            self._lost_names += [place / name for name in sorted(new) if reached.random() < 0.3]
            torn = [place / name for name in sorted(files) if _state((place / name).stat()) not in self._whole]
            self._lost_files += [os.open(path, os.O_RDONLY) for path in torn if reached.random() < 0.5]
        ctypes.set_errno(errno.EIO)
        return -1

    def _sync(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if not path.is_relative_to(self.root):
            return
        if self._fails(str(path)):
            if path.is_dir():
                self._lost_names += [path / name for name in _names_in(path) - self._names.get(path, set())]
            elif _state(os.fstat(descriptor)) not in self._whole:
                self._lost_files.append(os.dup(descriptor))
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        if path.is_dir():
            self._names[path] = _names_in(path)
        else:
            self._whole.add(_state(os.fstat(descriptor)))

    def _fails(self, what: str) -> bool:
        self.syncs += 1
        if self.syncs - 1 == self.fails_at:
            self.what = what
        return self.syncs - 1 == self.fails_at

    def _all_durable(self) -> None:
        for directory, folders, files in os.walk(self.root):
            place = Path(directory)
            self._names[place] = {*folders, *files}
            self._whole.update(_state((place / name).stat()) for name in files)


class _Library:
    """The C library as `ctypes` shows it, where all that is called of it is `syncfs`."""

    def __init__(self, disk: LosingDisk) -> None:
        self.syncfs = lambda _descriptor: disk.sync_file_system()


def _names_in(directory: Path) -> set[str]:
    return {entry.name for entry in directory.iterdir()}


def _state(status: os.stat_result) -> tuple[int, int]:
    return status.st_ino, status.st_mtime_ns
