"""Paths of a Delta log: one key for each file, however it is spelled, and the border of a table's own directory.

A path is a URI, relative to the table or absolute (Delta's protocol, "Add File and Remove File"). What leads out of the
table's directory is never read: whoever may write the log of one table could have another's files read with our key.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from urllib.parse import unquote

from lakewarden.base.connection import Location
from lakewarden.errors import Unsupported
from lakewarden.storage.location import canonical, local_path

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_FILE = re.compile(r"file:/+(?:localhost/)?", re.IGNORECASE)
_S3 = re.compile(r"s3[an]://", re.IGNORECASE)
_PART = r"(?:\.{0,2}[A-Za-z0-9_=-]|\.{3})[A-Za-z0-9_=.-]*"
PLAIN = re.compile(rf"{_PART}(?:/{_PART})*")
"""Of a path with one spelling, which is its key: no part of it is a step, as `.` and `..` are."""

_LONGEST = 4096


class OutsideTable(Unsupported):
    """The log names a file that is not in the table's own directory."""


def key_of(path: str, root: str) -> str:
    """The key of a path: relative to the table where it is inside, else absolute.

    Args:
        root: the table's own place, as `root_of` returns it.
    """
    if PLAIN.fullmatch(path):
        return path
    path = "/".join(part for part in path.split("/") if part != ".")  # RFC 3986, "Remove Dot Segments"
    if not (_URI.match(path) or path.startswith("/")):
        return unquote(path)
    there = _absolute(unquote(path))
    return there.removeprefix(f"{root}/") if there.startswith(f"{root}/") else there


def _absolute(path: str) -> str:
    return _S3.sub("s3://", _FILE.sub("/", path))


def root_of(location: Location) -> str:
    """A table's own place: a path on a disk, else a URI."""
    return root_at(location.uri)


@lru_cache(maxsize=1024)
def root_at(uri: str) -> str:
    """The same of the place at a URI."""
    path = local_path(uri)
    return canonical(uri) if path is None else str(path)


def check_inside(key: str, path: str, table: str) -> str:
    """Returns the key. Call this before a file that a log names is opened.

    Args:
        key: as `key_of` returns it.
        path: as the log has it.
        table: its URI.

    Raises:
        OutsideTable: it leads out of the table's directory: in this spelling, where it is escaped more than once, or by a link.
    """
    if not PLAIN.fullmatch(key):
        _check_spellings(key, path, table)
    root = local_path(table)
    if root is not None:
        _check_links(str(root), key, path)
    return key


def _check_spellings(key: str, path: str, table: str) -> None:
    if len(key) > _LONGEST or "\0" in key or key.startswith("/") or _URI.match(key) or any(map(_is_step, key.split("/"))):
        raise _outside(path, table)


def _is_step(part: str) -> bool:
    """Whether a part of a path leads anywhere but into a directory, however often it is escaped.

    What follows a slash inside of it is the value of a partition, and no step.
    """
    decoded = unquote(part)
    while decoded != part:
        part, decoded = decoded, unquote(decoded)
    return decoded.partition("/")[0] in ("", ".", "..") or _URI.match(decoded) is not None


def _check_links(root: str, key: str, path: str) -> None:
    place = root
    for part in key.split("/"):
        place = f"{place}/{part}"
        if os.path.islink(place) and not _below(os.path.realpath(place), os.path.realpath(root)):
            raise _outside(path, root, "by a symbolic link")


def _below(inner: str, outer: str) -> bool:
    return inner.startswith(f"{outer.rstrip('/')}/")


def _outside(path: str, uri: str, how: str = "") -> OutsideTable:
    return OutsideTable(
        f"outside-path: the log of {uri} names {path[:200]!r}, which leads out of the table's own directory"
        f"{f' {how}' if how else ''} (a shallow clone?); only files inside a table are read"
    )
