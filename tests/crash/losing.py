"""A disk whose n-th sync fails. Linux then forgets that there was anything to write: the next sync succeeds and saves nothing."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest


@dataclass
class LosingDisk:
    """Counts the syncs below `root` and lets one of them fail."""

    root: Path
    fails_at: int
    syncs: int = 0
    what: str = ""
    """The path whose sync failed."""
    _names: dict[str, set[str]] = field(default_factory=dict)
    """What each directory held when it was last synced."""
    _synced: set[tuple[int, int]] = field(default_factory=set)
    """The files that are as they were when they were last synced: a further sync of theirs has nothing to lose."""
    _lost_names: list[Path] = field(default_factory=list)
    _lost_file: int | None = None
    """The file whose sync failed: kept open, since it may have another name by then, or none."""

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Everything that lies there now counts as durable."""
        self._names = {directory: {*folders, *files} for directory, folders, files in os.walk(self.root)}
        self._synced = {_state(Path(above, name).stat()) for above, names in self._names.items() for name in names}
        with pytest.MonkeyPatch.context() as patch:
            sync = os.fsync

            def losing(descriptor: int) -> None:
                self._before(descriptor)
                sync(descriptor)

            patch.setattr(os, "fsync", losing)
            yield

    @property
    def failed(self) -> bool:
        return self.syncs > self.fails_at

    def crash(self) -> None:
        """Takes what the failed sync was for from the disk."""
        for path in self._lost_names:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        if self._lost_file is not None:
            os.close(os.open(f"/proc/self/fd/{self._lost_file}", os.O_WRONLY | os.O_TRUNC))
            os.close(self._lost_file)

    def _before(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if not path.is_relative_to(self.root):
            return
        self.syncs += 1
        if self.syncs - 1 == self.fails_at:
            self._lose(descriptor, path)
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        self._synced.add(_state(os.fstat(descriptor)))
        if path.is_dir():
            self._names[str(path)] = _names_in(path)

    def _lose(self, descriptor: int, path: Path) -> None:
        self.what = str(path)
        if path.is_dir():
            self._lost_names += [path / name for name in _names_in(path) - self._names.get(str(path), set())]
        elif _state(os.fstat(descriptor)) not in self._synced:
            self._lost_file = os.dup(descriptor)


def _state(of: os.stat_result) -> tuple[int, int]:
    return of.st_ino, of.st_mtime_ns


def _names_in(directory: Path) -> set[str]:
    return {entry.name for entry in directory.iterdir()}
