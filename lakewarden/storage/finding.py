"""Finds the files that a path or a pattern names, on a disk or in a bucket, and opens them for reading at any place.

A directory or a prefix means every file below it, but for those whose names begin with `_` or `.`, as other programs mark what
is not data.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from lakewarden.base.connection import Connection, Location
from lakewarden.errors import NotFound, StorageRefused
from lakewarden.storage.buckets import odd_pages
from lakewarden.storage.location import canonical, join, local_path
from lakewarden.storage.objects import Missing, ObjectStore, open_ranges
from lakewarden.storage.open import open_store

_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class FoundFile:
    """A file that exists: its directory, its name in it, its bytes."""

    place: Location
    name: str
    size: int

    @property
    def uri(self) -> str:
        return join(self.place.uri, self.name)


def find_files(pattern: str, connection: Callable[[str], Connection]) -> list[FoundFile]:
    """Returns the files, in order of their names.

    Args:
        pattern: a path or a URI; `*` and `[…]` match within a name, `**` across directories; on a disk `?` matches a letter.
        connection: how the store of a URI is reached.

    Raises:
        NotFound: there is no such file.
        InvalidArgument: the URI does not name a place, or contains a credential.
        StorageRefused, StorageUnavailable: the store cannot be listed.
    """
    path = local_path(pattern)
    if path is not None:
        found = sorted(_on_disk(str(path)), key=lambda one: one.uri)
    else:
        uri = canonical(pattern)
        found = sorted(_listed(Location(uri, connection(uri))), key=lambda one: one.uri)
    if not found:
        raise NotFound(f"no file matches {pattern!r}")
    return found


def open_found(found: FoundFile) -> BinaryIO:
    """Opens the file; reads of it raise `StorageUnavailable` or `StorageRefused` where the store fails.

    Raises:
        NotFound: it was removed meanwhile.
    """
    path = local_path(found.place.uri)
    if path is None:
        return open_ranges(found.size, partial(_range_of, open_store(found.place), found))
    try:
        return (path / found.name).open("rb")
    except OSError as error:
        raise _unreadable(found.uri, error) from error


def _range_of(store: ObjectStore, found: FoundFile, offset: int, length: int) -> bytes:
    try:
        return store.get_range(found.name, offset, length)
    except Missing:
        raise NotFound(f"{found.uri} was removed while it was read") from None


def _on_disk(path: str) -> Iterator[FoundFile]:
    names = glob.glob(path, recursive=True) if _WILD.search(path) and not os.path.exists(path) else [path]
    for name in sorted(names):
        if os.path.isdir(name):
            # A pattern names files; only a path without one means all that is below.
            yield from () if _WILD.search(path) else _below(name)
        elif os.path.exists(name):
            yield _on_path(name)


def _below(directory: str) -> Iterator[FoundFile]:
    for folder, folders, names in os.walk(directory, onerror=_stop):
        folders[:] = sorted(name for name in folders if not _hidden(name))
        yield from (_on_path(os.path.join(folder, name)) for name in sorted(names) if not _hidden(name))


def _stop(error: OSError) -> None:
    raise _unreadable(str(error.filename), error)


def _on_path(path: str) -> FoundFile:
    try:
        return FoundFile(Location(os.path.dirname(path)), os.path.basename(path), Path(path).stat().st_size)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> NotFound | StorageRefused:
    if isinstance(error, FileNotFoundError):
        return NotFound(f"{path} was removed while it was read")
    return StorageRefused(f"cannot read {path}: {error.strerror}")


def _listed(location: Location) -> Iterator[FoundFile]:
    fixed, _, rest = _split(location.uri)
    matches = re.compile(_regex(rest)) if _WILD.search(rest) else None
    for key, size in _keys(Location(fixed, location.connection)):
        below = f"{rest}/" if rest else ""
        same = key == rest or (key.startswith(below) and not _has_hidden(key[len(below) :]))
        if same if matches is None else matches.fullmatch(key):
            yield _found(location, join(fixed, key), size)


def _keys(place: Location) -> Iterator[tuple[str, int]]:
    """The keys below a place, and the bytes of each. On S3 by boto3, which tells the marks of empty folders, as consoles leave
    them, from empty files: they end with a slash."""
    if not place.uri.startswith("s3://"):
        yield from ((one.key, one.size) for one in open_store(place).list(""))
        return
    _, _, prefix = place.uri.removeprefix("s3://").partition("/")
    below = f"{prefix}/" if prefix else ""
    for page in odd_pages(place, below, "", f"cannot list {place}"):
        yield from ((one.key[len(below) :], one.size) for one in page if not one.key.endswith("/"))


def _found(location: Location, uri: str, size: int) -> FoundFile:
    place, _, name = uri.rpartition("/")
    return FoundFile(Location(place, location.connection), name, size)


def _split(uri: str) -> tuple[str, str, str]:
    """The longest place above everything that matches, a slash, and the rest."""
    scheme, _, path = uri.partition("://")
    bucket, _, rest = path.partition("/")
    parts = rest.split("/") if rest else []
    fixed = next((index for index, part in enumerate(parts) if _WILD.search(part)), max(len(parts) - 1, 0))
    return "/".join([f"{scheme}://{bucket}", *parts[:fixed]]), "/", "/".join(parts[fixed:])


def _regex(pattern: str) -> str:
    parts = re.split(r"(\*\*/|\*\*|\*|\[[^\]]+\])", pattern)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
    return "".join(meaning.get(part) or (part if part.startswith("[") else re.escape(part)) for part in parts)


def _has_hidden(path: str) -> bool:
    return any(_hidden(part) for part in path.split("/") if part)


def _hidden(name: str) -> bool:
    return name.startswith(("_", "."))
