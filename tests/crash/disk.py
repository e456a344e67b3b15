"""Small file systems in a file, whose power can be cut.

The ioctl is what xfstests' `godown` does on ext4 and xfs: from that instant on nothing reaches the disk any more, and the
journal is not flushed. What was written and not synced is there or not, as the kernel happened to write it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_SHUTDOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN are the same number."""

_WITHOUT_FLUSHING_THE_JOURNAL = struct.pack("I", 2)

_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_MEMORY = Path("/dev/shm")  # a device in memory: what is lost is decided by the file system above it
_ROOM = 2 << 30

_EXT4 = ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", "-J", "size=4")


class NoDisk(Exception):
    """No such file system can be made here; says why."""


@dataclass(frozen=True)
class FileSystem:
    make: tuple[str, ...]
    megabytes: int
    options: str


FILE_SYSTEMS = {
    "ext4-ordered": FileSystem(_EXT4, 128, "loop,data=ordered"),
    "ext4-writeback": FileSystem(_EXT4, 128, "loop,data=writeback"),
    # blocks are given out at once here, so that a file may have its size and none of its bytes
    "ext4-writeback-nodelalloc": FileSystem(_EXT4, 128, "loop,data=writeback,nodelalloc"),
    "xfs": FileSystem(("mkfs.xfs", "-q", "-f"), 320, "loop"),  # mkfs refuses less than 300 MB
}


@dataclass(frozen=True)
class Disk:
    """An image and where it is mounted."""

    image: Path
    mounted: Path
    file_system: FileSystem

    def remount(self) -> None:
        """As after a start of the machine: nothing is left of what the kernel had in memory."""
        self.unmount()
        self.mount()

    def mount(self) -> None:
        _run("mount", "-o", self.file_system.options, str(self.image), str(self.mounted))

    def unmount(self) -> None:
        _run("umount", str(self.mounted))


@contextmanager
def formatted(kind: str, below: Path) -> Iterator[Disk]:
    """A new file system, mounted.

    Raises:
        NoDisk: not root, no loop devices, or no tools for this file system.
    """
    file_system = FILE_SYSTEMS[kind]
    disk = Disk(below / "disk.img", below / "mounted", file_system)
    disk.mounted.mkdir()
    with disk.image.open("wb") as image:
        image.truncate(file_system.megabytes << 20)
    _run(*file_system.make, str(disk.image))
    disk.mount()
    try:
        yield disk
    finally:
        with suppress(NoDisk):
            disk.unmount()
        disk.image.unlink()
        disk.mounted.rmdir()


def room(otherwise: Path) -> Path:
    """Where images are best: in memory, where there is enough of it."""
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM
    return _MEMORY if roomy else otherwise


def cut(descriptor: int) -> None:
    """Cuts the power of the file system that this descriptor is on."""
    fcntl.ioctl(descriptor, _SHUTDOWN, _WITHOUT_FLUSHING_THE_JOURNAL)


def _run(*words: str) -> None:
    if os.geteuid() != 0:
        raise NoDisk("only root can mount")
    program = shutil.which(words[0], path=_PATH)
    if program is None:
        raise NoDisk(f"there is no {words[0]}")
    done = subprocess.run([program, *words[1:]], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoDisk(f"{' '.join(words)}: {done.stderr.strip()}")
