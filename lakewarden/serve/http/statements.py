"""`POST /v1/api/sql`: statements of one user in one role, answered as JSON, or one query as an Arrow stream."""

from __future__ import annotations

import time
from collections.abc import Iterator
from io import BytesIO
from typing import Annotated, cast

import msgspec
import pyarrow as pa
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from lakewarden.base.arrays import taken
from lakewarden.base.cancellation import Cancellation
from lakewarden.base.exact_json import JsonNumber
from lakewarden.base.json_values import json_rows
from lakewarden.base.scope import TableName
from lakewarden.catalog.access import Principal
from lakewarden.client import Lakehouse
from lakewarden.client.answers import answer
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.serve.http.requests import admitted, body_of, common_of, ended_with, lake_of, once
from lakewarden.serve.idempotency import StatementOutcome, StoredAnswer, places_of
from lakewarden.sql.dialect import Value
from lakewarden.sql.results import AffectedRows, Events, OneLine, Result, ResultRows
from lakewarden.sql.statement import gives_rows
from lakewarden.tables.freshness import Freshness, check_freshness

# An answer that is sent piece by piece: it counts among its user's requests until the client has taken all of it.
#
# Its rows are in memory meanwhile. Without that, a client that reads slowly could hold any number of them.


class StreamedAnswer(StreamingResponse):
    def __init__(self, request: Request, principal: Principal, pieces: Iterator[bytes], media_type: str) -> None:
        super().__init__(pieces, media_type=media_type)
        self._sending = common_of(request).allowance.sending(principal.user)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._sending:
            await super().__call__(scope, receive, send)


ARROW = "application/vnd.apache.arrow.stream"
_JSON = "application/json"
_PIECE_ROWS = 8_192

_SCALAR = {"anyOf": [{"type": kind} for kind in ("string", "number", "boolean", "null")]}
_PARAMS = Meta(extra_json_schema={"items": {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR}]}})


class SqlRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body. `params` are the values of `?`, in order over all statements, or of `$1`, `$2`; an array is a list."""

    sql: str
    params: Annotated[list[object], _PARAMS] = []
    namespace: str | None = None
    freshness: str | None = None

    def __post_init__(self) -> None:
        for number, value in enumerate(self.params, 1):
            for one in value if isinstance(value, list) else (value,):
                if isinstance(one, list | dict):
                    raise ValueError(f"parameter {number} is neither a text, number, truth value or null, nor a list of them")
                if isinstance(one, JsonNumber) and one.nearest is None:
                    raise ValueError(f"parameter {number} is out of DOUBLE's range, which is 64 bits")

    @property
    def values(self) -> list[Value]:
        """The parameters. A number is DOUBLE where a DOUBLE is written so, else DECIMAL, which is exact."""
        return [cast("Value", tuple(map(_number, one)) if isinstance(one, list) else _number(one)) for one in self.params]


def _number(value: object) -> object:
    return value.nearest if isinstance(value, JsonNumber) and value.is_double else value


async def sql(request: Request) -> Response:
    async with admitted(request) as principal:
        asked = await body_of(request, SqlRequest)
        async with ended_with(request) as cancellation:
            if ARROW in request.headers.get("accept", ""):
                table = await run_in_threadpool(_queried, lake_of(request), principal, asked, cancellation)
                return _answer(request, principal, _stream(table), table.num_rows, ARROW)
            return await run_in_threadpool(_answered, request, principal, asked, cancellation)


def _answered(request: Request, principal: Principal, asked: SqlRequest, cancellation: Cancellation) -> Response:
    """Rows are encoded while they are sent: as Python's objects they would take forty times their memory."""
    lake, began = lake_of(request), time.perf_counter()
    run: list[list[OneLine]] = []

    def write() -> StoredAnswer:
        whole = [_whole(result) for result in _run(lake, principal, asked, cancellation)]
        run.append(whole)
        return _kept(whole, began)

    def places() -> list[TableName | None]:
        return places_of(lake.sessions.served(principal, asked.namespace).parsed(asked.sql, asked.values), asked.namespace)

    kept = once(request, principal, asked, write, places, lambda outcome: b"".join(_encoded([_affected(outcome)], began)))
    if not run:
        return Response(kept, media_type=_JSON)
    (results,) = run
    rows = sum(result.table.num_rows for result in results if isinstance(result, ResultRows))
    return _answer(request, principal, _encoded(results, began), rows, _JSON)


def _affected(outcome: StatementOutcome) -> AffectedRows:
    """What a statement of which the answer was lost would have answered, without what explains it."""
    return AffectedRows(outcome.rows, pending_drain=outcome.version is None, version=outcome.version)


def _answer(request: Request, principal: Principal, pieces: Iterator[bytes], rows: int, media_type: str) -> Response:
    if rows <= _PIECE_ROWS:
        return Response(b"".join(pieces), media_type=media_type)
    return StreamedAnswer(request, principal, pieces, media_type)


def _run(lake: Lakehouse, principal: Principal, asked: SqlRequest, cancellation: Cancellation) -> list[Result]:
    session = lake.sessions.served(principal, asked.namespace)
    return session.sql(asked.sql, freshness=_freshness(asked), params=asked.values, cancellation=cancellation)


def _queried(lake: Lakehouse, principal: Principal, asked: SqlRequest, cancellation: Cancellation) -> pa.Table:
    """The rows of a text that is one query. Another text does nothing: its answer could not be shown.

    Raises:
        InvalidArgument: it is not one query.
    """
    session = lake.sessions.served(principal, asked.namespace)
    statements = session.parsed(asked.sql, asked.values)
    if len(statements) != 1 or not gives_rows(statements[0]):
        raise InvalidArgument(
            "an Arrow stream is the answer to one query, and this text is not a query; nothing was done. Accept application/json"
        )
    (found,) = session.run(statements, freshness=_freshness(asked), cancellation=cancellation)
    assert isinstance(found, ResultRows), "a statement that gives rows"
    return found.table


def _freshness(asked: SqlRequest) -> Freshness | None:
    return None if asked.freshness is None else check_freshness(asked.freshness)


def _kept(results: list[OneLine], began: float) -> StoredAnswer:
    """Rows are not kept. A text of queries alone wrote nothing."""
    if all(isinstance(one, ResultRows) for one in results):
        return StoredAnswer(b"", None)
    kept = b"".join(_encoded([one.first(0) if isinstance(one, ResultRows | AffectedRows) else one for one in results], began))
    return StoredAnswer(kept, kept)


def _encoded(results: list[OneLine], began: float) -> Iterator[bytes]:
    """The answer in pieces of at most so many rows as one may have."""
    took = round((time.perf_counter() - began) * 1000, 3)
    yield b'{"results":['
    for number, result in enumerate(results):
        yield b"," if number else b""
        yield from _object(result)
    yield b'],"took_ms":%s}' % msgspec.json.encode(took)


def _object(result: OneLine) -> Iterator[bytes]:
    """One statement's object, as `answer` has it."""
    if not isinstance(result, ResultRows):
        yield msgspec.json.encode(answer(result))
        return
    rest = {key: value for key, value in answer(result.first(0)).items() if key not in ("columns", "rows")}
    yield b'{"columns":%s,"rows":[' % msgspec.json.encode(result.columns)
    for number, part in enumerate(result.parts(_PIECE_ROWS)):
        yield b"," if number else b""
        yield msgspec.json.encode([*json_rows(part.to_pylist())])[1:-1]
    yield b"]%s}" % (b"," + msgspec.json.encode(rest)[1:-1] if rest else b"")


def _whole(result: Result) -> OneLine:
    if isinstance(result, Events):
        raise Unsupported("SUBSCRIBE has no end, and this call has one: follow it at /v1/subscribe or /v1/ws")
    return result


def _stream(table: pa.Table) -> Iterator[bytes]:
    """The stream in pieces of about a batch each."""
    sink = BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=65_536):
            writer.write_batch(batch)
            yield taken(sink)
    yield taken(sink)
