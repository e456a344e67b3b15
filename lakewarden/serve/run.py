"""Starts the server: one process or several, each with the warehouse open, and each at both ports."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import msgspec
import uvicorn
from anyio.to_thread import current_default_thread_limiter
from starlette.applications import Starlette

from lakewarden.base.settings import load_settings
from lakewarden.client import Lakehouse
from lakewarden.errors import InvalidArgument, LakewardenError
from lakewarden.ingest.relays import NO_TOPIC_SECONDS
from lakewarden.serve.common import Common, Listening
from lakewarden.serve.flight.service import served
from lakewarden.serve.http.app import application
from lakewarden.serve.http.subscriptions import Following
from lakewarden.serve.postgres.server import postgres_clients

# The relays of tables with `log.system` kafka, which run by themselves while a server does.
_LOGGER = logging.getLogger("lakewarden.serve.run")
_STOPPED_WITHIN = 5.0
"""Seconds; a look at a broker that is away may take longer, and ends with the process."""


@contextmanager
def relaying_meanwhile(lake: Lakehouse) -> Iterator[None]:
    """Publishes in the block, from a thread, what topics lack. Where no table has one, it looks at the catalog now and then."""
    stopping = threading.Event()
    thread = threading.Thread(target=_relay, args=(lake, stopping), name="relays", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(_STOPPED_WITHIN)


def _relay(lake: Lakehouse, stopping: threading.Event) -> None:
    with lake.topics.relaying_in_background() as relays:
        pause = 0.0
        while not stopping.wait(pause):
            try:
                for each in relays.look():
                    if each.error is not None:
                        _LOGGER.warning("relay of %s: %s: %s", each.table, each.error.code, each.error.message)
                pause = relays.pause()
            except LakewardenError as error:  # the catalog cannot be read
                _LOGGER.warning("relays: %s: %s", error.code, error.message)
                pause = NO_TOPIC_SECONDS


_WAREHOUSE = "LAKEWARDEN_WAREHOUSE"
_LISTENING = "LAKEWARDEN_LISTENING"
_FROM_SUBSCRIBERS = 64 << 10
"""Bytes of a message that a client of a WebSocket may send, though none has a meaning."""
_FACTORY = "lakewarden.serve.run:from_environment"
_STOPPING = "stopping"
_THREADS = 256
"""Requests of a process that work at the same time. Of the default, 40, one user's slow requests would take all."""
_HUNG_SECONDS = 60
"""A process that says nothing for so long is killed and replaced. On a busy machine, uvicorn's 5 end one that works."""
_IDLE_SECONDS = 75
"""An idle connection is kept longer than balancers and clients keep theirs (often 60 s), or they send into one that has ended."""


def serve(warehouse: str, listening: Listening) -> None:
    """Serves until SIGTERM or SIGINT. Then no connection is accepted, and every request that was begun gets its answer."""
    # uvicorn raises the signal again behind its stop, as if that had failed
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with TemporaryDirectory(prefix="lakewarden-") as peers:
        among = replace(listening, peers=Path(peers) if listening.processes > 1 else None)
        os.environ[_WAREHOUSE] = warehouse  # the processes that uvicorn starts have nothing else
        os.environ[_LISTENING] = msgspec.json.encode(among, enc_hook=str).decode()
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
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_worker_healthcheck=_HUNG_SECONDS,
            ws="websockets-sansio",
            ws_max_size=_FROM_SUBSCRIBERS,
            timeout_graceful_shutdown=load_settings(os.environ).serve.stop_seconds,
        )


def check_free(listening: Listening) -> None:
    """A port that is taken is one clear line here, not one for each process.

    Raises:
        InvalidArgument: a port is taken, or the address is not this machine's.
    """
    for use, port in (("HTTP", listening.port), ("Flight SQL", listening.flight_port), ("PostgreSQL", listening.postgres_port)):
        if port is None:
            continue
        host = listening.host
        try:
            with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
                pass
        except OSError as error:
            raise InvalidArgument(f"port {port} at {host}, for {use}: {error.strerror}") from error


def from_environment() -> Starlette:
    """The application of one process, which opens its warehouse now and closes it after the last request."""
    _log_to_stderr()
    lake = Lakehouse.open(os.environ[_WAREHOUSE], create=False)
    common, listening = Common.of(lake), _listening(os.environ[_LISTENING])
    app = application(common)
    flight = nullcontext() if listening.flight_port is None else served(common, listening)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = _THREADS
        _tell_of_the_stop(app.state.following, listening)
        noted = lake.noted("serve", " ".join(listening.urls))
        with lake, noted, relaying_meanwhile(lake), flight:
            async with postgres_clients(common, listening):
                gc.freeze()  # what stays is not looked through again and again while the rows of requests come and go
                yield

    app.router.lifespan_context = lifespan
    return app


def _listening(text: str) -> Listening:
    return msgspec.json.decode(text, type=Listening, dec_hook=lambda kind, value: kind(value))  # a Path, as text


def _tell_of_the_stop(following: Following, listening: Listening) -> None:
    """A stop takes its time, and is answered at once. Subscriptions have no end of their own: a signal ends them, and then
    reaches uvicorn, which waits until they have ended."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)

        def stop(number: int, frame: FrameType | None, before: Any = before) -> None:
            _say_stop(listening)
            loop.call_soon_threadsafe(following.stopping.set)
            before(number, frame)

        signal.signal(number, stop)


def _say_stop(listening: Listening) -> None:
    """Past Python's own buffers, which the signal may have interrupted; of several processes one says it."""
    try:
        if listening.peers is not None:
            (listening.peers / _STOPPING).touch(exist_ok=False)
    except OSError:  # another process has said it
        return
    seconds = load_settings(os.environ).serve.stop_seconds
    os.write(sys.stderr.fileno(), f"Stopping: requests that were begun have {seconds} s to end.\n".encode())


def _log_to_stderr() -> None:
    """One line for each request: its id, user, method, path, status and time."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("lakewarden.serve")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
