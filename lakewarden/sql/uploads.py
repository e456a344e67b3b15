"""Reads the files attached to a SQL text: `FILE('photo')` in it means the one named photo."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from lakewarden.base.setting_sections import FilesSettings
from lakewarden.errors import InvalidArgument
from lakewarden.sql.statement import Statement
from lakewarden.tables.rows.files import Upload

File = bytes | Path | Upload
"""A file's content, its path, or either with its own name and type."""


def uploads_for(statements: Iterable[Statement], files: Mapping[str, File], settings: FilesSettings) -> dict[str, Upload]:
    """Reads the files, keyed by their names in the text.

    Raises:
        InvalidArgument: there are too many files, or one cannot be read, is too large, or does not occur in the text exactly
            once: a file belongs to one row.
    """
    named = [name for statement in statements for name in statement.file_names()]
    if not files and not named:
        return {}
    if len(files) > settings.max_per_request:
        raise InvalidArgument(f"{len(files)} files are attached; {settings.max_per_request} are allowed")
    for name in named:
        if name not in files:
            raise InvalidArgument(f"FILE({name!r}): no such file is attached; there are {', '.join(map(repr, files)) or 'none'}")
        if named.count(name) > 1:
            raise InvalidArgument(f"FILE({name!r}) occurs in the text {named.count(name)} times; a file belongs to one row")
    if unused := [name for name in files if name not in named]:
        raise InvalidArgument(f"file {unused[0]!r} is attached, and no FILE({unused[0]!r}) names it in VALUES of an INSERT")
    return {name: _upload(name, file, settings) for name, file in files.items()}


def _upload(name: str, file: File, settings: FilesSettings) -> Upload:
    match file:
        case Upload():
            return file
        case bytes():
            return Upload(name, file)
        case Path():
            return Upload(file.name, _content(name, file, settings))
        case _:
            raise InvalidArgument(f"file {name!r} is {type(file).__name__}; give bytes, a Path, or an Upload")


def _content(name: str, path: Path, settings: FilesSettings) -> bytes:
    """Reads at most one byte more than is allowed, enough to refuse a file that is too large."""
    try:
        with path.open("rb") as opened:
            return opened.read(settings.max_bytes + 1)
    except OSError as error:
        raise InvalidArgument(f"file {name!r} cannot be read from {path}: {error.strerror}") from error
