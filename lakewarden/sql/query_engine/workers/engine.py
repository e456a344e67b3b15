"""`QueryEngine` in worker processes: for queries of sessions that the process does not trust."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Literal

import pyarrow as pa

from lakewarden.base.settings import SqlSettings
from lakewarden.base.workers.frames import encoded
from lakewarden.base.workers.pool import Pool
from lakewarden.sql.query_engine.engine import Limits, QueryRows
from lakewarden.sql.query_engine.spool import Spool
from lakewarden.sql.query_engine.workers.bounds import QueryBounds
from lakewarden.sql.query_engine.workers.messages import End, EngineRequest
from lakewarden.sql.query_engine.workers.worker import Worker, no_rows

_REMEMBERED = 4096
"""How many texts that passed are kept."""

_CALLED = "processes for queries (sql.workers, sql.timeout_seconds)"

_pools: dict[tuple[QueryBounds, int], Pool[Worker]] = {}
_lock = threading.Lock()


def pool_of_process(settings: SqlSettings) -> Pool[Worker]:
    """The workers that all warehouses of this process with the same bounds share."""
    bounds = QueryBounds(settings.memory_bytes, settings.threads)
    with _lock:
        pool = _pools.get((bounds, settings.workers))
        if pool is None:
            pool = _pools[(bounds, settings.workers)] = Pool(partial(Worker.start, bounds), settings.workers, _CALLED)
        return pool


class Workers:
    """`QueryEngine` on the workers of a pool, which it holds until `close`. Safe for threads."""

    def __init__(self, pool: Pool[Worker]) -> None:
        self._pool = pool
        self._passed: set[bytes] = set()
        """Digests of texts that were checked: a text contains values of rows, which must not stay in memory."""
        pool.hold()

    @classmethod
    def of(cls, settings: SqlSettings) -> Workers:
        return cls(pool_of_process(settings))

    def check(self, sql: str, limits: Limits) -> None:
        digest = sha256(encoded(sql)).digest()
        if digest not in self._passed:
            self._call(_request("check", sql, limits), {}, limits)
            if len(self._passed) >= _REMEMBERED:
                self._passed.clear()
            self._passed.add(digest)

    def run(self, sql: str, relations: Mapping[str, pa.Table], limits: Limits) -> QueryRows:
        rows: list[pa.Table] = []
        end = self._call(_request("run", sql, limits), relations, limits, rows.append)
        return QueryRows(pa.concat_tables(rows), end.types)

    def spool(self, sql: str, relations: Mapping[str, pa.Table], limits: Limits) -> tuple[Spool, tuple[str, ...]]:
        found = Spool(limits.result_bytes)
        end = self._call(_request("run", sql, replace(limits, result_bytes=limits.spooled_bytes)), relations, limits, found.add)
        return found, end.types

    def explain(self, sql: str, relations: Mapping[str, pa.Table], limits: Limits) -> str:
        return self._call(_request("explain", sql, limits), relations, limits).plan

    def close(self) -> None:
        """Ends the workers, unless another warehouse of this process uses them."""
        self._pool.release()

    def _call(
        self,
        request: EngineRequest,
        relations: Mapping[str, pa.Table],
        limits: Limits,
        take: Callable[[pa.Table], None] = no_rows,
    ) -> End:
        with self._pool.worker(limits.seconds, limits.cancellation) as worker:
            return worker.call(request, relations, limits, take)


def _request(act: Literal["check", "run", "explain"], sql: str, limits: Limits) -> EngineRequest:
    return EngineRequest(act, encoded(sql), limits.seconds, limits.result_bytes)
