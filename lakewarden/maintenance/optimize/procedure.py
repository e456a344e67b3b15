"""Optimize: packs files to the target size, or clusters all rows by columns. The rows stay the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain

import pyarrow as pa

from lakewarden.base.clock import Clock, NewId
from lakewarden.base.faults import Reach
from lakewarden.base.quantities import in_units
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.kept_settings import check_ratio
from lakewarden.catalog.model import Table, TableSchema
from lakewarden.catalog.options import MAX_SIZE, MIN_SIZE
from lakewarden.catalog.report import ScopePlan, ScopeReport, ScopeState
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import DataFile, NewFile
from lakewarden.delta.reading.rows import FileGroup
from lakewarden.delta.scope import open_scope
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.timeline import walk
from lakewarden.errors import InvalidArgument
from lakewarden.maintenance.maintain import TableMaintenance
from lakewarden.maintenance.optimize import OptimizeOptions
from lakewarden.maintenance.optimize.zorder import BinTask, check_columns, cut, outputs, write_bin
from lakewarden.maintenance.plans.select import Need, to_optimize
from lakewarden.maintenance.plans.still_planned import live_inputs, planned_table
from lakewarden.maintenance.rewrite import PartitionWork, live_schema
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.open import open_store
from lakewarden.tables.fanout import Run, SizedWork
from lakewarden.tables.predicate import check_predicate, files_where
from lakewarden.tables.upkeep_files import MIN_GAIN, RATIO, TARGET, ZORDER, Packing, pack_files, runs_to_cluster, why_not
from lakewarden.tables.warehouse import Warehouse

OPTIMIZE = "OPTIMIZE"
"""What its commits are stamped with."""


@dataclass(frozen=True, kw_only=True)
class OptimizeWork(PartitionWork):
    """`bins`, each within a partition, are rewritten: to one file each when packing, to several for a Z-order, which has a bin
    for each run of a partition's files."""

    operation = "optimize"
    commits = OPTIMIZE
    zorder: tuple[str, ...] = ()
    spread: Run | None = field(default=None, repr=False, compare=False)
    """Where the bins are written side by side; without it they are written here, one after the other."""
    bins: tuple[tuple[DataFile, ...], ...] = ()

    def is_larger(self, size: int) -> bool:
        return len(self.bins) > 1 and sum(file.size for packed in self.bins for file in packed) > size

    def spread_over(self, run: Run) -> OptimizeWork:
        return replace(self, spread=run)

    @property
    def inputs(self) -> tuple[DataFile, ...]:
        return tuple(chain(*self.bins))

    def parts(self, table: ScopeTable, target: ScopeTarget, reach: Reach) -> Iterator[pa.Table]:
        """Yields one bin after the other, so that no more than its rows are in memory."""
        for packed in self.bins:
            yield from cut(FileGroup.of(table, packed, target.schemas).read(), self.zorder, packed, target)

    def written(self, table: ScopeTable, target: ScopeTarget, clock: Clock, new_id: NewId, reach: Reach) -> tuple[NewFile, ...]:
        """Writes the bins side by side, where it has an engine for it."""
        if self.spread is None:
            return super().written(table, target, clock, new_id, reach)
        groups = (FileGroup.of(table, packed, target.schemas) for packed in self.bins)
        tasks = (BinTask(target, group, self.zorder, self.planned_at, clock) for group in groups)
        return tuple(chain(*self.spread(write_bin, [SizedWork(task, task.group.bytes, target.on_disk) for task in tasks])))

    def done(self, state: ScopeState, metrics: Mapping[str, int], files: tuple[str, ...], at: datetime) -> ScopeReport:
        return replace(super().done(state, metrics, files, at), reason=self.summary)


def plan_optimize(target: ScopeTarget, options: OptimizeOptions, *, now: datetime) -> OptimizeWork:
    """Chooses the files by the rule of tables/upkeep_files.py, or all of them for a Z-order.

    Raises:
        InvalidArgument: a column of the Z-order does not exist, or its type has no order; or `where` is not about partitions.
        Unsupported: another writer changed the table's columns, mapped them, or left deletion vectors or partitions.
    """
    check_columns(target.schema, options.zorder)
    target = replace(target, target_file_size=options.target_file_size or target.target_file_size)
    min_gain = target.rules.min_gain if options.min_gain is None else options.min_gain
    ratio = options.rule(target.rules.tail).ratio
    parameters = {TARGET: str(target.target_file_size), MIN_GAIN: str(min_gain), RATIO: str(ratio)}
    if options.zorder:
        parameters[ZORDER] = ",".join(options.zorder)
    table = open_scope(target)
    if table is None:
        return OptimizeWork(target=target, planned_at=now, parameters=parameters, nothing="nothing was flushed yet")
    live_target = live_schema(target, table)
    check_columns(live_target.schema, options.zorder)
    base = OptimizeWork(
        target=target,
        planned_at=now,
        table=table,
        parameters=parameters,
        zorder=options.zorder,
        where=options.where or "",
    )
    files = files_where(table, live_target.schema, base.where)
    if base.where and not files:
        return replace(base, nothing=f"no partition has {base.where}")
    return _clustering(base, table, files) if options.zorder else _packing(base, files, min_gain, ratio)


def _packing(base: OptimizeWork, files: Sequence[DataFile], min_gain: float, ratio: float) -> OptimizeWork:
    target_size = base.target.target_file_size
    packing = pack_files(files, target_size, ratio)
    return replace(
        base,
        nothing=why_not(files, target_size, min_gain, ratio),
        summary=_summary(packing),
        metrics={"files_added": len(packing.bins), "files_removed": len(packing.inputs), "bytes_removed": packing.bytes},
        files=tuple(file.path for file in packing.inputs),
        bins=packing.bins,
    )


def _summary(packing: Packing) -> str:
    left = packing.left()
    done = f"{len(packing.inputs)} files of {in_units(packing.bytes)} become {len(packing.bins)}"
    return f"{done}; left: {left}" if left else done


def _clustering(base: OptimizeWork, table: ScopeTable, files: Sequence[DataFile]) -> OptimizeWork:
    rows, size = sum(file.rows or 0 for file in files), sum(file.size for file in files)
    runs = runs_to_cluster(files, base.target.target_file_size)
    added = sum(outputs(sum(file.size for file in some), base.target) for some in runs)
    columns = ", ".join(base.zorder)
    nothing = ""
    if rows <= 1:
        nothing = f"it has {rows} row{'' if rows else 's'}, which no order can cluster"
    elif _clustered_already(open_store(table.location), table, files, base.zorder):
        nothing = f"its files are already clustered by {columns}, and none were added since"
    return replace(
        base,
        nothing=nothing,
        summary=f"{rows} rows in {len(files)} files of {in_units(size)} are clustered by {columns}",
        metrics={"files_added": added, "files_removed": len(files), "bytes_removed": size},
        files=tuple(file.path for file in files),
        bins=runs,
    )


def _clustered_already(store: ObjectStore, table: ScopeTable, files: Sequence[DataFile], columns: Sequence[str]) -> bool:
    """Whether the newest commit with one of these live files was this Z-order, and wrote all of them.

    Only the commits since then are read: one, where nothing came after it.
    """
    live = {file.path for file in files}
    for entry in walk(store, table.version):
        if added := live & entry.adds:
            done = entry.stamp.parameters.get(ZORDER) if entry.stamp and entry.operation == OPTIMIZE else None
            return added == live and done == ",".join(columns)
    return False


class OptimizeProcedure(TableMaintenance[OptimizeOptions]):
    operation = "optimize"
    commits = OPTIMIZE
    takes = OptimizeOptions

    plan = staticmethod(plan_optimize)

    def replan(
        self, target: ScopeTarget, options: OptimizeOptions, planned: ScopePlan, plan_id: str, *, now: datetime
    ) -> OptimizeWork:
        """Plans again with exactly these files, on the table as it is now.

        Raises:
            Moved: one of them is no longer live.
            InvalidArgument, Unsupported: as `plan_optimize`.
        """
        table = planned_table(target, planned)
        inputs = live_inputs(table, planned)
        sized = replace(target, target_file_size=int(planned.parameters[TARGET]))
        check_columns(live_schema(sized, table).schema, options.zorder)
        return OptimizeWork(
            target=sized,
            planned_at=now,
            table=table,
            parameters=planned.parameters,
            summary=planned.summary,
            metrics=planned.metrics,
            files=planned.files,
            zorder=options.zorder,
            where=options.where or "",
            # the files that stayed alone took no room from these, so they fall into the bins that were planned
            bins=runs_to_cluster(inputs, sized.target_file_size)
            if options.zorder
            else pack_files(inputs, sized.target_file_size).bins,
        )

    def check(self, options: OptimizeOptions, subject: Scope | TableName, schema: TableSchema, retention_hours: float) -> None:
        check_columns(schema, options.zorder)
        check_ratio("ratio", options.ratio or 0)
        if options.where:
            check_predicate(schema, options.where)
        if options.target_file_size is not None and not MIN_SIZE <= options.target_file_size <= MAX_SIZE:
            raise InvalidArgument(f"target_file_size {options.target_file_size}: {MIN_SIZE} to {MAX_SIZE} bytes")

    def need(self, warehouse: Warehouse, table: Table, options: OptimizeOptions) -> Need | None:
        every = options.zorder or options.where or options.target_file_size
        rule = options.rule(warehouse.rules(table).tail)
        return None if every else to_optimize(warehouse, table, rule, paced=options.scheduled)


PROCEDURE = OptimizeProcedure()
