"""Computes a query partition by partition, and puts the answers together.

The operator's queries run in this process, or in Spark's executors where there are many partitions. Those of other sessions
run in the worker processes, which bound them, and never in an executor: their texts are not the operator's
(docs/decisions/0029).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic

import msgspec
import pyarrow as pa
from sqlglot import exp

from lakewarden.base.setting_sections import SqlSettings
from lakewarden.base.threads import Threads
from lakewarden.catalog.model import Table, TableSchema
from lakewarden.delta.reading.bounds import Bound, rows_within
from lakewarden.delta.reading.rows import FileGroup, nothing_but, number_of_rows
from lakewarden.errors import LakewardenError, Unsupported
from lakewarden.maintenance.open_table import open_table
from lakewarden.sql.context import Context
from lakewarden.sql.dialect import text_of
from lakewarden.sql.queries import answer
from lakewarden.sql.queries.answer import FederationFacts, decided
from lakewarden.sql.queries.federation_plan import PARTS, ColumnNames, FederatedQueries, UnclearName, split
from lakewarden.sql.queries.federation_shape import reason_against
from lakewarden.sql.queries.pushdown import Pushdown
from lakewarden.sql.query_engine.engine import Limits, for_duck
from lakewarden.sql.query_engine.in_process import engine_of_process
from lakewarden.sql.results import QueryStrategy, ResultRows
from lakewarden.storage.steps import in_one_step
from lakewarden.tables.fanout import SizedWork, done_and_failed, or_error
from lakewarden.tables.partitions import Apart, read_apart

_AT_ONCE = 2
"""Partitions at once in this process: one is read while another is computed."""


@dataclass(frozen=True)
class FederationText:
    """A query as it is federated: the two texts, and how the result looks."""

    query: FederatedQueries
    partial: str
    final: str
    names: tuple[str, ...]
    types: tuple[str, ...]


@dataclass(frozen=True)
class FederatedQuery:
    """An eventual query on one SHARED table. `sql` is `tree` as DuckDB reads it; `name` is the table's in it."""

    context: Context
    table: Table
    name: str
    tree: exp.Query
    sql: str
    pushdown: Pushdown

    def attempt(self) -> tuple[answer.AnswerPlan, ResultRows | None]:
        """Returns how the query is answered, and its answer if it was fanned out; None where it is to be run as one.

        Raises:
            LakewardenError: as `QueryEngine.run`, and as a read of the table.
        """
        warehouse = self.context.warehouse
        client = open_table(warehouse, self.table)
        wanted = self.pushdown.selection
        return read_apart(partial(client.reader.target, None), wanted, warehouse.cold, self._decide)

    def _decide(self, apart: Apart) -> tuple[answer.AnswerPlan, ResultRows | None]:
        settings = self.context.warehouse.settings.federation
        looked = FederationFacts(apart, settings.min_bytes)
        found = decided(looked)
        if found.strategy is not QueryStrategy.FEDERATED_SCAN:
            return found, None
        groups = apart.groups(settings.part_bytes)
        texts = self._texts(groups[0])
        if isinstance(texts, str):
            return decided(replace(looked, reason=texts)), None
        number = number_of_rows(apart.table, apart.files) if apart.wanted.number_only and apart.table else None
        return decided(replace(looked, aggregate=texts.query.aggregate)), self._reduced(texts, groups, number)

    def _texts(self, group: FileGroup) -> FederationText | str:
        """The two queries, tried out on no rows; or why there are none.

        Raises:
            LakewardenError: the query itself is refused.
        """
        if reason := reason_against(self.tree):
            return reason
        engine, limits, schema = self.context.engine, self.context.limits, self.table.schema
        nothing = for_duck(group.empty(), schema)
        result = engine.run(self.sql, {self.name: nothing}, limits)
        try:
            assert isinstance(self.tree, exp.Select), "a rule says so"
            alias = self.tree.args["from_"].this.alias_or_name
            query = split(self.tree, ColumnNames(schema.names, alias, self.tree))
            first = text_of(query.partial)
            parts = engine.run(first, {self.name: nothing}, limits)
            final = text_of(query.final(parts.types, result.types))
            made = engine.run(final, {PARTS: _named(query, parts.table)}, limits)
        except UnclearName as unclear:
            return str(unclear)
        except LakewardenError as error:
            return f"it cannot be divided: {error.message}"
        if made.types != result.types:
            return "the types of its result would change"
        return FederationText(query, first, final, tuple(result.columns), result.types)

    def _reduced(self, texts: FederationText, groups: Sequence[FileGroup], number: int | None) -> ResultRows:
        """`number` of the rows where nothing else of them counts, and the commits say it."""
        limits = self.context.limits
        until = monotonic() + limits.seconds
        if number is None:
            parts = self._parts(texts, groups, until)
        else:
            rows = nothing_but(number, self.pushdown.columns)
            parts = [self.context.engine.run(texts.partial, {self.name: rows}, limits)]
        rows = _named(texts.query, pa.concat_tables(part.table for part in parts))
        made = self.context.engine.run(texts.final, {PARTS: rows}, replace(limits, seconds=_left(until, limits)))
        return ResultRows(made.table.rename_columns(list(texts.names)), texts.types)

    def _parts(self, texts: FederationText, groups: Sequence[FileGroup], until: float) -> list[ResultRows]:
        context, limits = self.context, self.context.limits
        settings = context.warehouse.settings
        if context.services.trusts(context.principal) and len(groups) >= settings.federation.in_process_below:
            one = msgspec.structs.replace(settings.sql, threads=1)
            task = PartTask(texts.partial, self.name, self.table.schema, self.pushdown.bounds, one, limits)
            work = partial(in_one_step, partial(or_error, task))
            # the watch is called while the job runs, and ends it
            engine = context.services.operator().engine.watched(lambda _done, _total: _left(until, limits))
            done, failed = done_and_failed(engine.run_large(work, [SizedWork(group, group.bytes) for group in groups], 0))
            if failed is not None:
                raise failed
            return _bounded(done, limits)

        def part(group: FileGroup) -> ResultRows:
            _left(until, limits)  # what is still to be read is not read
            rows = _rows(group, self.table.schema, self.pushdown.bounds)
            return context.engine.run(texts.partial, {self.name: rows}, replace(limits, seconds=_left(until, limits)))

        with Threads(_AT_ONCE) as pool:
            try:
                return _bounded(pool.map(part, groups), limits)
            finally:
                pool.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class PartTask:
    """The query of a partition, in a task of Spark."""

    sql: str
    name: str
    schema: TableSchema
    bounds: tuple[Bound, ...]
    settings: SqlSettings
    limits: Limits

    def __call__(self, group: FileGroup) -> ResultRows:
        rows = _rows(group, self.schema, self.bounds)
        return engine_of_process(self.settings).run(self.sql, {self.name: rows}, self.limits)


def _rows(group: FileGroup, schema: TableSchema, bounds: Sequence[Bound]) -> pa.Table:
    return for_duck(rows_within(group.read(), bounds), schema)


def _named(query: FederatedQueries, rows: pa.Table) -> pa.Table:
    """The rows of the first query, by the names under which the second one knows its columns."""
    return rows.rename_columns(list(query.columns or (f"c{number}" for number in range(rows.num_columns))))


def _bounded(parts: Iterable[ResultRows], limits: Limits) -> list[ResultRows]:
    """The parts, which are taken until their rows are too many."""
    taken, size = [], 0
    for part in parts:
        size += part.table.nbytes
        if size > limits.result_bytes:
            raise Unsupported(f"the partitions' rows take more than {limits.result_bytes:,} bytes (sql.result_bytes)")
        taken.append(part)
    return taken


def _left(until: float, limits: Limits) -> float:
    limits.cancellation.check()
    left = until - monotonic()
    if left <= 0:
        raise Unsupported(f"the query takes more than {limits.seconds:g} seconds (sql.timeout_seconds)")
    return left
