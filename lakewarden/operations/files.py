"""Files of FILE columns: objects under `_files/` beside a scope's table. The column holds a reference, as JSON text."""

from __future__ import annotations

import hashlib
import json
import mimetypes
import re
from dataclasses import asdict, dataclass
from datetime import datetime
from fnmatch import fnmatchcase

from lakewarden.catalog.model import TableSchema
from lakewarden.errors import Corrupt, InvalidArgument, NotFound
from lakewarden.report import ScopeTarget
from lakewarden.rows.snowflake import PROCESS_SNOWFLAKE
from lakewarden.settings import FilesSettings
from lakewarden.storage.objects import Missing
from lakewarden.storage.open import open_store

_ROOT = "_files"
_MAX_NAME, _MAX_EXTENSION = 50, 10
_FOLDER = re.compile(r"f\d{4,}")
_MIME = re.compile(r"[a-z0-9.+-]+/[a-z0-9.+-]+")


@dataclass(frozen=True)
class FileRef:
    """What a FILE column holds. `size` in bytes; `sha256` in hexadecimal digits; `sub` is the folder below `_files/`."""

    id: str
    sub: str
    name: str
    size: int
    mime: str
    sha256: str

    @classmethod
    def parse(cls, text: str) -> FileRef:
        """Raises:
        Corrupt: the text is no reference of ours.
        """
        try:
            found = cls(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise Corrupt(f"{text[:80]!r} is no reference to a file") from error
        if not (found.id.isascii() and found.id.isdigit() and _FOLDER.fullmatch(found.sub)):
            raise Corrupt(f"{text[:80]!r} leads to no file of its scope")
        return found

    @property
    def text(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    @property
    def path(self) -> str:
        """Where it lies, relative to the scope."""
        return f"{_ROOT}/{self.sub}/{self.id}{_stored_name(self.name)}"


def file_columns(schema: TableSchema) -> list[str]:
    return [column.name for column in schema.columns if column.type.name == "FILE"]


def store_file(target: ScopeTarget, data: bytes, name: str, mime: str | None, settings: FilesSettings, now: datetime) -> FileRef:
    """Stores a file that nothing refers to yet.

    Raises:
        InvalidArgument: it is too large, or of a type that is not allowed.
    """
    kind = (mime or mimetypes.guess_type(name)[0] or "application/octet-stream").lower()
    if len(data) > settings.max_bytes:
        raise InvalidArgument(f"file {name!r} has {len(data):,} bytes; {settings.max_bytes:,} are allowed")
    if not _MIME.fullmatch(kind) or not any(fnmatchcase(kind, allowed) for allowed in settings.allowed_mime):
        raise InvalidArgument(f"file {name!r} is of type {kind!r}; {', '.join(settings.allowed_mime)} are allowed")
    store = open_store(target.location)
    folders = [entry.key.split("/")[1] for entry in store.list(_ROOT)]
    last = max((int(folder[1:]) for folder in folders if _FOLDER.fullmatch(folder)), default=1)
    if folders.count(f"f{last:04d}") >= settings.max_per_folder:
        last += 1
    (id_,) = PROCESS_SNOWFLAKE.take(1, now)
    ref = FileRef(str(id_), f"f{last:04d}", name, len(data), kind, hashlib.sha256(data).hexdigest())
    store.create(ref.path, data)
    return ref


def load_file(target: ScopeTarget, ref: FileRef) -> bytes:
    """Raises:
    NotFound: it was removed.
    Corrupt: these are not the bytes that were stored.
    """
    try:
        data = open_store(target.location).get(ref.path)
    except Missing as error:
        raise NotFound(f"the file {ref.name!r} of {target.scope} was removed") from error
    if hashlib.sha256(data).hexdigest() != ref.sha256:
        raise Corrupt(f"the file {ref.name!r} of {target.scope} has not the checksum that its row says")
    return data


def remove_file(target: ScopeTarget, ref: FileRef) -> None:
    open_store(target.location).delete([ref.path])


def remove_files(target: ScopeTarget) -> None:
    """All of a scope's files."""
    store = open_store(target.location)
    store.delete([entry.key for entry in store.list(_ROOT)])


def _stored_name(name: str) -> str:
    """`-annual-report.pdf` of `Annual Report.PDF`; the extension alone, where nothing safe is left of the name."""
    base = name.replace("\\", "/").rpartition("/")[2]
    stem, dot, extension = base.rpartition(".") if "." in base else (base, "", "")
    safe_extension = re.sub(r"[^a-z0-9]", "", extension.lower())[:_MAX_EXTENSION] if dot else ""
    safe = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:_MAX_NAME].strip("-") if stem.isascii() else ""
    return f"{'-' if safe else ''}{safe}.{safe_extension or 'bin'}"
