"""The figures of one server process, for Prometheus."""

from __future__ import annotations

from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


@dataclass(frozen=True)
class Figures:
    """What `/metrics` shows of one server process. Paths are those of the routes, and `postgres` with an
    SQLSTATE as its status, so that their number is bounded."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    answered: Counter = field(init=False)
    seconds: Histogram = field(init=False)
    running: Gauge = field(init=False)

    def __post_init__(self) -> None:
        for name, made in (
            ("answered", Counter("lakewarden_requests", "Requests answered.", ["path", "status"], registry=self.registry)),
            ("seconds", Histogram("lakewarden_request_seconds", "Seconds to the answer.", ["path"], registry=self.registry)),
            ("running", Gauge("lakewarden_requests_running", "Requests that run now.", registry=self.registry)),
        ):
            object.__setattr__(self, name, made)
