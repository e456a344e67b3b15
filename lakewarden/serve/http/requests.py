"""What every endpoint does first: who the request is from, whether that user may have another, and its body within the bound."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection, Request

from lakewarden.base.cancellation import Cancellation
from lakewarden.base.exact_json import decoded_as, raw
from lakewarden.catalog.access import Principal
from lakewarden.client import Lakehouse
from lakewarden.serve.authority import RequestDeclined
from lakewarden.serve.common import Common
from lakewarden.serve.idempotency import KeyedRequest as Keyed
from lakewarden.serve.idempotency import Places, StatementOutcome, StoredAnswer
from lakewarden.serve.tokens import AccessToken

T = TypeVar("T", bound=msgspec.Struct)


def common_of(request: HTTPConnection) -> Common:
    found = request.app.state.common
    assert isinstance(found, Common), "the application is made with one"
    return found


def lake_of(request: HTTPConnection) -> Lakehouse:
    return common_of(request).lake


_SHORT = 64 << 10
"""Bytes of a body that is read at once, within a millisecond or so."""


class BodyQueue:
    """Reads long bodies off the event loop, one at a time, in the order in which they came.

    Read on the loop, the bodies that are there together are all read before any other request is received or answered: of 64
    clients who send 10,000 rows each, those whose bodies came a moment later waited for both calls of all others. Read by as many
    threads, they share one lock of Python's, and none is done before nearly all are.
    """

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore()  # who waits is let in in order

    async def read(self, kind: type[T], data: bytes, *, strict: bool) -> T:
        """Raises as `decoded_as`."""
        if len(data) <= _SHORT:
            return decoded_as(kind, data, strict=strict)
        async with self._turns:
            return await run_in_threadpool(decoded_as, kind, data, strict=strict)


def address_of(request: HTTPConnection) -> str:
    return "" if request.client is None else request.client.host


async def body_of(request: Request, kind: type[T], *, strict: bool = True) -> T:
    """The body, read as JSON.

    Raises:
        Declined: it is larger than the bound.
        msgspec.DecodeError: it is not JSON, or not what the call takes.
    """
    most = lake_of(request).warehouse.settings.serve.body_bytes
    found = bytearray()
    async for piece in request.stream():
        found += piece
        if len(found) > most:
            raise RequestDeclined(413, f"the body has more than {most:,} bytes (serve.body_bytes): send several smaller requests")
    bodies = request.app.state.bodies
    assert isinstance(bodies, BodyQueue), "the application is made with one"
    try:
        return await bodies.read(kind, bytes(found), strict=strict)
    except msgspec.DecodeError:
        raise
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"it is not UTF-8 text at byte {error.start}") from error
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from error


async def caller(request: HTTPConnection, authorization: str | None = None) -> AccessToken:
    """The token of the request's header, or of `authorization` in its place.

    Raises:
        Declined: the request has no token that works.
    """
    authorization = request.headers.get("authorization", authorization)
    token = await run_in_threadpool(common_of(request).authority.token_of, authorization, address_of(request))
    request.state.user = token.principal.user
    return replace(token, principal=replace(token.principal, request_id=request.state.request_id))


def once(
    request: Request,
    principal: Principal,
    asked: msgspec.Struct,
    write: Callable[[], StoredAnswer],
    places: Places,
    answered: Callable[[StatementOutcome], bytes | None],
) -> bytes:
    """The answer of a write, which is done once for each `Idempotency-Key` that the request may have.

    Args:
        answered: as in `idempotency.KeyedRequest`.

    Raises:
        InvalidArgument, Conflict: as `Writes.once`.
    """
    key = request.headers.get("idempotency-key")
    if key is None:
        return write().answer
    content = request.url.path.encode() + b"\n" + msgspec.json.encode(asked, enc_hook=raw)
    return common_of(request).writes.once(principal.user, key, Keyed(content, places, answered), write)


@asynccontextmanager
async def admitted(request: HTTPConnection) -> AsyncIterator[Principal]:
    """Who the request is from, counted among that user's requests until it is answered.

    Raises:
        Declined: the request has no token that works, or the user has too many requests.
    """
    token = await caller(request)
    with common_of(request).allowance.of(token.principal.user):
        yield token.principal


@asynccontextmanager
async def ended_with(request: Request) -> AsyncIterator[Cancellation]:
    """Cancels when the client goes away during the block. The body was read before."""
    cancellation = Cancellation()
    watching = asyncio.create_task(_watch(request, cancellation))
    try:
        yield cancellation
    finally:
        watching.cancel()


async def _watch(request: Request, cancellation: Cancellation) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass  # the end of a body that was read already
    cancellation.cancel()
