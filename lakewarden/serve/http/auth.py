"""`/v1/auth/login`, `/v1/auth/refresh` and `/v1/auth/logout`."""

from __future__ import annotations

from dataclasses import asdict

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lakewarden.serve.http.requests import address_of, body_of, caller, common_of

_NOT_KEPT = {"Cache-Control": "no-store"}


class LoginRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    user: str
    password: str

    __repr__ = object.__repr__


class RefreshRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    refresh_token: str

    __repr__ = object.__repr__


async def login(request: Request) -> Response:
    given = await body_of(request, LoginRequest)
    granted = await run_in_threadpool(common_of(request).authority.login, given.user, given.password, address_of(request))
    return JSONResponse(asdict(granted), headers=_NOT_KEPT)


async def refresh(request: Request) -> Response:
    given = await body_of(request, RefreshRequest)
    granted = await run_in_threadpool(common_of(request).authority.refresh, given.refresh_token, address_of(request))
    return JSONResponse(asdict(granted), headers=_NOT_KEPT)


async def logout(request: Request) -> Response:
    token = await caller(request)
    await run_in_threadpool(common_of(request).authority.logout, token)
    return JSONResponse({"message": "logged out"})
