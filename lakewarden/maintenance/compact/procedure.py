"""Compact: folds each scope's newest small files into one."""

from __future__ import annotations

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.kept_settings import check_ratio
from lakewarden.catalog.model import Table, TableSchema
from lakewarden.maintenance.compact import CompactOptions
from lakewarden.maintenance.compact.scope import plan_compact, replan_compact
from lakewarden.maintenance.maintain import TableMaintenance
from lakewarden.maintenance.plans.needs import Need, to_compact
from lakewarden.tables.predicate import check_predicate
from lakewarden.tables.warehouse import Warehouse


class Compact(TableMaintenance[CompactOptions]):
    operation = "compact"
    commits = "COMPACT"
    takes = CompactOptions

    plan = staticmethod(plan_compact)
    replan = staticmethod(replan_compact)

    def check(self, options: CompactOptions, subject: Scope | TableName, schema: TableSchema, retention_hours: float) -> None:
        check_ratio("ratio", options.ratio or 0)
        if options.where:
            check_predicate(schema, options.where)

    def need(self, warehouse: Warehouse, table: Table, options: CompactOptions) -> Need | None:
        return None if options.where else to_compact(warehouse, table, options.tail_ratio, paced=options.scheduled)


PROCEDURE = Compact()
