"""Reads the objects of a Delta log, none larger than a bound: whoever may write a log decides how long they are."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from lakewarden.base.connection import Location
from lakewarden.delta.replay.paths import check_inside
from lakewarden.errors import Unsupported
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.open import open_store

# Which objects of a Delta log make a version: a checkpoint, and the commits behind it.
#
# Sources: Delta's protocol, "Delta Log Entries", "Checkpoint Naming Scheme", "Log Compaction Files". A compaction is read where a
# commit of its range is not there, and never in place of one that is: like a checkpoint it is derived, and unlike one it saves
# little. Version checksums (`.crc`) are not read: one may be of a commit that was overwritten.

LOG = "_delta_log"
LAST_CHECKPOINT = f"{LOG}/_last_checkpoint"
"""Names the newest checkpoint, so that readers need not look for it."""

SIDECARS = f"{LOG}/_sidecars"

_COMMIT = re.compile(rf"{LOG}/(\d{{20}})\.json")
_CHECKPOINT = re.compile(rf"{LOG}/(\d{{20}})\.checkpoint(?:\.(\d{{10}})\.(\d{{10}})|\.([0-9a-f-]{{36}}))?\.(?:parquet|json)")
_COMPACTION = re.compile(rf"{LOG}/(\d{{20}})\.(\d{{20}})\.compacted\.json")
_NUMBERED = re.compile(rf"{LOG}/(\d{{20}})\.")
_STAGED = f"{LOG}/_staged_commits/"
LAST_VERSION = 2**63 - 1
"""The highest version that Delta can count; a name with a higher one is no commit."""


def commit_name(version: int) -> str:
    return f"{LOG}/{version:020d}.json"


def version_of(name: str) -> int | None:
    """Of which version an object of the log is the commit, or a part of a checkpoint; None for any other."""
    found = _COMMIT.fullmatch(name) or _CHECKPOINT.fullmatch(name)
    return int(found[1]) if found else None


def leading_version(name: str) -> int | None:
    """The version with which the name of an object of the log begins, whatever it is: also a checksum, or one of a later form."""
    found = _NUMBERED.match(name)
    return int(found[1]) if found else None


def checkpoint_name(version: int) -> str:
    """Of a checkpoint in one part."""
    return f"{LOG}/{version:020d}.checkpoint.parquet"


@dataclass(frozen=True)
class CheckpointFiles:
    """A checkpoint all of whose parts are there."""

    version: int
    names: tuple[str, ...]

    @property
    def kind(self) -> str:
        """As Delta's protocol calls its name."""
        if len(self.names) > 1:
            return "multi-part"
        return "classic" if self.names[0] == checkpoint_name(self.version) else "UUID-named"


@dataclass(frozen=True)
class LogFiles:
    """What a listing of a log shows."""

    commits: frozenset[int] = frozenset()
    checkpoints: tuple[CheckpointFiles, ...] = ()
    """The newest first; of one version the one in one part before others."""
    compactions: tuple[tuple[int, int], ...] = ()
    """First and last version of each."""
    staged: tuple[str, ...] = ()
    """Commits that a catalog may have ratified ("Catalog-managed tables")."""
    partial: frozenset[int] = frozenset()
    """Versions with some parts of a checkpoint, and not all."""

    @classmethod
    def of(cls, names: Iterable[str]) -> LogFiles:
        """`names`: of objects, relative to the table."""
        commits, compactions, staged = set[int](), list[tuple[int, int]](), list[str]()
        parts: dict[tuple[int, str], tuple[int, list[str]]] = {}
        for name in names:
            if found := _COMMIT.fullmatch(name):
                commits.add(int(found[1]))
            elif found := _CHECKPOINT.fullmatch(name):
                parts.setdefault((int(found[1]), found[4] or found[3] or ""), (int(found[3] or 1), []))[1].append(name)
            elif found := _COMPACTION.fullmatch(name):
                compactions.append((int(found[1]), int(found[2])))
            elif name.startswith(_STAGED):
                staged.append(name)
        whole = {key: tuple(sorted(several)) for key, (count, several) in parts.items() if len(several) == count}
        ordered = sorted(whole.items(), key=lambda one: (-one[0][0], len(one[1]), one[1]))
        partial = frozenset(version for version, _ in parts.keys() - whole.keys())
        checkpoints = tuple(CheckpointFiles(version, several) for (version, _), several in ordered)
        countable = frozenset(version for version in commits if version <= LAST_VERSION)
        return cls(countable, checkpoints, tuple(sorted(compactions)), tuple(staged), partial)

    @property
    def newest(self) -> int | None:
        """The newest version; None for an empty log."""
        return max([*self.commits, *(each.version for each in self.checkpoints)], default=None)

    @property
    def oldest(self) -> int | None:
        """The oldest version that a reader may begin with: the first commit's, or a checkpoint's."""
        return min([*(each.version for each in self.checkpoints), *({0} & self.commits)], default=None)

    def behind(self, start: int, version: int) -> Iterator[tuple[int, str]]:
        """Names of the commits and compactions that lead from behind `start` to `version`, each with its last version. Where a
        commit is missing and nothing replaces it, its name is among them."""
        following = start + 1
        while following <= version:
            last, name = following, commit_name(following)
            if following not in self.commits and (found := self._compaction(following, version)) is not None:
                last, name = found[1], compaction_name(*found)
            yield last, name
            following = last + 1

    def _compaction(self, first: int, version: int) -> tuple[int, int] | None:
        there = [each for each in self.compactions if each[0] == first and first < each[1] <= version]
        return max(there, default=None)


def compaction_name(first: int, last: int) -> str:
    return f"{LOG}/{first:020d}.{last:020d}.compacted.json"


MOST_COMMIT = 256 << 20
"""Bytes of one commit: those of half a million new files."""

MOST_CHECKPOINT = 1 << 30
"""Bytes of one part of a checkpoint."""

MOST_LOG = 4 << 30
"""Bytes of all that is read for one version."""

_MOST_POINTER = 1 << 20
"""Bytes of `_last_checkpoint`; some writers put the schema of the checkpoint into it."""

Pointer = Mapping[str, object]
"""What `_last_checkpoint` says. Source: Delta's protocol, "Last Checkpoint File"."""


def version_named(pointer: Pointer | None) -> int | None:
    """The version of the checkpoint that it names; None where it names none, which misleads no reader."""
    version = (pointer or {}).get("version")
    return version if type(version) is int else None


class LogObjects:
    """The objects of one table's log, for the replay of one version."""

    def __init__(self, location: Location, store: ObjectStore | None = None) -> None:
        self.location = location
        self.store: ObjectStore = store or open_store(location)
        self._left = MOST_LOG

    @property
    def on_disk(self) -> bool:
        return local_path(self.location.uri) is not None

    def files(self) -> LogFiles:
        """One listing."""
        return LogFiles.of(self.store.keys(LOG))

    def pointer(self) -> Pointer | None:
        """None where it is not there; empty where it is no JSON object."""
        try:
            said = msgspec.json.decode(self.read(LAST_CHECKPOINT, _MOST_POINTER))
        except Missing:
            return None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, Unsupported):
            return {}
        return said if isinstance(said, dict) else {}

    def read(self, name: str, most: int) -> bytes:
        """As `read_object`; and Unsupported, where all that was read has more than `MOST_LOG` bytes."""
        data = read_object(self.store, name, min(most, self._left))
        self._left -= len(data)
        return data


def read_object(store: ObjectStore, name: str, most: int) -> bytes:
    """The bytes of an object of a log. `store` of the table, `name` relative to it.

    Raises:
        Missing: it is not there.
        Unsupported: it has more than `most` bytes.
        OutsideTable: it is a link that leads out of the table.
    """
    root = local_path(store.uri)
    if root is None:
        data = store.get_range(name, 0, most + 1)
        size = len(data)
    else:
        check_inside(name, name, store.uri)
        size = _size(f"{root}/{name}", name)
        data = b"" if size > most else store.get(name)
    if size > most:
        raise Unsupported(f"{name} of {store.uri} is too large to be read: more than {most:,} bytes")
    return data


def _size(path: str, name: str) -> int:
    try:
        return os.stat(path).st_size
    except (FileNotFoundError, NotADirectoryError):
        raise Missing(name) from None
    except OSError:  # which reading it says
        return 0
