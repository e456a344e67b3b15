"""Compact: merges the newest small files of a scope, or of each of its partitions, as flushes leave them, into one. The rows stay
the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, takewhile

import pyarrow as pa

from lakewarden.base.faults import Reach
from lakewarden.base.quantities import in_units
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.kept_settings import TailRule, check_ratio
from lakewarden.catalog.model import Table, TableSchema
from lakewarden.catalog.report import ScopePlan
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import DataFile, by_place, place_of
from lakewarden.delta.parquet.reading import open_file
from lakewarden.delta.reading.rows import FileGroup
from lakewarden.delta.scope import open_scope
from lakewarden.delta.table import ScopeTable
from lakewarden.maintenance.compact import CompactOptions
from lakewarden.maintenance.maintain import TableMaintenance
from lakewarden.maintenance.plans.select import Need, to_compact
from lakewarden.maintenance.plans.still_planned import live_inputs, planned_table
from lakewarden.maintenance.rewrite import PartitionWork, live_schema
from lakewarden.storage.open import open_store
from lakewarden.tables.predicate import check_predicate, files_where
from lakewarden.tables.upkeep_files import fitting, small_run
from lakewarden.tables.warehouse import Warehouse


@dataclass(frozen=True, kw_only=True)
class CompactWork(PartitionWork):
    """Each of `runs`, newest first and of one partition, is merged into one file."""

    operation = "compact"
    commits = "COMPACT"
    runs: tuple[tuple[DataFile, ...], ...] = ()

    @property
    def inputs(self) -> tuple[DataFile, ...]:
        return _files(self.runs)[::-1]

    def parts(self, table: ScopeTable, target: ScopeTarget, reach: Reach) -> Iterator[pa.Table]:
        for run in self.runs:
            rows = FileGroup.of(table, run[::-1], target.schemas).read()
            reach("after-read")
            yield rows

    def objection(self, newer: ScopeTable) -> str:
        """The next run takes all."""
        newest_first = by_place(newer.files()[::-1])
        stays = all(newest_first.get(place_of(run[0]), ())[: len(run)] == run for run in self.runs)
        return "" if stays else "the tail moved: a newer file was flushed meanwhile"


def plan_compact(target: ScopeTarget, options: CompactOptions, *, now: datetime) -> CompactWork:
    """Selects the tail.

    Raises:
        InvalidArgument: `where` is not about partitions.
        Unsupported: another writer changed the table's columns, or left deletion vectors or partitions.
    """
    table = open_scope(target)
    if table is None:
        return CompactWork(target=target, planned_at=now, nothing="nothing was flushed yet")
    table.check_plain()
    rule, where = options.rule(target.rules.tail), options.where or ""
    files = files_where(table, live_schema(target, table).schema, where) if where else table.files()
    tails = [_tail(target, table, newest_first, rule) for newest_first in by_place(files[::-1]).values()]
    runs = tuple(tail.selected for tail in tails if tail.selected)
    nothing = f"no partition has {where}" if where and not files else "" if runs else _why_not(tails, rule)
    return _plan(target, table, runs, now, parameters=_parameters(rule), nothing=nothing, where=where)


@dataclass(frozen=True)
class _Tail:
    """The newest files of a partition: how many are small, how many of these have the current schema, and those to merge."""

    small: int
    same_schema: int
    selected: tuple[DataFile, ...]


def _tail(target: ScopeTarget, table: ScopeTable, newest_first: tuple[DataFile, ...], rule: TailRule) -> _Tail:
    small = small_run(newest_first, rule)
    run = _same_schema(target, table, small) if len(small) >= rule.min_files else small
    return _Tail(len(small), len(run), fitting(run, rule))


def _plan(
    target: ScopeTarget,
    table: ScopeTable,
    runs: tuple[tuple[DataFile, ...], ...],
    now: datetime,
    *,
    parameters: Mapping[str, str],
    nothing: str = "",
    where: str = "",
) -> CompactWork:
    selected = _files(runs)
    rows, size = sum(file.rows or 0 for file in selected), sum(file.size for file in selected)
    become = "one" if len(runs) == 1 else f"{len(runs)}, one in each partition"
    return CompactWork(
        target=target,
        planned_at=now,
        table=table,
        parameters=parameters,
        nothing=nothing,
        summary=f"the {len(selected)} newest files, {rows} rows in {in_units(size)}, become {become}",
        metrics={"files_added": len(runs), "files_removed": len(selected), "bytes_removed": size, "rows_rewritten": rows},
        files=tuple(file.path for file in selected),
        runs=runs,
        where=where,
    )


def _files(runs: Sequence[Sequence[DataFile]]) -> tuple[DataFile, ...]:
    return tuple(chain(*runs))


def _parameters(rule: TailRule) -> dict[str, str]:
    return {
        "min_eligible_segments": str(rule.min_files),
        "max_segments_per_run": str(rule.max_files),
        "max_segment_rows": str(rule.max_rows),
        "ratio": str(rule.ratio),
    }


def _same_schema(target: ScopeTarget, table: ScopeTable, small: tuple[DataFile, ...]) -> tuple[DataFile, ...]:
    """The part of the run that was written under the table's current schema version, by the files' footers."""
    current = live_schema(target, table).schema.version
    store = open_store(target.location)
    return tuple(takewhile(lambda file: open_file(store, file.path).footer.schema_version == current, small))


def _why_not(tails: Sequence[_Tail], rule: TailRule) -> str:
    if len(tails) > 1:
        return f"none of its {len(tails)} partitions ends with {rule.min_files} small files that fit into one"
    small, same_schema = (tails[0].small, tails[0].same_schema) if tails else (0, 0)
    if same_schema >= rule.min_files and rule.ratio:
        return (
            f"of its {same_schema} newest small files no run of {rule.min_files} to {rule.max_files} has at most {rule.max_rows}"
            f" rows, and at its end a file of at most {rule.ratio:g} times the rows of the newer ones"
        )
    if same_schema >= rule.min_files:
        return f"the two newest of its {same_schema} small files have more than {rule.max_rows} rows together"
    if small >= rule.min_files:
        return f"{same_schema} of its {small} newest small files are of the current schema, and {rule.min_files} are needed"
    return f"its {small} newest files are small (fewer than {rule.max_rows} rows), and {rule.min_files} are needed"


class Compact(TableMaintenance[CompactOptions]):
    operation = "compact"
    commits = CompactWork.commits
    takes = CompactOptions

    plan = staticmethod(plan_compact)

    def replan(
        self, target: ScopeTarget, options: CompactOptions, planned: ScopePlan, plan_id: str, *, now: datetime
    ) -> CompactWork:
        """Plans again with exactly these files, on the table as it is now.

        Raises:
            Moved: one of them is no longer live.
        """
        table = planned_table(target, planned)
        runs = tuple(by_place(live_inputs(table, planned)[::-1]).values())
        return _plan(target, table, runs, now, parameters=planned.parameters, where=options.where or "")

    def check(self, options: CompactOptions, subject: Scope | TableName, schema: TableSchema, retention_hours: float) -> None:
        check_ratio("ratio", options.ratio or 0)
        if options.where:
            check_predicate(schema, options.where)

    def need(self, warehouse: Warehouse, table: Table, options: CompactOptions) -> Need | None:
        rule = options.rule(warehouse.rules(table).tail)
        return None if options.where else to_compact(warehouse, table, rule, paced=options.scheduled)


PROCEDURE = Compact()
