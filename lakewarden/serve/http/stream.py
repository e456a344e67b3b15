"""An answer that is sent piece by piece: it counts among its user's requests until the client has taken all of it.

Its rows are in memory meanwhile. Without that, a client that reads slowly could hold any number of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from lakewarden.catalog.access import Principal
from lakewarden.serve.http.requests import allowance_of


class StreamedAnswer(StreamingResponse):
    def __init__(self, request: Request, principal: Principal, pieces: Iterator[bytes], media_type: str) -> None:
        super().__init__(pieces, media_type=media_type)
        self._sending = allowance_of(request).sending(principal.user)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._sending:
            await super().__call__(scope, receive, send)
