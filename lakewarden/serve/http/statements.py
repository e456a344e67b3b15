"""`POST /v1/api/sql`: statements of one user in one role, answered as JSON, or one query as an Arrow stream."""

from __future__ import annotations

import time
from collections.abc import Iterator
from io import BytesIO

import msgspec
import pyarrow as pa
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from lakewarden.access.gate import Principal
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.lakehouse import Lakehouse
from lakewarden.lakehouse.answers import answer
from lakewarden.operations.reading.freshness import check_freshness
from lakewarden.serve.http.idempotency import Done
from lakewarden.serve.http.requests import admitted, body_of, ended_with, lake_of, once
from lakewarden.sql.results import Events, OneLine, Result, Rows
from lakewarden.workers.cancellation import Cancellation

ARROW = "application/vnd.apache.arrow.stream"


class SqlRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body. `params` are the values of `?`, in order over all statements, or of `$1`, `$2`."""

    sql: str
    params: list[str | int | float | bool | None] = []
    namespace: str | None = None
    freshness: str | None = None


async def sql(request: Request) -> Response:
    async with admitted(request) as principal:
        asked = await body_of(request, SqlRequest)
        async with ended_with(request) as cancellation:
            if ARROW in request.headers.get("accept", ""):
                results = await run_in_threadpool(_run, lake_of(request), principal, asked, cancellation)
                return StreamingResponse(_stream(_only_query(results)), media_type=ARROW)
            body = await run_in_threadpool(_answered, request, principal, asked, cancellation)
    return Response(body, media_type="application/json")


def _answered(request: Request, principal: Principal, asked: SqlRequest, cancellation: Cancellation) -> bytes:
    lake, began = lake_of(request), time.perf_counter()
    return once(request, principal, asked, lambda: _answer(_run(lake, principal, asked, cancellation), began))


def _run(lake: Lakehouse, principal: Principal, asked: SqlRequest, cancellation: Cancellation) -> list[Result]:
    freshness = None if asked.freshness is None else check_freshness(asked.freshness)
    session = lake.sessions.served(principal, asked.namespace)
    return session.sql(asked.sql, freshness=freshness, params=asked.params, cancellation=cancellation)


def _answer(results: list[Result], began: float) -> Done:
    """Rows are not kept. A text of queries alone wrote nothing."""
    whole = [_whole(result) for result in results]
    body = _encoded(whole, began)
    if all(isinstance(one, Rows) for one in whole):
        return Done(body, None)
    return Done(body, _encoded([one.first(0) if isinstance(one, Rows) else one for one in whole], began))


def _encoded(results: list[OneLine], began: float) -> bytes:
    shown = [answer(result) for result in results]
    return msgspec.json.encode({"results": shown, "took_ms": round((time.perf_counter() - began) * 1000, 3)})


def _whole(result: Result) -> OneLine:
    if isinstance(result, Events):
        raise Unsupported("SUBSCRIBE has no end, and this call has one: follow it at /v1/subscribe or /v1/ws")
    return result


def _only_query(results: list[Result]) -> pa.Table:
    match results:
        case [Rows() as found]:
            return found.table
        case _:
            raise InvalidArgument(
                f"an Arrow stream is the answer to one query; this text has {len(results)} statements, or no query"
            )


def _stream(table: pa.Table) -> Iterator[bytes]:
    """The stream in pieces of about a batch each."""
    sink = BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=65_536):
            writer.write_batch(batch)
            yield _taken(sink)
    yield _taken(sink)


def _taken(sink: BytesIO) -> bytes:
    """What was written since the last time."""
    found = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return found
