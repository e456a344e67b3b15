"""What runs queries: it gets a text and the rows of each relation that the text may name, and reaches nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True)
class Limits:
    """What one query may take; the memory and the threads are those of all queries of the engine."""

    seconds: float
    result_bytes: int


@dataclass(frozen=True)
class Answer:
    """A query's rows, and DuckDB's name of each column's type."""

    rows: pa.Table
    types: tuple[str, ...]


class QueryEngine(Protocol):
    """Runs the queries of every session of a process, in any number of threads at once.

    A query is a function of its text and its relations: it leaves nothing behind that another could see. Every method may
    raise PermissionDenied, BadSyntax, InvalidArgument or Unsupported, each about the query alone.
    """

    def check(self, sql: str) -> None:
        """Refuses what is not a query, and one that calls a function which does more than compute."""

    def run(self, sql: str, relations: Mapping[str, pa.Table], limits: Limits) -> Answer:
        """The query's rows. It may name these relations and its own, and no other.

        Raises:
            Unsupported: the result, the memory or the time would be more than the limits or the engine's settings allow.
        """

    def explain(self, sql: str, relations: Mapping[str, pa.Table], limits: Limits) -> str:
        """The plan of the query as text; raises as `run`."""
