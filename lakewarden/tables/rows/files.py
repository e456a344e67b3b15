"""Files in rows: the upload that a caller passes in, and the reference that a FILE column holds for it, as JSON text."""

from __future__ import annotations

import hashlib
import json
import mimetypes
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import pyarrow as pa

from lakewarden.base.setting_sections import FilesSettings
from lakewarden.catalog.model import TableSchema
from lakewarden.errors import ConstraintViolation, InvalidArgument
from lakewarden.tables.rows.defaults import PROCESS_SNOWFLAKE
from lakewarden.tables.rows.intake import Rows

FILES = "_files"
"""The folder of a scope that holds its files."""

_MAX_NAME, _MAX_EXTENSION = 50, 10
_FOLDER = re.compile(r"f[0-9]{4,9}")
_ID = re.compile(r"[0-9]{1,20}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MAX_SIZE = (1 << 63) - 1
_STORED = re.compile(rf"({FILES}/f\d{{4,}}/\d+)[-.]")
_MIME = re.compile(r"[a-z0-9.+-]+/[a-z0-9.+-]+")
_ANY_MIME = "application/octet-stream"


@dataclass(frozen=True)
class Upload:
    """A file to be stored: in a row, it takes the place of the reference.

    `mime` is guessed from the name if it is not given.
    """

    name: str
    data: bytes = field(repr=False)
    mime: str | None = None


def _matches(pattern: re.Pattern[str]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_name(value: object) -> bool:
    return isinstance(value, str) and not any("\ud800" <= each <= "\udfff" for each in value)


_FITS: Mapping[str, Callable[[object], bool]] = {
    "id": _matches(_ID),
    "sub": _matches(_FOLDER),
    "name": _is_name,
    "size": lambda value: type(value) is int and 0 <= value <= _MAX_SIZE,
    "mime": _matches(_MIME),
    "sha256": _matches(_SHA256),
}
"""Which values the fields of a reference can have, in the order in which they are looked at."""
_FIELDS = "it has id, sub, name, size, mime and sha256, as a FILE column of the same scope shows them"


@dataclass(frozen=True)
class FileRef:
    """The value of a FILE column. `size` in bytes; `sha256` in hexadecimal digits; `sub` is the folder below `_files/`."""

    id: str
    sub: str
    name: str
    size: int
    mime: str
    sha256: str

    @classmethod
    def parse(cls, text: str) -> FileRef:
        """Raises ConstraintViolation: the text is not a reference that a file of a scope can have."""
        try:
            found = cls(**json.loads(text))
        except (ValueError, TypeError, RecursionError) as error:
            raise ConstraintViolation(f"{text[:80]!r} is not a reference to a file: {_FIELDS}") from error
        wrong = [name for name, fits in _FITS.items() if not fits(getattr(found, name))]
        if wrong:
            raise ConstraintViolation(
                f"{text[:80]!r} is not a reference to a file of its scope: its {wrong[0]} cannot be; {_FIELDS}"
            )
        return found

    @classmethod
    def found(cls, text: str | None) -> FileRef | None:
        """Returns the reference in a column, or None: other writers may have written any text there."""
        try:
            return cls.parse(text) if text else None
        except ConstraintViolation:
            return None

    @property
    def text(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    @property
    def safe_mime(self) -> str:
        """The MIME type; other writers may have written any text there."""
        return self.mime if _MIME.fullmatch(self.mime) else _ANY_MIME

    @property
    def path(self) -> str:
        """The path of the file, relative to the scope."""
        return f"{FILES}/{self.sub}/{self.id}{_stored_name(self.name)}"


def is_stored_file(path: str) -> bool:
    """Returns whether a path, relative to the scope, is one that a `FileRef` can have."""
    return _STORED.match(path) is not None


def without_name(path: str) -> str:
    """Returns the path of a stored file up to its id, for reports over many scopes: only its owner may see its name."""
    found = _STORED.match(path)
    return found[1] if found else path


def references(rows: pa.Table, columns: Iterable[str]) -> Iterator[FileRef]:
    """Yields the files that these columns refer to, where the rows have the columns."""
    for name in columns:
        texts = rows.column(name).to_pylist() if name in rows.column_names else []
        yield from (ref for text in texts if (ref := FileRef.found(text)) is not None)


@dataclass(frozen=True)
class RowFile:
    """A file, and the row and column that refer to it."""

    key: Mapping[str, object]
    column: str
    ref: FileRef


Files = Sequence[tuple[FileRef, Callable[[], bytes]]]
"""Files, and how to read their contents."""


class RowsWithFiles(NamedTuple):
    """Rows with references in place of their files, and the files. A tuple, because every write creates one."""

    rows: Rows
    files: Files = ()
    follows: bool = True
    """Whether a reference to another file than these is looked at; what an export brings may refer to files that were removed."""

    @property
    def known(self) -> frozenset[str]:
        """The references to the files, which need not be there yet."""
        return frozenset(ref.text for ref, _ in self.files)


def take_files(
    rows: Rows, schema: TableSchema, folder: Callable[[], str], settings: FilesSettings, now: datetime
) -> RowsWithFiles:
    """Takes the uploads out of rows that are dicts. Stores nothing yet.

    Args:
        folder: returns the folder for the next file.

    Raises:
        InvalidArgument: too many files, or a file that is too large, of a MIME type that is not allowed, or in a non-FILE column.
    """
    columns = schema.of_files
    if not columns or hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "columns") or not isinstance(rows, Iterable):
        return RowsWithFiles(rows)
    given = list(rows)
    uploads = [(at, name, value) for at, row in enumerate(given) for name, value in _uploads_of(row)]
    if len(uploads) > settings.max_per_request:
        raise InvalidArgument(f"{len(uploads)} files in one request; at most {settings.max_per_request} are allowed")
    for _, name, upload in uploads:
        if name not in columns:
            raise InvalidArgument(f"column {name!r} does not take files; the FILE columns are {', '.join(columns)}")
        _check(upload, settings)
    files = []
    for at, name, upload in uploads:
        files.append((_reference(upload, folder(), now), partial(attrgetter("data"), upload)))
        given[at] = {**given[at], name: files[-1][0].text}
    return RowsWithFiles(given, tuple(files))


def _uploads_of(row: object) -> list[tuple[str, Upload]]:
    return [(name, value) for name, value in row.items() if isinstance(value, Upload)] if isinstance(row, Mapping) else []


def _check(upload: Upload, settings: FilesSettings) -> None:
    size, kind = len(upload.data), _kind(upload)
    if size > settings.max_bytes:
        raise InvalidArgument(f"file {upload.name!r} has {size:,} bytes; at most {settings.max_bytes:,} are allowed")
    if not _MIME.fullmatch(kind) or not any(fnmatchcase(kind, allowed) for allowed in settings.allowed_mime):
        raise InvalidArgument(f"file {upload.name!r} is of type {kind!r}; {', '.join(settings.allowed_mime)} are allowed")


def _reference(upload: Upload, sub: str, now: datetime) -> FileRef:
    (id_,) = PROCESS_SNOWFLAKE.take(1, now)
    checksum = hashlib.sha256(upload.data).hexdigest()
    return FileRef(str(id_), sub, upload.name, len(upload.data), _kind(upload), checksum)


def _kind(upload: Upload) -> str:
    return (upload.mime or mimetypes.guess_type(upload.name)[0] or _ANY_MIME).lower()


def _stored_name(name: str) -> str:
    """Turns `Annual Report.PDF` into `-annual-report.pdf`; returns the extension alone when no safe part of the name is left."""
    base = name.replace("\\", "/").rpartition("/")[2]
    stem, dot, extension = base.rpartition(".") if "." in base else (base, "", "")
    safe_extension = re.sub(r"[^a-z0-9]", "", extension.lower())[:_MAX_EXTENSION] if dot else ""
    safe = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:_MAX_NAME].strip("-") if stem.isascii() else ""
    return f"{'-' if safe else ''}{safe}.{safe_extension or 'bin'}"
