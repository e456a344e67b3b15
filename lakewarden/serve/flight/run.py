"""Starts and stops the service of one server process."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from lakewarden.errors import InvalidArgument
from lakewarden.serve.common import Common
from lakewarden.serve.flight.service import FlightSql

_CALLS = 256
"""At the same time in a process, a thread each; a user has `serve.concurrent_per_user` of them. Further ones are declined."""
_KEEPALIVE_MS = 30_000
"""A client that does not answer this long is gone, and so are its calls."""


@dataclass(frozen=True)
class Port:
    """Where the service listens. `shared`: with other processes of the same server. Both files of `tls`, in PEM, or neither."""

    host: str
    port: int
    shared: bool = False
    tls_certificate: Path | None = None
    tls_key: Path | None = None


@contextmanager
def served(common: Common, at: Port) -> Iterator[int]:
    """Serves during the block; yields the port. Behind it, no call is accepted, and those that were begun end first.

    Raises:
        InvalidArgument: the port cannot be listened at, or the certificate and its key are not valid.
    """
    settings = common.lake.warehouse.settings.serve
    with ThreadPoolExecutor(_CALLS, "flight") as threads:
        server = grpc.server(
            threads,
            handlers=[FlightSql.of(common).handler()],
            maximum_concurrent_rpcs=_CALLS,
            options=[
                ("grpc.max_receive_message_length", settings.body_bytes),
                ("grpc.so_reuseport", int(at.shared)),
                ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
                ("grpc.keepalive_timeout_ms", _KEEPALIVE_MS),
                ("grpc.http2.min_ping_interval_without_data_ms", _KEEPALIVE_MS // 3),
            ],
        )
        port = _listening(server, at)
        server.start()
        try:
            yield port
        finally:
            server.stop(settings.stop_seconds).wait()


def _listening(server: grpc.Server, at: Port) -> int:
    host = f"[{at.host}]" if ":" in at.host else at.host
    address = f"{host}:{at.port}"
    try:
        if at.tls_certificate is None or at.tls_key is None:
            return server.add_insecure_port(address)
        pair = (at.tls_key.read_bytes(), at.tls_certificate.read_bytes())
        return server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
    except RuntimeError as error:
        raise InvalidArgument(f"Flight SQL cannot listen at {address}: {error}") from error
