"""What the protocols of one server have in common: where they listen, the warehouse, who may, how much of it, and the figures."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import prometheus_client

from lakewarden.base.clock import Clock, NewId, to_millis
from lakewarden.base.setting_sections import ServeSettings
from lakewarden.client import Lakehouse
from lakewarden.serve.authority import Authority, RequestDeclined
from lakewarden.serve.idempotency import Outcomes, Writes


@dataclass(frozen=True)
class Listening:
    """Where the server listens, and in how many processes. Both files of `tls`, in PEM, or neither."""

    host: str
    port: int
    flight_port: int | None = None
    """Of Flight SQL, which is not served without."""
    processes: int = 1
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    postgres_port: int | None = None
    """For PostgreSQL's clients; None for none."""
    peers: Path | None = None
    """A directory for the sockets of several processes that serve PostgreSQL's clients, which `serve` makes."""

    @property
    def urls(self) -> tuple[str, ...]:
        """Of HTTP, and of Flight SQL and PostgreSQL's protocol where they are served."""
        host, safe = f"[{self.host}]" if ":" in self.host else self.host, self.tls_certificate is not None
        http = f"{'https' if safe else 'http'}://{host}:{self.port}"
        flight = () if self.flight_port is None else (f"grpc{'+tls' if safe else ''}://{host}:{self.flight_port}",)
        return (http, *flight, *(() if self.postgres_port is None else (f"postgresql://{host}:{self.postgres_port}",)))


_LOG = logging.getLogger("lakewarden.serve")


class Figures:
    """What `/metrics` shows of one server process. Paths are those of the routes, and `postgres` with an
    SQLSTATE as its status, so that their number is bounded."""

    def __init__(self) -> None:
        registry = self.registry = prometheus_client.CollectorRegistry()
        self.answered = prometheus_client.Counter(
            "lakewarden_requests", "Requests answered.", ["path", "status"], registry=registry
        )
        self.seconds = prometheus_client.Histogram(
            "lakewarden_request_seconds", "Seconds to the answer.", ["path"], registry=registry
        )
        self.running = prometheus_client.Gauge("lakewarden_requests_running", "Requests that run now.", registry=registry)

    def note(self, path: str, status: str, began: float, *line: str) -> None:
        """Counts a request that has ended, and writes its line in the log: its id, its user, and what it was."""
        took = time.perf_counter() - began
        self.answered.labels(path, status).inc()
        self.seconds.labels(path).observe(took)
        _LOG.info("%s %s %.1f ms", " ".join(line), status, took * 1000)


# What one user may take of one server process: requests at the same time and in a minute, and subscriptions.
_MINUTE = 60_000


@dataclass
class Allowance:
    """Counts by user. Safe for threads."""

    settings: ServeSettings
    clock: Clock
    _running: Counter[str] = field(default_factory=Counter)
    _taken: Counter[str] = field(default_factory=Counter)
    _following: Counter[str] = field(default_factory=Counter)
    _minute: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, user: str) -> AbstractContextManager[None]:
        """Counts a request of the user for as long as it runs.

        Raises:
            Declined: the user runs too many at the same time, or had too many in this minute.
        """
        return self._counted(self._running, user, self._begin)

    def sending(self, user: str) -> AbstractContextManager[None]:
        """Counts a request that was let in for as long as its answer is sent: never refused."""
        return self._counted(self._running, user, lambda _: None)

    def following(self, user: str) -> AbstractContextManager[None]:
        """Counts a subscription of the user for as long as it is followed.

        Raises:
            Declined: the user, or all users together, follow too many.
        """
        return self._counted(self._following, user, self._follow)

    @contextmanager
    def _counted(self, counter: Counter[str], user: str, check: Callable[[str], None]) -> Iterator[None]:
        with self._lock:
            check(user)
            counter[user] += 1
        try:
            yield
        finally:
            with self._lock:
                counter[user] -= 1
                if not counter[user]:
                    del counter[user]

    def _follow(self, user: str) -> None:
        mine, most = self.settings.subscriptions_per_user, self.settings.subscriptions
        if self._following[user] >= mine:
            raise RequestDeclined(
                429, f"user {user!r} follows {mine:,} subscriptions: end one first (serve.subscriptions_per_user)"
            )
        if self._following.total() >= most:
            raise RequestDeclined(429, f"{most:,} subscriptions are followed here: try again later (serve.subscriptions)")

    def _begin(self, user: str) -> None:
        most, rate = self.settings.concurrent_per_user, self.settings.requests_per_minute
        minute = to_millis(self.clock()) // _MINUTE
        if minute != self._minute:
            self._minute = minute
            self._taken.clear()
        if self._taken[user] >= rate:
            raise RequestDeclined(
                429,
                f"user {user!r} sent {rate:,} requests in this minute: wait for the next (serve.requests_per_minute)",
                retry_after=_MINUTE // 1000 - to_millis(self.clock()) % _MINUTE // 1000,
            )
        if self._running[user] >= most:
            raise RequestDeclined(429, f"user {user!r} runs {most:,} requests: wait for one to end (serve.concurrent_per_user)")
        self._taken[user] += 1


@dataclass(frozen=True)
class Common:
    lake: Lakehouse
    authority: Authority
    allowance: Allowance
    figures: Figures
    writes: Writes

    @property
    def new_id(self) -> NewId:
        return self.lake.warehouse.new_id

    @classmethod
    def of(cls, lake: Lakehouse) -> Common:
        """For an open warehouse, which stays the caller's to close."""
        warehouse = lake.warehouse
        allowance = Allowance(warehouse.settings.serve, warehouse.clock)
        return cls(lake, Authority(warehouse), allowance, Figures(), Writes(warehouse.state, Outcomes(warehouse)))


_GIVEN = re.compile(r"[0-9a-fA-F-]{8,64}")
"""A client's own id: a UUID or the id of a trace. The audit log keeps it, so it must not hold a user's name."""


def request_id_of(given: str, new_id: NewId) -> str:
    """The client's own id, where it sent one that can be kept; else a new one."""
    return given if _GIVEN.fullmatch(given) else new_id()
