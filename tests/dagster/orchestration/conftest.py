"""The code location as Dagster loads it: fresh, over a warehouse that the environment names; and what takes its alerts."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer

import dagster as dg
import pytest

from lakewarden.dagster import build_definitions

Load = Callable[[str], dg.Definitions]


@pytest.fixture
def load() -> Load:
    """Builds the definitions anew; they depend on the warehouse of that moment."""
    return build_definitions


@dataclass
class Receiver:
    """Takes POSTs, and keeps them."""

    url: str
    bodies: list[dict[str, object]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            kept.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            kept.headers.append(dict(self.headers))
            self.send_response({"/gone": 404, "/moved": 302}.get(self.path, 204))
            self.send_header("Location", "/elsewhere")
            if self.path == "/slow":
                self.flush_headers()
                for _ in range(30):
                    self.wfile.write(b"X")
                    time.sleep(0.1)
            self.end_headers()

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        kept = Receiver(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield kept
        server.shutdown()
        thread.join()
