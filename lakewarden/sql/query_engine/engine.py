"""The interface that runs queries: it takes a text and the rows of each relation in it, and has access to nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from lakewarden.base.workers.cancellation import Cancellation
from lakewarden.sql.query_engine.spool import Spool


@dataclass(frozen=True)
class Limits:
    """The limits of one query. All queries of the engine share its memory and threads."""

    seconds: float
    result_bytes: int
    """In memory."""
    spooled_bytes: int = 1 << 60
    """Of a result that goes to a file where it has more than `result_bytes`. As many as the disk takes, unless it is said."""
    cancellation: Cancellation = field(default_factory=Cancellation)


@dataclass(frozen=True)
class QueryRows:
    """A query's rows, and DuckDB's name of each column's type."""

    rows: pa.Table
    types: tuple[str, ...]


class QueryEngine(Protocol):
    """Runs the queries of every session of a process, in any number of threads at once.

    A query depends on its text and its relations, and leaves nothing that another could see. Every method may raise
    PermissionDenied, BadSyntax, InvalidArgument or Unsupported, each because of the query alone, and Canceled.
    """

    def check(self, sql: str, limits: Limits) -> None:
        """Refuses a text that is not a query, or that calls a function which does more than compute."""

    def run(self, sql: str, relations: Mapping[str, pa.Table], limits: Limits) -> QueryRows:
        """Returns the query's rows. It may name the given relations and its own CTEs, and no others.

        Raises:
            Unsupported: the result, the memory or the time would be more than the limits or the engine's settings allow.
        """

    def spool(self, sql: str, relations: Mapping[str, pa.Table], limits: Limits) -> tuple[Spool, tuple[str, ...]]:
        """As `run`, for a result of up to `limits.spooled_bytes`: one beyond `limits.result_bytes` is on disk. Returns the
        columns' types too.
        """

    def explain(self, sql: str, relations: Mapping[str, pa.Table], limits: Limits) -> str:
        """The plan of the query as text; raises as `run`."""
