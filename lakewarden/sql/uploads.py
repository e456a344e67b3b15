"""Files that come along with a text: `FILE('photo')` in it means the one that is called photo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from lakewarden.errors import InvalidArgument
from lakewarden.rows.files import Upload
from lakewarden.settings import FilesSettings
from lakewarden.sql.statements import ExecuteAs, Insert, Statement

File = bytes | Path | Upload
"""A file's content, where it lies, or either with a name and a type of its own."""


def uploads_for(statements: Iterable[Statement], files: Mapping[str, File], settings: FilesSettings) -> dict[str, Upload]:
    """The files, read, by what the text calls them.

    Raises:
        InvalidArgument: too many files, or one that cannot be read or is too large; one that the text does not name, or names
            twice: a file belongs to one row.
    """
    if len(files) > settings.max_per_request:
        raise InvalidArgument(f"{len(files)} files come along; {settings.max_per_request} are allowed")
    named = [name for statement in statements for name in _named(statement)]
    for name in named:
        if name not in files:
            raise InvalidArgument(f"FILE({name!r}): no such file comes along; {', '.join(map(repr, files)) or 'none'} would")
        if named.count(name) > 1:
            raise InvalidArgument(f"FILE({name!r}) stands in the text {named.count(name)} times; a file belongs to one row")
    if unused := [name for name in files if name not in named]:
        raise InvalidArgument(f"file {unused[0]!r} comes along, and no FILE({unused[0]!r}) names it in VALUES of an INSERT")
    return {name: _upload(name, file, settings) for name, file in files.items()}


def _named(statement: Statement) -> Iterator[str]:
    match statement:
        case ExecuteAs():
            yield from _named(statement.statement)
        case Insert():
            yield from (file.name for file in statement.files)
        case _:
            pass  # only the rows of an INSERT bring files


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
    """At most one byte more than is allowed, which then is refused: a large file is not read for nothing."""
    try:
        with path.open("rb") as opened:
            return opened.read(settings.max_bytes + 1)
    except OSError as error:
        raise InvalidArgument(f"file {name!r} cannot be read from {path}: {error.strerror}") from error
