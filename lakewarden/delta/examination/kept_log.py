"""What one look read of a log, kept for the next one, which then asks only for what came since.

Kept are the objects and not what they came to: commits, without what no look uses, and `_last_checkpoint`. Each stands for
itself, as long as a listing shows it with the ETag that it had. So a look that has them finds what a first one finds.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec

from lakewarden.base.connection import Location
from lakewarden.base.threads import COMPUTING
from lakewarden.delta.replay.actions import AddChanges, AddFile, LogAction, RemoveFile, read_actions
from lakewarden.delta.replay.log_objects import LAST_CHECKPOINT, LogObjects, commit_name, version_of
from lakewarden.errors import Corrupt, Unsupported
from lakewarden.storage.objects import Missing, ObjectStore, StoredObject

_FEW = 4
"""Objects of which none is kept: to ask for them again, and for two that came since, stays within six requests."""

_MOST = 16 << 10
"""Bytes that are kept of a table: those of some 300 commits of one file each. Of a log with more nothing is kept."""

_MOST_READ = 2 << 20
"""Bytes of commits that may wait to be kept; they become a tenth, and less."""

_MOST_AHEAD = 1 << 20
"""Bytes of one table that are read before they are parsed."""

_MARK = 8
"""Bytes of a hash of an object's name and ETag."""

_ROWS = re.compile(r'\s*\{\s*"numRecords"\s*:\s*\d{1,18}\b')
"""All that a look uses of a file's statistics, where writers put it first."""


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    mark: str
    lines: list[msgspec.Raw]


_unpack = msgspec.json.Decoder(dict[str, _Kept]).decode
_objects = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class KeptLog:
    """Of one table: what a look before has left, and what this one reads.

    Args:
        listed: names and ETags of the log's objects now.
        packed: as the look before returned it; empty where there is none.
    """

    def __init__(self, listed: Iterable[tuple[str, str]], packed: bytes = b"") -> None:
        self._etags = dict(listed)
        self._packed = packed
        self._known: dict[str, _Kept] = {}
        with suppress(zlib.error, msgspec.MsgspecError):  # what was damaged is read again
            self._known = _known(packed)
        self._used: dict[str, _Kept] = {}
        self._new: dict[str, bytes] = {}
        self._left = _MOST_READ

    def text(self, name: str) -> bytes | None:
        """What an object says that is as it was; None where it has to be read."""
        kept = self._known.get(name)
        if kept is None or kept.mark != self._mark(name):
            return None
        self._used[name] = kept
        return b"\n".join(map(bytes, kept.lines))

    def add(self, name: str, text: bytes) -> None:
        """Takes an object that was read."""
        version = version_of(name)
        if name in self._etags and (name == LAST_CHECKPOINT or (version is not None and name == commit_name(version))):
            self._left -= len(text)
            if self._left >= 0:
                self._new[name] = text

    def packed(self) -> bytes:
        """For the next look; empty where that costs few requests without, or it would be too much."""
        if not self._used and not self._new:
            return self._packed  # the checksum of the version was enough
        if self._left < 0 or len(self._used) + len(self._new) <= _FEW:
            return b""
        new = {name: _Kept(self._mark(name), lines) for name, text in self._new.items() if (lines := _lines(name, text))}
        packed = zlib.compress(_encode(self._used | new))
        return packed if len(packed) <= _MOST else b""

    def _mark(self, name: str) -> str:
        said = f"{name}\0{self._etags.get(name)}".encode(errors="surrogatepass")
        return hashlib.blake2b(said, digest_size=_MARK).hexdigest()


def _known(packed: bytes) -> dict[str, _Kept]:
    return _unpack(zlib.decompress(packed)) if packed else {}


def texts_of(packed: bytes) -> Iterator[str]:
    """All that may name somebody in what is kept of a log: its paths, values and names."""
    return (text for kept in _known(packed).values() for line in kept.lines for text in _texts(msgspec.json.decode(line)))


def _texts(said: object) -> Iterator[str]:
    if isinstance(said, str):
        yield said
    elif isinstance(said, dict | list):
        for each in said.values() if isinstance(said, dict) else said:
            yield from _texts(each)


class KnownLogObjects(LogObjects):
    """The objects of a log, of which some are known, and need not be asked for."""

    def __init__(self, location: Location, store: ObjectStore, kept: KeptLog | None) -> None:
        super().__init__(location, store)
        self._kept = kept
        self._ahead: dict[str, bytes] = {}

    def read_ahead(self, objects: Sequence[StoredObject]) -> None:
        """Reads small objects before any of them is parsed: to turn from one to the other for each takes a tenth more of a
        processor. What is missing, or has grown, is left to `read`."""
        if sum(each.size for each in objects) > _MOST_AHEAD:
            return
        with COMPUTING.let_go():
            for each in objects:
                with suppress(Missing, Unsupported):
                    self._ahead[each.key] = self.read(each.key, _MOST_AHEAD)

    def read(self, name: str, most: int) -> bytes:
        if name in self._ahead:
            return self._ahead.pop(name)
        text = None if self._kept is None else self._kept.text(name)
        if text is None:
            text = super().read(name, most)
            if self._kept is not None:
                self._kept.add(name, text)
        return text


def _lines(name: str, text: bytes) -> list[msgspec.Raw]:
    """What a look uses of an object, line by line; nothing where it is not one that a reader takes without a word."""
    try:
        if name == LAST_CHECKPOINT:
            return [msgspec.Raw(_encode(_objects(text)))]
        actions = [*read_actions(name, text)]
    except (Corrupt, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return [] if LogAction() in actions else [msgspec.Raw(_encode(_abridged(each))) for each in actions]


def _abridged(action: LogAction) -> LogAction:
    add, remove, change, info = action.add, action.remove, action.cdc, action.commit_info
    if add is not None:
        rows = _ROWS.match(add.stats or "")
        used = AddFile(add.path, add.partition_values, add.size, deletion_vector=add.deletion_vector, base_row_id=add.base_row_id)
        add = msgspec.structs.replace(used, stats=f"{rows[0]}}}" if rows else None)
    remove = remove and RemoveFile(remove.path, deletion_vector=remove.deletion_vector)
    change = change and AddChanges(change.path)
    return msgspec.structs.replace(action, add=add, remove=remove, cdc=change, commit_info=_used_of(info) if info else info)


def _used_of(info: msgspec.Raw) -> msgspec.Raw:
    said = msgspec.json.decode(info)
    used = ("engineInfo", "inCommitTimestamp")
    return msgspec.Raw(_encode({name: said[name] for name in used if name in said})) if isinstance(said, dict) else info
