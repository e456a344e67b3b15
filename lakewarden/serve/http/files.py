"""`/v1/files/{namespace}/{table}/{key}/{column}`: the file that a row refers to, up and down as it is.

A file is the body of its request and of its answer. It waits in a temporary file until all of it is here, and is read in pieces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from tempfile import SpooledTemporaryFile
from typing import IO, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from lakewarden.catalog.access import Principal
from lakewarden.catalog.model import TableSchema
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.serve.authority import RequestDeclined
from lakewarden.serve.http.requests import admitted, lake_of
from lakewarden.sql.session_table import SessionTable
from lakewarden.tables.files import StoredFile
from lakewarden.tables.rows.files import FileRef
from lakewarden.tables.rows.text import value_of

_IN_MEMORY = 1 << 20
_STORED_TOGETHER = 4
"""Uploads that one process holds in memory at the same time, each of up to `files.max_bytes`; the others wait on disk."""
_LONGEST_NAME = 255
_SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, no-store",
}
"""A browser saves the file, whatever it is, and runs nothing in it."""
PARAMETERS: Mapping[str, str] = {
    "name": "of the file, as it is saved later",
    "user_id": "whose file; for roles that may act as others",
}


class _Place(NamedTuple):
    """Where a file belongs. `key` as the address has it, still encoded."""

    table: str
    key: bytes
    column: str


@dataclass(frozen=True)
class Files:
    """The endpoint, as an ASGI application."""

    storing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_STORED_TOGETHER))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        async with admitted(request) as principal:
            answer = await self._answer(request, principal)
            await answer(scope, receive, send)

    async def _answer(self, request: Request, principal: Principal) -> Response:
        place = _place(request)
        match request.method:
            case "PUT":
                return await self._put(request, principal, place)
            case "DELETE":
                await run_in_threadpool(_delete, request, principal, place)
                return JSONResponse({"message": f"the file in column {place.column!r} was deleted"})
            case _:
                return _download(await run_in_threadpool(_open, request, principal, place))

    async def _put(self, request: Request, principal: Principal, place: _Place) -> Response:
        name, mime = _name(request, place), _mime(request)
        with SpooledTemporaryFile(_IN_MEMORY) as body:
            await _receive(request, body, lake_of(request).warehouse.settings.files.max_bytes)
            async with self.storing:
                ref = await run_in_threadpool(_store, request, principal, place, body, name, mime)
        return JSONResponse(asdict(ref))


def _place(request: Request) -> _Place:
    """Reads the address undecoded: a key may hold any sign, a slash too."""
    parts = request.scope["raw_path"].split(b"/")[3:]
    if len(parts) != 4 or not all(parts):
        raise InvalidArgument("a file is at /v1/files/{namespace}/{table}/{key}/{column}, with %2F for a slash in a key")
    namespace, table, key, column = parts
    return _Place(f"{_text(namespace)}.{_text(table)}", key, _text(column))


def _text(encoded: bytes) -> str:
    try:
        return unquote_to_bytes(encoded).decode()
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{encoded.decode('ascii', 'replace')!r} is not UTF-8, percent-encoded") from error


def _key(schema: TableSchema, encoded: bytes) -> dict[str, object]:
    """The primary key; several values stand in its order, with commas between them."""
    names = schema.primary_key
    texts = [encoded] if len(names) == 1 else encoded.split(b",")
    if len(texts) != len(names):
        raise InvalidArgument(f"the key has {len(texts)} values; the primary key has {len(names)}: {', '.join(names)}")
    columns = {column.name: column for column in schema.columns}
    return {name: value_of(columns[name], _text(text)) for name, text in zip(names, texts, strict=True)}


def _name(request: Request, place: _Place) -> str:
    name = request.query_params.get("name", place.column)
    if not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable():
        raise InvalidArgument(f"a file's name has 1 to {_LONGEST_NAME} characters that can be printed")
    return name


def _mime(request: Request) -> str | None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind.startswith("multipart/"):
        raise Unsupported("a file is the body of its request as it is, not a part of a form")
    return kind or None


async def _receive(request: Request, body: IO[bytes], most: int) -> None:
    refused = RequestDeclined(413, f"the file has more than {most:,} bytes (files.max_bytes)")
    if int(request.headers.get("content-length", "0")) > most:
        raise refused
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > most:
            raise refused
        body.write(piece)
    body.seek(0)


def _table(request: Request, principal: Principal, place: _Place) -> SessionTable:
    session = lake_of(request).sessions.served(principal)
    user = request.query_params.get("user_id")
    return (session if user is None else session.execute_as(user)).table(place.table)


def _store(request: Request, principal: Principal, place: _Place, body: IO[bytes], name: str, mime: str | None) -> FileRef:
    table = _table(request, principal, place)
    row = _key(table.client.table.schema, place.key)
    return table.put_file(row, place.column, body.read(), name=name, mime=mime, mode="merge")


def _delete(request: Request, principal: Principal, place: _Place) -> None:
    table = _table(request, principal, place)
    table.delete_file(_key(table.client.table.schema, place.key), place.column)


def _open(request: Request, principal: Principal, place: _Place) -> StoredFile:
    table = _table(request, principal, place)
    return table.open_file(_key(table.client.table.schema, place.key), place.column)


def _download(file: StoredFile) -> Response:
    name = quote(file.ref.name, safe="")
    headers = {
        **_SAFE,
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "Content-Length": str(file.ref.size),
        "ETag": f'"{file.ref.sha256}"',
    }
    return StreamingResponse(file.pieces(), headers=headers, media_type=file.ref.safe_mime)
