"""What a load is given, and what it reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lakewarden.errors import Reject
from lakewarden.storage.finding import FoundFile
from lakewarden.tables.rows.records import State

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
