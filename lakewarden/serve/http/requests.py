"""What every endpoint does first: who the request is from, whether that user may have another, and its body within the bound."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection, Request

from lakewarden.base.cancellation import Cancellation
from lakewarden.base.exact_json import decoded_as, raw
from lakewarden.base.scope import TableName
from lakewarden.catalog.access import Principal
from lakewarden.client import Lakehouse
from lakewarden.serve.authority import Authority, RequestDeclined
from lakewarden.serve.common import Allowance
from lakewarden.serve.idempotency import KeyedRequest as Keyed
from lakewarden.serve.idempotency import StatementOutcome, StoredAnswer, Writes
from lakewarden.serve.tokens import AccessToken

T = TypeVar("T")


def lake_of(request: HTTPConnection) -> Lakehouse:
    found = request.app.state.lake
    assert isinstance(found, Lakehouse), "the application is made with one"
    return found


def authority_of(request: HTTPConnection) -> Authority:
    found = request.app.state.authority
    assert isinstance(found, Authority), "the application is made with one"
    return found


def allowance_of(request: HTTPConnection) -> Allowance:
    found = request.app.state.allowance
    assert isinstance(found, Allowance), "the application is made with one"
    return found


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
    try:
        return decoded_as(kind, bytes(found), strict=strict)
    except msgspec.DecodeError:
        raise
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"it is not UTF-8 text at byte {error.start}") from error
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from error
    except RecursionError as error:
        raise msgspec.DecodeError("it is nested too deeply") from error


async def caller(request: HTTPConnection, authorization: str | None = None) -> AccessToken:
    """The token of the request's header, or of `authorization` in its place.

    Raises:
        Declined: the request has no token that works.
    """
    authorization = request.headers.get("authorization", authorization)
    token = await run_in_threadpool(authority_of(request).token_of, authorization, address_of(request))
    request.state.user = token.principal.user
    return replace(token, principal=replace(token.principal, request_id=request.state.request_id))


def once(
    request: Request,
    principal: Principal,
    asked: msgspec.Struct,
    write: Callable[[], StoredAnswer],
    places: Callable[[], Sequence[TableName | None]],
    answered: Callable[[StatementOutcome], bytes | None],
) -> bytes:
    """The answer of a write, which is done once for each `Idempotency-Key` that the request may have.

    Args:
        places, answered: as in `idempotency.Request`.

    Raises:
        InvalidArgument, Conflict: as `Writes.once`.
    """
    key = request.headers.get("idempotency-key")
    if key is None:
        return write().answer
    writes = request.app.state.writes
    assert isinstance(writes, Writes), "the application is made with one"
    content = request.url.path.encode() + b"\n" + msgspec.json.encode(asked, enc_hook=raw)
    return writes.once(principal.user, key, Keyed(content, places, answered), write)


@asynccontextmanager
async def admitted(request: HTTPConnection) -> AsyncIterator[Principal]:
    """Who the request is from, counted among that user's requests until it is answered.

    Raises:
        Declined: the request has no token that works, or the user has too many requests.
    """
    token = await caller(request)
    with allowance_of(request).of(token.principal.user):
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
