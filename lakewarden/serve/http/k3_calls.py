"""`POST /k3/v1/{call}`: each call of `lake.k3`, its fields in camelCase, its answer as K3's wire form has it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import get_type_hints

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from lakewarden.base.cancellation import Cancellation
from lakewarden.base.commit_metadata import attached
from lakewarden.base.scope import TableName
from lakewarden.catalog.access import Principal
from lakewarden.client import Lakehouse
from lakewarden.client.k3 import K3
from lakewarden.client.k3.answers import wrote
from lakewarden.errors import NotFound
from lakewarden.serve.http.requests import admitted, body_of, ended_with, lake_of, once
from lakewarden.serve.idempotency import StatementOutcome, StoredAnswer
from lakewarden.sql.results import WriteStrategy

CALLS = (
    *("createBucket", "getEngine", "enableEngine", "disableEngine"),
    *("createTable", "createTablePipeline", "getTable", "listTables", "deleteTable"),
    *("insert", "merge", "update", "deleteRows", "execute"),
    *("history", "optimize", "vacuum", "compact", "restore"),
    *("listRules", "getRule", "updateRule", "triggerIngest"),
)
_READS = ("getEngine", "getTable", "listTables", "history", "listRules", "getRule")
_NESTED = ("columns",)
"""Fields with fields of their own. Names in `rows`, `set` and `options` are the caller's."""


def snake(name: str) -> str:
    """`createTable` → `create_table`."""
    return re.sub("([A-Z])", lambda found: f"_{found[1].lower()}", name)


def _request(call: str) -> type[msgspec.Struct]:
    """The body of a call: the arguments of its method."""
    method = getattr(K3, snake(call))
    kinds = get_type_hints(method)
    fields: list[tuple[str, object] | tuple[str, object, object]] = []
    for one in [*inspect.signature(method).parameters.values()][1:]:
        default = {} if isinstance(one.default, Mapping) else one.default
        fields.append((one.name, kinds[one.name]) if one.default is one.empty else (one.name, kinds[one.name], default))
    name = f"{call[0].upper()}{call[1:]}Request"
    return msgspec.defstruct(name, fields, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True)


REQUESTS: Mapping[str, type[msgspec.Struct]] = {call: _request(call) for call in CALLS}
ANSWERS: Mapping[str, object] = {call: get_type_hints(getattr(K3, snake(call)), include_extras=True)["return"] for call in CALLS}
"""What a call answers: what its method returns."""


async def k3_call(request: Request) -> Response:
    async with admitted(request) as principal:
        call = request.path_params["call"]
        if call not in REQUESTS:
            raise NotFound(f"K3 has no call {call!r}; its calls are {', '.join(CALLS)}")
        asked = await body_of(request, REQUESTS[call], strict=False)
        async with ended_with(request) as cancellation:
            body = await run_in_threadpool(_answered, request, _Call(principal, call, asked, cancellation))
    return Response(body, media_type="application/json")


@dataclass(frozen=True)
class _Call:
    principal: Principal
    name: str
    asked: msgspec.Struct
    cancellation: Cancellation


def _answered(request: Request, call: _Call) -> bytes:
    lake = lake_of(request)
    if call.name in _READS:
        return _answer(lake, call).answer
    return once(request, call.principal, call.asked, lambda: _answer(lake, call), lambda: [_place(call)], partial(_rebuilt, call))


def _place(call: _Call) -> TableName | None:
    """The table that a call writes rows to."""
    if call.name == "execute" or not hasattr(call.asked, "table"):
        return None
    return TableName(str(getattr(call.asked, "bucket", "")), str(call.asked.table))


def _rebuilt(call: _Call, outcome: StatementOutcome) -> bytes | None:
    """The answer to rows that were written; None for the other calls, whose answers say more than what is left of them."""
    if call.name != "insert":
        return None
    strategy = WriteStrategy.NON_KEYED_INSERT if outcome.version is not None else WriteStrategy.KEYED_INSERT_BULK
    table = str(getattr(call.asked, "table", ""))
    return msgspec.json.encode(
        wrote(table, outcome.rows, strategy, pending=outcome.version is None and outcome.rows > 0, version=outcome.version)
    )


def _answer(lake: Lakehouse, call: _Call) -> StoredAnswer:
    given = {name: _native(name, getattr(call.asked, name)) for name in call.asked.__struct_fields__}
    k3 = K3(lake.sessions.served_services, call.principal, call.cancellation)
    with attached(getattr(call.asked, "user_metadata", None)):  # without the call's look at types, by which the body was read
        found = inspect.unwrap(getattr(K3, snake(call.name)))(k3, **given)
    body = msgspec.json.encode(found)
    return StoredAnswer(body, None if call.name == "execute" and "rows" in found else body)


def _native(name: str, value: object) -> object:
    """Nested fields by the names of `lake.k3`."""
    if name not in _NESTED or not isinstance(value, list | tuple):
        return value
    return [{snake(key): one for key, one in each.items()} if isinstance(each, Mapping) else each for each in value]
