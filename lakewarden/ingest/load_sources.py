"""What the given paths mean: files, their formats, and whether they are compressed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePosixPath
from typing import Literal

from lakewarden.base.connection import Connection
from lakewarden.errors import InvalidArgument, Reject
from lakewarden.ingest.pipelines.source import Connections
from lakewarden.storage.finding import FoundFile, find_files
from lakewarden.storage.location import local_path
from lakewarden.tables.rows.records import State
from lakewarden.tables.warehouse import Warehouse

# What a load is given, and what it reports.
FileFormat = Literal["csv", "json", "parquet"]
FORMATS: tuple[FileFormat, ...] = ("csv", "json", "parquet")

SHOWN_REJECTS = 100
"""The most rejected rows that a report names; all are counted."""


@dataclass(frozen=True)
class LoadReport:
    """What a load did. `rows` were loaded; `version` is the table's Delta version then, None where rows are in the log only."""

    table: str
    files: int
    bytes: int
    rows: int
    rejected: int
    rejects: tuple[Reject, ...]
    """The first ones, in the order of the files."""
    version: int | None
    repeated: bool = False
    """The table had this load already, so nothing was loaded now."""


@dataclass(frozen=True)
class SourceFile:
    """A file to load."""

    found: FoundFile
    format: FileFormat
    packed: bool
    """Compressed as a whole by gzip."""

    @property
    def on_disk(self) -> bool:
        return local_path(self.found.place.uri) is not None


@dataclass(frozen=True)
class FilePiece:
    """A part of a file that one task reads: bytes of it, or row groups of Parquet. The rows that begin in it are its rows."""

    source: SourceFile
    first: int
    last: int
    """Behind the end."""
    size: int
    """Estimated bytes of its rows."""
    most: int
    """It has no more rows than this."""
    line: int = 1
    """The line at which `first` lies; in a Parquet file, the row."""
    state: State = "start"
    """Of `first`, by what is before it."""
    header: tuple[str, ...] = ()
    """Of a CSV file: the columns' names."""


_ENDINGS: dict[str, FileFormat] = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}
_PACKED = (".gz", ".gzip")


def find_sources(warehouse: Warehouse, paths: Sequence[str], format: str | None) -> list[SourceFile]:
    """Returns the files, each once, in the order of the paths.

    Args:
        format: of all files; without it, the ending of each name says it.

    Raises:
        InvalidArgument: no path, an unknown format, a name whose ending says none, or a path with a credential.
        NotFound: a path matches no file.
    """
    if not paths:
        raise InvalidArgument("name at least one file, directory or pattern to load")
    if format is not None and format not in FORMATS:
        raise InvalidArgument(f"the format {format!r} does not exist; it is one of {', '.join(FORMATS)}")
    connections = Connections.of(warehouse, warehouse.catalog.read())
    # Of a place in no storage, the environment decides.
    reached = [find_files(path, lambda uri: connections.around(uri) or Connection()) for path in paths]
    found = dict.fromkeys(chain.from_iterable(reached))
    return [_source(one, next((each for each in FORMATS if each == format), None)) for one in found]


def format_of(path: str) -> FileFormat | None:
    """The format that the ending of a name says."""
    name = PurePosixPath(path.lower())
    return _ENDINGS.get(PurePosixPath(name.stem).suffix if name.suffix in _PACKED else name.suffix)


def _source(found: FoundFile, format: FileFormat | None) -> SourceFile:
    packed = found.name.lower().endswith(_PACKED)
    chosen = format or format_of(found.name)
    if chosen is None:
        raise InvalidArgument(f"{found.uri}: the name does not say the format; give one of {', '.join(FORMATS)} as --format")
    if packed and chosen == "parquet":
        raise InvalidArgument(f"{found.uri}: Parquet is compressed inside; a file that gzip compressed has to be unpacked first")
    return SourceFile(found, chosen, packed)
