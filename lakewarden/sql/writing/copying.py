"""Has tasks of Spark compute the rows that a statement takes from a query, and write them to data files.

For the operator's statements into tables without a primary key, whose query takes the rows of one SHARED table with many bytes
one by one: no row passes through this process. Texts of others never run in an executor (docs/decisions/0029)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec
import pyarrow as pa
from sqlglot import exp

from lakewarden.base.clock import random_id
from lakewarden.catalog.model import SchemaColumn, Table
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import NewFile
from lakewarden.delta.reading.rows import FileGroup
from lakewarden.errors import LakewardenError
from lakewarden.log.position import WHOLE
from lakewarden.maintenance.open_table import open_table
from lakewarden.sql.context import Context
from lakewarden.sql.queries.federation import PartTask
from lakewarden.sql.queries.federation_shape import aggregates_rows, reason_against
from lakewarden.sql.queries.pushdown import Pushdown
from lakewarden.sql.queries.select import prepare
from lakewarden.sql.query_engine.engine import for_duck
from lakewarden.sql.results import ResultRows
from lakewarden.sql.writing.target import fitted_rows
from lakewarden.storage.steps import Steps
from lakewarden.tables.client import TableClient
from lakewarden.tables.direct.outputs import TaskOutput, remove_written, shuffled
from lakewarden.tables.direct.task_files import TaskNumbers, all_written, write_rows
from lakewarden.tables.direct.value import Reserve, TaskFiles
from lakewarden.tables.fanout import SizedWork
from lakewarden.tables.intake import TableIntake
from lakewarden.tables.partitions import Apart, read_apart


@dataclass(frozen=True)
class Copying:
    """A query whose rows tasks can compute."""

    context: Context
    source: Table
    name: str
    """The table's in `sql`."""
    sql: str
    pushdown: Pushdown
    shape: ResultRows
    """What the query returns of no rows: its columns and their types."""

    def into(self, client: TableClient, columns: Sequence[SchemaColumn]) -> TaskFiles:
        """Args:
        columns: of the table that is written, one for each column of the query.
        """
        return TaskFiles(partial(self._write, client, tuple(columns)))

    def _write(
        self, client: TableClient, columns: tuple[SchemaColumn, ...], target: ScopeTarget, reserve: Reserve
    ) -> list[NewFile]:
        made: list[NewFile] = []

        def copy(apart: Apart) -> list[NewFile]:
            remove_written(target, [TaskOutput(tuple(made))])  # of a first turn, if the table was moved meanwhile
            made[:] = self._copied(apart, client, columns, target, reserve)
            return made

        source = open_table(self.context.warehouse, self.source)
        return read_apart(partial(source.reader.target, None), self.pushdown.selection, self.context.warehouse.cold, copy)

    def _copied(
        self, apart: Apart, client: TableClient, columns: tuple[SchemaColumn, ...], target: ScopeTarget, reserve: Reserve
    ) -> list[NewFile]:
        settings = self.context.warehouse.settings
        one = msgspec.structs.replace(settings.sql, threads=1)
        limits = replace(self.context.limits, result_bytes=settings.sql.memory_bytes)
        part = PartTask(self.sql, self.name, self.source.schema, self.pushdown.bounds, one, limits)
        intake = TableIntake(client.table, client.warehouse.clock, random_id, client.author)
        tasks = [
            CopyTask(part, group, intake, columns, target, reserve(_rows_of(group)), _rows_of(group))
            for group in apart.packs(settings.federation.part_bytes)
        ]
        sized = [SizedWork(task, task.group.bytes) for task in tasks]
        in_tasks = self.context.services.operator().in_tasks
        written, _ = all_written(in_tasks, target, copy_rows, sized)
        return shuffled(in_tasks, target, written)


@dataclass(frozen=True)
class CopyTask:
    """A part of the source whose rows go into data files of the target. Picklable."""

    part: PartTask
    group: FileGroup
    intake: TableIntake
    columns: tuple[SchemaColumn, ...]
    target: ScopeTarget
    first_seq: int
    most: int
    """How many rows can be numbered."""


def copying_of(context: Context, query: exp.Query) -> Copying | None:
    """Returns None for a query whose rows this process has to compute.

    Raises:
        PermissionDenied, NotFound, InvalidArgument, Unsupported: the query is refused.
    """
    services = context.services
    if not services.trusts(context.principal) or not _row_by_row(query):
        return None
    prepared = prepare(context, query)
    if (
        prepared.past
        or len(prepared.pushdowns) != 1
        or not isinstance(prepared.tree, exp.Select)
        or reason_against(prepared.tree)
    ):
        return None
    ((relation, pushdown),) = prepared.pushdowns.items()
    table = None if context.temporary_table(relation.table) else context.readable.get(relation.table)
    if not isinstance(table, Table) or table.type != "SHARED":
        return None
    if table.schema.keyed and context.warehouse.log(table).view(("",)).pending_of(("",)):
        return None  # rows in the log may replace or hide rows of its files
    client = open_table(context.warehouse, table)
    large = context.warehouse.settings.flush.large_scope_bytes
    nothing = read_apart(
        partial(client.reader.target, None),
        pushdown.selection,
        context.warehouse.cold,
        lambda apart: apart.packs(1)[0].empty() if apart.plain and apart.files and apart.bytes >= large else None,
    )
    if nothing is None:
        return None
    shape = context.engine.run(prepared.sql, {str(relation): for_duck(nothing, table.schema)}, context.limits)
    return Copying(context, table, str(relation), prepared.sql, pushdown, shape)


def _row_by_row(query: exp.Query) -> bool:
    return (
        isinstance(query, exp.Select)
        and not aggregates_rows(query)
        and not any(map(query.args.get, ("limit", "offset", "order")))
    )


def copy_rows(task: CopyTask) -> Steps[tuple[TaskOutput, None] | LakewardenError]:
    """Holds the rows of one part in memory."""
    return write_rows(task.target, _rows(task), None)


def _rows(task: CopyTask) -> Generator[pa.Table, None, None]:
    found = task.part(task.group)
    given = fitted_rows(task.columns, found.types, found.table)
    too_many = "the query makes several rows of one, in a way that tasks cannot number; write it with LIMIT"
    yield TaskNumbers(task.target, task.first_seq, task.most, too_many).numbered(task.intake.completed(given, None))


def _rows_of(group: FileGroup) -> int:
    return WHOLE if any(file.rows is None for file in group.files) else sum(file.rows or 0 for file in group.files)
