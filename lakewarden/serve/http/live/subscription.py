"""A subscription for as long as a client follows it: counted, and closed whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection

from lakewarden.serve.http.live.query import LiveRequest
from lakewarden.serve.http.live.source import LiveSource
from lakewarden.serve.http.live.stream import Following
from lakewarden.serve.http.requests import allowance_of, authority_of, lake_of
from lakewarden.serve.tokens import AccessToken


@asynccontextmanager
async def opened(
    connection: HTTPConnection, token: AccessToken, request: LiveRequest, following: Following
) -> AsyncIterator[LiveSource]:
    """The subscription, whose initial rows are ready.

    Raises:
        Declined: the user has too many requests or subscriptions.
        LakewardenError: as `SqlSession.subscribe`.
    """
    allowance, user = allowance_of(connection), token.principal.user
    with allowance.following(user):
        with allowance.of(user):
            source = await run_in_threadpool(partial(LiveSource, lake_of(connection), authority_of(connection), token, request))
        try:
            yield source
        finally:
            await asyncio.shield(following.blocking(source.close))
