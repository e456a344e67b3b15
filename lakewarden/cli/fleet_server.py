"""Serves the page of the fleet beside Dagster's, under `lakewarden ui`."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType

from lakewarden.client import Lakehouse
from lakewarden.errors import LakewardenError


@contextmanager
def fleet_served(warehouse: str, host: str, port: int, dagster: str) -> Iterator[str]:
    """Serves the page at this port, or at a free one where it is taken; yields its URL. Each request looks anew.

    Args:
        dagster: the address of Dagster's pages, to whose forms links lead.
    """
    try:
        server = _Server(warehouse, host, port, dagster)
    except (OSError, OverflowError):
        server = _Server(warehouse, host, 0, dagster)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True)
    thread.start()
    shown = "127.0.0.1" if host == "0.0.0.0" else host
    try:
        yield f"http://{shown}:{server.server_port}/fleet"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    def __init__(self, warehouse: str, host: str, port: int, dagster: str) -> None:
        super().__init__((host, port), _Handler)
        self.warehouse = warehouse
        self.dagster = dagster


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:  # http.server calls it so
        if self.path.partition("?")[0] not in ("/", "/fleet"):
            self._answer(404, "text/plain", "the page is at /fleet")
            return
        from lakewarden.client.fleet_page import HEADERS, fleet_page  # at the first request: the template engine takes time

        try:
            with Lakehouse.open(self.server.warehouse, create=False) as lake:
                page = fleet_page(lake.fleet(), self.server.dagster)
        except LakewardenError as error:
            self._answer(503, "text/plain", f"{error.code}: {error.message}")
            return
        self._answer(200, "text/html", page, HEADERS)

    def _answer(self, status: int, kind: str, text: str, more: Mapping[str, str] = MappingProxyType({})) -> None:
        data = text.encode()
        self.send_response(status)
        own = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(data))}
        for name, value in {**own, **more}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # as above
        """Says nothing: `ui` speaks to a person."""
