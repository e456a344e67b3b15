"""Optimize: packs each scope's files to the target size, or clusters them by columns."""

from __future__ import annotations

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.kept_settings import check_ratio
from lakewarden.catalog.model import Table, TableSchema
from lakewarden.catalog.options import MAX_SIZE, MIN_SIZE
from lakewarden.errors import InvalidArgument
from lakewarden.maintenance.maintain import TableMaintenance
from lakewarden.maintenance.optimize import OptimizeOptions
from lakewarden.maintenance.optimize.scope import OPTIMIZE, plan_optimize, replan_optimize
from lakewarden.maintenance.optimize.zorder import check_columns
from lakewarden.maintenance.plans.needs import Need, to_optimize
from lakewarden.tables.predicate import check_predicate
from lakewarden.tables.warehouse import Warehouse


class OptimizeProcedure(TableMaintenance[OptimizeOptions]):
    operation = "optimize"
    commits = OPTIMIZE
    takes = OptimizeOptions

    plan = staticmethod(plan_optimize)
    replan = staticmethod(replan_optimize)

    def check(self, options: OptimizeOptions, subject: Scope | TableName, schema: TableSchema, retention_hours: float) -> None:
        check_columns(schema, options.zorder)
        check_ratio("ratio", options.ratio or 0)
        if options.where:
            check_predicate(schema, options.where)
        if options.target_file_size is not None and not MIN_SIZE <= options.target_file_size <= MAX_SIZE:
            raise InvalidArgument(f"target_file_size {options.target_file_size}: {MIN_SIZE} to {MAX_SIZE} bytes")

    def need(self, warehouse: Warehouse, table: Table, options: OptimizeOptions) -> Need | None:
        every = options.zorder or options.where or options.target_file_size
        return None if every else to_optimize(warehouse, table, options.tail_ratio, paced=options.scheduled)


PROCEDURE = OptimizeProcedure()
