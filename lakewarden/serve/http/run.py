"""Starts the server: one process or several, each with the warehouse open."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from lakewarden.lakehouse import Lakehouse
from lakewarden.serve.http.app import application
from lakewarden.settings import load_settings

_WAREHOUSE = "LAKEWARDEN_WAREHOUSE"
_FACTORY = "lakewarden.serve.http.run:from_environment"


@dataclass(frozen=True)
class Listening:
    """Where the server listens, and in how many processes. Both files of `tls`, in PEM, or neither."""

    host: str
    port: int
    processes: int = 1
    tls_certificate: Path | None = None
    tls_key: Path | None = None

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls_certificate else 'http'}://{host}:{self.port}"


def serve(warehouse: str, listening: Listening) -> None:
    """Serves until SIGTERM or SIGINT. Then no connection is accepted, and every request that was begun gets its answer."""
    os.environ[_WAREHOUSE] = warehouse  # the processes that uvicorn starts have nothing else
    uvicorn.run(
        _FACTORY,
        factory=True,
        host=listening.host,
        port=listening.port,
        workers=listening.processes,
        ssl_certfile=listening.tls_certificate,
        ssl_keyfile=listening.tls_key,
        log_level="warning",
        server_header=False,
        access_log=False,
        timeout_graceful_shutdown=load_settings(os.environ).serve.stop_seconds,
    )


def from_environment() -> Starlette:
    """The application of one process, which opens its warehouse now and closes it after the last request."""
    _log_to_stderr()
    lake = Lakehouse.open(os.environ[_WAREHOUSE], create=False)
    app = application(lake)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            lake.close()

    app.router.lifespan_context = lifespan
    return app


def _log_to_stderr() -> None:
    """One line for each request: its id, user, method, path, status and time."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("lakewarden.serve")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
